"""Ledgers and arguments that somebody wrote to do harm, through the commands that start no Spark."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.hostile import HOSTILE, assert_harmless
from tests.real.cli.conftest import Command, Outcome

from directkafka import SQLiteSink
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.sinks.api import LedgerEntry
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

#: What fits a command line, and a name.
NAMES = {what: text for what, text in HOSTILE.items() if len(text) < 1_000 and "\0" not in text and "surro" not in what}

FILE = """
[pipeline]
name = "flights"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
[[sink]]
type = "sqlite"
path = "ledger.db"
table = "flights"
"""


@pytest.fixture
def command(terminal: Command) -> Command:
    """A command whose output is looked at as well: it is a table for people, or JSON in ASCII."""

    def run(*arguments: str) -> Outcome:
        code, shown, messages = terminal(*arguments)
        assert_harmless(shown)
        return code, shown, messages

    return run


@pytest.fixture
def topic(create_topic: Callable[..., str]) -> str:
    return create_topic(2)


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, kafka_broker: KafkaBroker, topic: str) -> None:
    """A ledger in which every text is hostile, but for the topic that is there."""
    (tmp_path / "flights.toml").write_text(FILE.format(kafka=kafka_broker.bootstrap_servers, topic=topic))
    sink = SQLiteSink(tmp_path / "ledger.db", "flights")
    with closing(sink.store) as store:
        places = [TopicPartition(topic, 0), *(TopicPartition(text, 0) for text in NAMES.values())]
        entry = LedgerEntry(
            pipeline="flights",
            generation=store.fence("flights"),
            lineage="".join(NAMES.values()),
            batch_id=0,
            progress=tuple(sorted(PartitionProgress.at(partition, 3) for partition in places)),
            total_rows=dict.fromkeys(NAMES.values(), 1),
        )
        store.commit(entry, previous=None)
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        row = connection.execute("SELECT * FROM directkafka_ledger").fetchone()
        marks = ", ".join("?" * len(row))
        for text in NAMES.values():
            connection.execute(f"INSERT INTO directkafka_ledger VALUES ({marks})", (text, *row[1:]))


def test_pipelines_of_hostile_names_are_listed_as_text(command: Command) -> None:
    code, shown, messages = command("list", "--store", "sqlite:ledger.db")
    assert code == 0, messages
    assert "12 [/min]" in shown, "markup is text"
    code, shown, messages = command("list", "--store", "sqlite:ledger.db", "--format", "json")
    assert code == 0, messages
    assert shown.isascii()
    assert {json.loads(line)["pipeline"] for line in shown.splitlines()} == {"flights", *NAMES.values()}


@pytest.mark.parametrize("name", ["offsets", "lag", "topics"])
def test_topics_of_hostile_names_are_shown_as_text(command: Command, name: str, kafka_broker: KafkaBroker) -> None:
    named = ("--store", "sqlite:ledger.db", "--pipeline", "flights")
    for arguments in (named, (*named, "--format", "json"), ("flights.toml",)):
        code, shown, messages = command(name, *arguments)
        assert code == 0, messages
        assert "12 [/min]" in shown
    # A topic of such a name cannot be asked for.
    code, _, messages = command(name, *named, "--bootstrap-server", kafka_broker.bootstrap_servers)
    assert code in (1, 2), messages


#: One that forges a line, one that is markup, one that moves a cursor, one that turns text around; the other ones take
#: the same ways, and are slow.
QUICK = {"a forged log line", "bidi"}


@pytest.mark.parametrize(
    "what", [what if what in QUICK else pytest.param(what, marks=pytest.mark.slow) for what in NAMES]
)
def test_hostile_arguments_are_refused_with_what_they_are(command: Command, what: str, tmp_path: Path) -> None:
    text = NAMES[what]
    (tmp_path / "offsets.csv").write_text(f"{text},0,1\n")
    for arguments in (
        ("offsets", text),
        ("offsets", "--store", text, "--pipeline", "flights"),
        ("offsets", "--store", f"sqlite:{text}", "--pipeline", "flights"),
        ("offsets", "--store", "sqlite:ledger.db", "--pipeline", f"x{text}"),
        ("lag", "flights.toml", "--watch", text),
        ("list", "--store", f"postgresql://{text}"),
        ("reset", "flights.toml", "--to-earliest", "--topic", text),
        ("reset", "flights.toml", "--to-datetime", text),
        ("reset", "flights.toml", "--by-duration", text),
        ("reset", "flights.toml", "--from-file", text),
        ("reset", "flights.toml", "--from-file", "offsets.csv"),
    ):
        code, shown, messages = command(*arguments)
        assert code in (1, 2), (arguments, messages)
        assert (shown, "error" in messages.lower()) == ("", True), arguments


@pytest.mark.slow
def test_a_reset_is_told_beside_a_hostile_ledger(command: Command) -> None:
    for arguments in ((), ("--format", "json"), ("--yes",)):
        code, _, messages = command("reset", "flights.toml", "--to-earliest", *arguments)
        assert code == 0, messages
