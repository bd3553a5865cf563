"""Dead letters through a mended transform: each once, whatever is rejected again stays with the new reason."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.real.pipeline.conftest import COUNT, World

from directkafka import DuckDBSink, Pipeline, PostgresSink, SQLiteSink
from directkafka.errors import OptionError
from directkafka.pipeline.replay.report import ReasonCount
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real

NUMBER = "CAST(CAST(value AS STRING) AS BIGINT)"
ROUND = list(range(0, COUNT, 10))


def query(rejected: str, reason: str = "concat(CAST(value AS STRING), ' is round')") -> str:
    return (
        f"SELECT topic, partition, offset, {NUMBER} AS number, "
        f"CASE WHEN {rejected} THEN {reason} END AS dead_letter_reason FROM source"
    )


EVERY_TENTH = query(f"{NUMBER} % 10 = 0")


def dead_letters(world: World) -> list[tuple[Any, ...]]:
    return world.query("SELECT convert_from(value, 'UTF8')::int, reason, replays FROM rejected ORDER BY 1")


def test_letters_leave_with_their_rows_and_those_that_are_rejected_again_stay(world: World) -> None:
    sink = PostgresSink(world.dsn, "rejected")
    source = {"includeHeaders": "true"}
    world.pipeline(EVERY_TENTH, dead_letters=sink, source=source).run()
    bytes_before = world.query('SELECT topic, partition, "offset", timestamp, key, value, headers FROM rejected')
    reports: list[Any] = []

    still = query(f"{NUMBER} % 20 = 0", "'still round'")
    mended = world.pipeline(still, dead_letters=PostgresSink(world.dsn, "rejected"), source=source)
    summary = mended.replay(report=reports.append)
    again = [number for number in ROUND if number % 20 == 0]
    assert (summary.letters, summary.rejected) == (len(ROUND), len(again))
    assert ReasonCount(reason="still round", letters=0, rejected=len(again)) in summary.reasons
    assert world.numbers() == [number for number in range(COUNT) if number not in again]
    assert dead_letters(world) == [(number, "still round", 1) for number in again]
    kept = world.query('SELECT topic, partition, "offset", timestamp, key, value, headers FROM rejected')
    assert {str(row) for row in kept} <= {str(row) for row in bytes_before}
    assert [(report.letters, report.rejected, report.left) for report in reports] == [(len(ROUND), len(again), 0)]

    # What is left is tried once more in a second replay, and counted on.
    assert mended.replay().rejected == len(again)
    assert dead_letters(world) == [(number, "still round", 2) for number in again]
    assert all(finding.is_right for finding in verify(mended))


@pytest.mark.slow
def test_a_choice_leaves_the_other_letters_as_they_are(world: World) -> None:
    world.pipeline(EVERY_TENTH, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    mended = world.pipeline(dead_letters=PostgresSink(world.dsn, "rejected"))
    before = dead_letters_as_they_came(world)
    dry = mended.replay(dry_run=True, topic=world.topic, limit=4)
    assert (dry.letters, dry.is_dry, dry.replayed) == (4, True, 0)
    assert dead_letters_as_they_came(world) == before, "a dry run changes nothing, not even the table's columns"

    assert mended.replay(reason="10 is round").as_records() == [
        {"reason": "10 is round", "letters": 1, "rejected_again": 0}
    ]
    assert mended.replay(limit=2).letters == 2
    assert mended.replay(until="2000-01-01T00:00:00Z").letters == 0
    partition, offset = world.query('SELECT partition, "offset" FROM rejected LIMIT 1')[0]
    choice = {"topic": world.topic, "partition": partition}
    assert mended.replay(**choice, until_offset=offset + 1, from_offset=offset).letters == 1
    assert len(dead_letters(world)) == len(ROUND) - 4
    assert len(world.numbers()) == COUNT - len(dead_letters(world))


def dead_letters_as_they_came(world: World) -> list[tuple[Any, ...]]:
    return world.query('SELECT * FROM rejected ORDER BY topic, partition, "offset"')


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_letters_in_a_file_are_replayed_into_another_store_and_keep_their_bytes(
    world: World, tmp_path: Path, kind: str
) -> None:
    make = SQLiteSink if kind == "sqlite" else DuckDBSink
    source = {"includeHeaders": "true"}
    world.pipeline(EVERY_TENTH, dead_letters=make(tmp_path / "air", "rejected"), source=source).run()
    sink = make(tmp_path / "air", "rejected")
    columns = 'topic, "partition", "offset", CAST("timestamp" AS VARCHAR), key, value, headers'
    with sink.store.opened() as connection:
        before = connection.rows(f'SELECT {columns} FROM rejected ORDER BY "partition", "offset"')
    rejecting = world.pipeline(EVERY_TENTH, dead_letters=make(tmp_path / "air", "rejected"), source=source)
    assert rejecting.replay().rejected == len(ROUND)
    with sink.store.opened() as connection:
        after = connection.rows(f'SELECT {columns}, replays FROM rejected ORDER BY "partition", "offset"')
    assert after == [(*row, 1) for row in before]
    mended = world.pipeline(dead_letters=make(tmp_path / "air", "rejected"), source=source)
    assert mended.replay().replayed == len(ROUND)
    assert world.numbers() == list(range(COUNT))
    assert sink.recount().rows == 0


@pytest.mark.slow
def test_a_store_that_has_lost_a_batch_of_dead_letters_is_told_of(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its rows cannot be made again: the dead letters' store comes last, and they have left it."""
    path = tmp_path / "air"

    def pipeline(transform: str) -> Pipeline:
        letters = PostgresSink(world.dsn, "rejected")
        return world.pipeline(transform, sinks=SQLiteSink(path, "records"), dead_letters=letters)

    pipeline(EVERY_TENTH).run()
    mended = pipeline(query("false"))
    assert mended.replay(limit=2).replayed == 2
    assert not caplog.records
    with closing(sqlite3.connect(path)) as connection, connection:
        batch_id = world.batch_id("numbers.replay")
        changed = connection.execute(
            "UPDATE directkafka_ledger SET batch_id = batch_id - 1 WHERE (pipeline, batch_id) = (?, ?)",
            ("numbers.replay", batch_id),
        )
        assert changed.rowcount == 1
    assert mended.replay(limit=2).replayed == 2
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert f"had batch {batch_id} and has lost it" in record.getMessage()
    assert str(path) in record.getMessage()


@pytest.mark.slow
def test_a_pipeline_under_another_engine_is_replayed_unless_its_state_is_in_the_checkpoint(
    world: World, tmp_path: Path
) -> None:
    world.pipeline(EVERY_TENTH, dead_letters=PostgresSink(world.dsn, "rejected")).run()
    engine = {"engine": "structured", "checkpoint": str(tmp_path / "checkpoint")}
    grouped = "SELECT topic, partition, offset, count(*) AS number FROM source GROUP BY ALL"
    with pytest.raises(OptionError, match="its state is in the checkpoint"):
        world.pipeline(grouped, dead_letters=PostgresSink(world.dsn, "rejected"), **engine).replay()
    assert world.pipeline(dead_letters=PostgresSink(world.dsn, "rejected"), **engine).replay().replayed == len(ROUND)
    assert world.numbers() == list(range(COUNT))
