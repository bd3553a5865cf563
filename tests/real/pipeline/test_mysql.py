"""Pipelines and queries into MySQL (here MariaDB) through Spark; tests/contract and tests/chaos have its commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.mysql_harness import MySQLHarness
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.structured_world import Streams

from directkafka import MySQLSink, Pipeline, PostgresSink
from directkafka.errors import LineageError
from directkafka.pipeline.structured.restart_pipeline import restart_pipeline
from directkafka.pipeline.verify import verify
from directkafka.sinks.dead_letters.table import DeadLetters

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROUND = list(range(0, COUNT, 10))
ACCEPTED = [number for number in range(COUNT) if number not in ROUND]

FILE = (
    """
[pipeline]
name = "numbers"
trigger = "available-now"

[source]
"kafka.bootstrap.servers" = "{kafka}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = "30"
includeHeaders = "true"

[transform]
sql = """
    + '"""'
    + """SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number,
    CASE WHEN {rejected} THEN concat(CAST(value AS STRING), ' is round') END AS dead_letter_reason FROM source"""
)
FILE += (
    '"""'
    + """

[[sink]]
type = "mysql"
dsn = "${{DSN}}"
table = "records"
inline_bytes_max = {inline_bytes_max}

[dead_letters]
type = "mysql"
dsn = "${{DSN}}"
table = "rejected"
"""
)


@pytest.fixture
def harness(mysql_database: str) -> MySQLHarness:
    return MySQLHarness(mysql_database)


def numbers(harness: MySQLHarness) -> list[Any]:
    return [number for (number,) in harness.query("SELECT number FROM records ORDER BY number")]


def dead_letters(harness: MySQLHarness) -> list[tuple[Any, ...]]:
    return harness.query("SELECT CAST(value AS SIGNED) AS number, reason FROM rejected ORDER BY 1")


@pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["held", "staged"])
def test_a_file_s_pipeline_runs_and_its_dead_letters_are_replayed(
    inline_bytes_max: int, world: World, harness: MySQLHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSN", harness.dsn)
    path = tmp_path / "numbers.toml"

    def pipeline(rejected: str) -> Pipeline:
        known = {"kafka": world.kafka, "topic": world.topic, "inline_bytes_max": inline_bytes_max}
        path.write_text(FILE.format(rejected=rejected, **known))
        return Pipeline.from_toml(path)

    pipeline("CAST(value AS STRING) LIKE '%0'").check()
    for _ in range(2):  # the second run finds nothing to do
        pipeline("CAST(value AS STRING) LIKE '%0'").run()
    assert numbers(harness) == ACCEPTED
    assert dead_letters(harness) == [(number, f"{number} is round") for number in ROUND]
    assert harness.leftovers() == []
    shown = DeadLetters(MySQLSink(harness.dsn, "rejected").dead_letters(), "numbers")
    assert shown.count() == len(ROUND)
    assert shown.common_reasons(1_000) == {f"{number} is round": 1 for number in ROUND}
    assert [letter.value for letter in shown.examples(9, bytes_max=1, reason="50 is round")] == [b"5"]

    mended = pipeline("CAST(value AS STRING) = '50'")
    summary = mended.replay()
    assert (summary.letters, summary.rejected) == (len(ROUND), 1)
    assert dead_letters(harness) == [(50, "50 is round")]
    assert numbers(harness) == [number for number in range(COUNT) if number != 50]
    findings = verify(mended)
    assert len(findings) == 2
    assert all(finding.is_right for finding in findings), findings


def test_rows_of_a_key_become_the_newest_one_beside_another_database(world: World, harness: MySQLHarness) -> None:
    """Two stores, each with its own ledger: one of them has everything, one the last number of each partition."""
    newest = MySQLSink(harness.dsn, "newest", "upsert", ["partition"], order=["offset"])
    for _ in range(2):
        world.pipeline(sinks=[PostgresSink(world.dsn, "records"), newest]).run()
    assert world.numbers() == list(range(COUNT))
    last = world.query("SELECT partition, max(number) FROM records GROUP BY 1 ORDER BY 1")
    assert harness.query("SELECT `partition`, number FROM newest ORDER BY 1") == last


def test_a_query_s_batches_are_there_once_whatever_spark_forgets(streams: Streams, harness: MySQLHarness) -> None:
    streams.run(sinks=MySQLSink(harness.dsn, "records"))
    assert numbers(harness) == list(range(COUNT))
    last = streams.done()
    streams.forget_done(last)
    streams.produce(range(COUNT, COUNT + 12))
    streams.run(sinks=MySQLSink(harness.dsn, "records"))
    assert numbers(harness) == list(range(COUNT + 12))
    assert harness.query("SELECT lineage, batch_id FROM directkafka_ledger") == [(streams.lineage(), last + 1)]


def test_a_deleted_checkpoint_is_an_error_and_a_restart_goes_on_where_the_ledger_ends(
    streams: Streams, harness: MySQLHarness
) -> None:
    world = streams.world
    sink = MySQLSink(harness.dsn, "records")
    pipeline = world.pipeline(sinks=sink, engine="structured", checkpoint=streams.checkpoint)
    pipeline.run()
    streams.delete_checkpoint()
    streams.produce(range(COUNT, COUNT + 12))
    with pytest.raises(LineageError):
        pipeline.run()
    streams.delete_checkpoint()
    restart_pipeline(pipeline, origin="ledger", confirm=True)
    pipeline.run()
    assert numbers(harness) == list(range(COUNT + 12))
