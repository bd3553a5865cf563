"""The examples that each command's ``--help`` has, run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.real.cli.conftest import Command
from tests.topics import make_topic
from tests.waiting import WAIT_S

from directkafka import Pipeline, PostgresSink
from directkafka.cli import all_commands, app, commands, dashboard_command
from directkafka.cli.demo.show import DemoResult
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

FLIGHTS = '''
[pipeline]
name = "flights"
trigger = "available-now"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "flights"
startingOffsets = "earliest"
[transform]
sql = """
SELECT topic, partition, offset, timestamp, IF(offset % 10 = 3, 'no number', NULL) AS dead_letter_reason FROM source
"""
[[sink]]
type = "sqlite"
path = "flights.db"
table = "flights"
[dead_letters]
type = "sqlite"
path = "flights.db"
table = "rejected"
'''
ORDERS = FLIGHTS.replace('"flights"', '"orders"').replace("flights.db", "orders.db")
WINDOWS = """
[pipeline]
name = "windows"
trigger = "available-now"
engine = "structured"
checkpoint = "{folder}/checkpoint"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "flights"
startingOffsets = "earliest"
[transform]
sql = "SELECT topic, partition, offset FROM source"
[[sink]]
type = "sqlite"
path = "windows.db"
table = "windows"
"""

#: What an example takes for granted, in this order; the others may come in any.
FIRST = (
    "run",
    "check",
    "offsets",
    "lag",
    "topics",
    "list",
    "verify",
    "replay",
    "pause",
    "resume",
    "checkpoint",
    "adopt",
)
LAST = ("restart", "reset", "dashboard", "drop", "demo")


def examples() -> dict[str, list[str]]:
    """The lines of each command, by its name."""
    lines_by_command = {}
    for command in app.app.registered_commands:
        assert command.callback is not None
        lines = [line.strip() for line in (command.epilog or "").splitlines()]
        name = command.name or command.callback.__name__
        lines_by_command[name] = [
            line.removeprefix("directkafka ") for line in lines if line.startswith("directkafka ")
        ]
    return lines_by_command


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with KafkaBroker() as broker:
        for topic in ("flights", "orders"):
            make_topic(broker.bootstrap_servers, topic, 2)
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
            for number in range(500):
                producer.produce(topic, b"%d" % number, partition=number % 2)
            assert producer.flush(WAIT_S) == 0
        for name, text in (("flights", FLIGHTS), ("orders", ORDERS), ("windows", WINDOWS)):
            # Not format(): SQL and TOML have braces of their own.
            known = text.replace("{kafka}", broker.bootstrap_servers).replace("{folder}", str(tmp_path))
            (tmp_path / f"{name}.toml").write_text(known)
        yield broker


@pytest.fixture
def command(spark: SparkSession, terminal: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command on the session's Spark; one that would go on for ever ends after its first round."""

    def end_at_once(*_: object) -> None:
        raise typer.Exit

    monkeypatch.setattr(commands, "claim_stdout", lambda: None)
    monkeypatch.setattr(dashboard_command, "_wait_for", end_at_once)
    monkeypatch.setattr("directkafka.cli.offset_commands.time", SimpleNamespace(sleep=end_at_once))
    return terminal


def read(line: str, here: dict[str, str]) -> tuple[list[str], str | None]:
    """The words of an example, with this machine's addresses, and the file that its output goes to."""
    for told, meant in here.items():
        line = line.replace(told, meant)
    match = re.fullmatch(r"([^|>]*?)(?: \| jq .*| > (\S+))?", line)
    assert match is not None
    arguments = shlex.split(match[1])
    if arguments[0] == "dashboard" and "--http" not in arguments:
        arguments += ["--http", "127.0.0.1:0"]
    return arguments, match[2]


def test_every_command_has_examples() -> None:
    lines_by_command = examples()
    assert [name for name, lines in lines_by_command.items() if not lines] == []
    assert set(lines_by_command) == {*FIRST, *LAST}
    assert {line.split()[0] for lines in lines_by_command.values() for line in lines} == set(lines_by_command)


def test_every_example_runs(
    command: Command, broker: KafkaBroker, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demos: list[dict[str, Any]] = []

    def run_demo(**options: Any) -> DemoResult:
        demos.append(options)
        return DemoResult(
            records_in=1, rows_out=1, lost=0, doubled=0, totals_equal=True, kills=0,
            records_per_second=1, seconds=1,
        )  # fmt: skip

    monkeypatch.setattr("directkafka.cli.demo.run_demo", run_demo)
    source = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders", "startingOffsets": "earliest"}
    Pipeline("elsewhere", source=source, sinks=PostgresSink(database, "orders"), trigger="available-now").run()
    for name in ("windows.toml", "orders.toml"):
        code, _, messages = command("run", name)
        assert code == 0, messages

    here = {
        "localhost:9092": broker.bootstrap_servers,
        "postgresql://localhost/flights": database,
        "/data/checkpoints/flights": f"{tmp_path}/checkpoint",
        "s3://bucket/checkpoints/flights": f"{tmp_path}/checkpoint",
        "127.0.0.1:9464": "127.0.0.1:0",
        "127.0.0.1:8081": "127.0.0.1:0",
    }

    def example(line: str) -> None:
        arguments, file_name = read(line, here)
        code, shown, messages = command(*arguments)
        assert code == 0, f"{line}: {messages}"
        if file_name:
            (tmp_path / file_name).write_text(shown)

    lines_by_command = examples()
    windows = tmp_path / "windows.toml"
    for name in (*FIRST, *LAST):
        if name == "restart":
            # What its ledger is to go on from is an empty checkpoint, as for a user who has lost it.
            windows.write_text(windows.read_text().replace("/checkpoint", "/another"))
        for line in lines_by_command[name]:
            if "--from checkpoint" in line:
                assert command("run", windows.name)[0] == 0
            example(line)
    assert demos == [
        {"keep": False, "kills": 3, "seed": None}, {"keep": True, "kills": 5, "seed": 7},
    ]  # fmt: skip


def test_the_examples_are_those_of_the_modules_that_register_commands() -> None:
    modules = {command.callback.__module__ for command in app.app.registered_commands if command.callback}
    assert {module.rpartition(".")[2] for module in modules} == set(all_commands.__all__)
