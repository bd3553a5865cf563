"""Records, names and reasons that somebody wrote to do harm, through every command: they are shown, and do nothing."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.hostile import HOSTILE, assert_harmless
from tests.real.cli.conftest import Command

from directkafka.cli import commands
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

PATIENCE_S = 240

FILE = """
[pipeline]
name = "{name}"
trigger = "available-now"
[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"
[transform]
sql = {sql}
[[sink]]
type = "sqlite"
path = "rows.db"
table = {table}
[dead_letters]
type = "sqlite"
path = "rows.db"
table = "letters"
"""
#: Every value is the reason why its own record is rejected, but for the first one's.
REJECTED = (
    "SELECT topic, partition, offset, string(value) AS text, CASE WHEN offset > 0 THEN string(value) END AS "
    "dead_letter_reason FROM source"
)


@pytest.fixture(scope="module")
def values() -> list[bytes]:
    return [b"good", *(text.encode(errors="surrogatepass") for text in HOSTILE.values()), b"\xff\xfe\x00\xc3"]


@pytest.fixture
def topic(kafka_broker: KafkaBroker, create_topic: Callable[..., str], values: list[bytes]) -> str:
    from confluent_kafka import Producer

    name = create_topic()
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "message.max.bytes": 2_000_000})
    for value in values:
        producer.produce(name, value, key=value[:1_000])
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def write(tmp_path: Path, kafka_broker: KafkaBroker, topic: str) -> Callable[..., Path]:
    def write(sql: str = REJECTED, *, table: str = "rows", name: str = "hostile") -> Path:
        path = tmp_path / f"{name}.toml"
        shown = json.dumps(table.encode(errors="replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
        broker = kafka_broker.bootstrap_servers
        path.write_text(FILE.format(name=name, kafka=broker, topic=topic, sql=json.dumps(sql), table=shown))
        return path

    return write


@pytest.fixture
def command(spark: SparkSession, terminal: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command on the session's Spark."""
    monkeypatch.setattr(commands, "claim_stdout", lambda: None)
    return terminal


def test_hostile_records_go_through_every_command(
    command: Command, write: Callable[..., Path], values: list[bytes]
) -> None:
    file = str(write())
    code, shown, messages = command("run", file, "--format", "json")
    assert code == 0, messages
    assert all(line.isascii() and json.loads(line) for line in shown.splitlines())

    code, shown, messages = command("replay", file, "--dry-run")
    assert code == 0, messages
    assert_harmless(shown)
    assert "12 [/min]" in shown, "markup is text"
    code, shown, messages = command("replay", file, "--dry-run", "--format", "json")
    assert code == 0, messages
    assert shown.isascii()
    reasons = {json.loads(line)["reason"] for line in shown.splitlines()}
    assert len(reasons) == len(values) - 1
    for what, value in HOSTILE.items():
        # No NUL goes into Postgres, and a dead letter must not stop its pipeline, wherever it goes.
        told = value.replace("\0", "\ufffd")
        assert told in reasons or what == "a lone surrogate", f"{what} is not what the record has"

    code, shown, messages = command("verify", file)
    assert code == 0, messages
    assert_harmless(shown)
    code, shown, messages = command("replay", file)
    assert code == 0, messages
    assert_harmless(shown)


@pytest.mark.slow
def test_hostile_ledgers_and_checkpoints_go_through_adopt_and_restart(
    command: Command, write: Callable[..., Path], tmp_path: Path
) -> None:
    """A checkpoint's id comes from the store, a topic's name from the checkpoint's folder: others may write to both."""
    file = write("SELECT topic, partition, offset, string(value) AS text FROM source")
    checkpoint = tmp_path / "check [/min] \u202e\u200b point"
    engine = f'engine = "structured"\ncheckpoint = {json.dumps(str(checkpoint), ensure_ascii=False)}\n[source]'
    file.write_text(file.read_text().replace("[source]", engine))
    code, _, messages = command("run", str(file))
    assert code == 0, messages
    named = [value for what, value in HOSTILE.items() if len(value) < 1_000 and what != "a lone surrogate"]
    with closing(sqlite3.connect(tmp_path / "rows.db", isolation_level=None)) as ledger:
        assert ledger.execute("UPDATE directkafka_ledger SET lineage = ?", ["".join(named)]).rowcount > 0
    code, shown, messages = command("adopt", str(file))
    assert_harmless(shown)
    assert code == 0, messages
    assert "12 [/min]" in messages, "the checkpoint that the ledger follows is named"

    for offsets in (checkpoint / "offsets").glob("[0-9]*"):
        lines = offsets.read_text().splitlines()
        offsets.write_text("\n".join([*lines[:-1], json.dumps({value: {"0": 7} for value in named})]))
        (offsets.parent / f".{offsets.name}.crc").unlink(missing_ok=True)
    for arguments in (("adopt",), ("restart",), ("restart", "--from", "checkpoint"), ("run",)):
        code, shown, messages = command(arguments[0], str(file), *arguments[1:])
        assert_harmless(shown)
        assert (code == 0) == (not any(line.startswith("error ") for line in messages.splitlines())), messages


@pytest.mark.parametrize(
    "what", ["a forged note", "a forged log line", "markup", "a window's title", "bidi", "NUL", "a line of a megabyte"]
)
def test_a_transform_that_fails_on_a_hostile_record_says_so_and_no_more(
    command: Command, write: Callable[..., Path], what: str
) -> None:
    """The record's text is in Spark's own message, in the middle of a trace that the driver reads."""
    offset = list(HOSTILE).index(what) + 1
    sql = f"SELECT offset, CASE WHEN offset = {offset} THEN raise_error(string(value)) END AS text FROM source"
    code, shown, messages = command("run", str(write(sql)))
    assert (code, shown) == (1, ""), "a failed transform is worth another start, whatever the record says"
    [error] = [line for line in messages.splitlines() if line.startswith("error ")]
    assert "transform" in error
    assert len(messages) < 60_000


@pytest.mark.parametrize("what", [name for name, value in HOSTILE.items() if len(value) < 1_000])
def test_a_hostile_name_of_a_table_is_taken_or_told(command: Command, write: Callable[..., Path], what: str) -> None:
    code, shown, messages = command("check", str(write(table=HOSTILE[what])))
    assert code in (0, 1, 2), messages
    assert_harmless(shown)
    assert (code == 0) == ("error " not in messages)


@pytest.mark.slow
def test_hostile_records_do_nothing_to_a_terminal_of_a_process_of_its_own(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    """With Spark's own lines, which hold the records of a failed task too."""
    failing = "SELECT offset, raise_error(string(value)) AS text FROM source WHERE offset > 0"
    for arguments, code in (
        (("run", str(write())), 0),
        (("replay", str(write()), "--dry-run"), 0),
        (("run", str(write(failing, name="failing"))), 1),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "directkafka", *arguments],
            cwd=tmp_path, capture_output=True, check=False, timeout=PATIENCE_S, text=True, errors="surrogateescape",
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-4000:]
        assert_harmless(done.stdout)
        assert_harmless(done.stderr)
