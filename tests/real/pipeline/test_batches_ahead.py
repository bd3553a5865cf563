"""Batches that are computed while the one before is committed, on the real things: which may be, and what is left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.real.pipeline.conftest import COUNT, QUERY, World

from directkafka import PostgresSink, SQLiteSink
from directkafka.errors import StoreUnavailableError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.pipeline.direct import batch_planner
from directkafka.pipeline.execution.batch_writer import BatchWriter
from directkafka.pipeline.execution.transform import reads_alone
from directkafka.sinks.api import BatchAttempt
from directkafka.sinks.postgres.store import PostgresStore

pytestmark = pytest.mark.real


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the batches that began ahead of time."""
    numbers: list[int] = []
    begin = BatchWriter.begin

    def noted(self: BatchWriter, name: BatchAttempt, tasks: Sequence[RangeTask], *, stores: Collection[str]) -> Any:
        numbers.append(name.batch_id)
        return begin(self, name, tasks, stores=stores)

    monkeypatch.setattr(BatchWriter, "begin", noted)
    # On a busy machine a batch takes longer than what was seen of the brokers counts as new.
    monkeypatch.setattr(batch_planner, "_SNAPSHOT_AGE_MS_MAX", 3_600_000)
    return numbers


@pytest.fixture
def source(spark: SparkSession) -> Iterator[DataFrame]:
    frame = spark.range(5).selectExpr("id", "CAST(id AS STRING) AS value")
    frame.createOrReplaceTempView("ahead_source")
    spark.createDataFrame([(1, "one")], "id BIGINT, name STRING").createOrReplaceTempView("ahead_names")
    yield frame
    spark.catalog.dropTempView("ahead_source")
    spark.catalog.dropTempView("ahead_names")


@pytest.mark.parametrize(
    ("query", "alone"),
    [
        ("SELECT upper(value) FROM ahead_source WHERE id > 1", True),
        ("SELECT one.id FROM ahead_source one JOIN ahead_source two USING (id)", True),
        ("SELECT count(*) FROM ahead_source", True),
        ("WITH few AS (SELECT * FROM ahead_source WHERE id > 1) SELECT one.id FROM few one JOIN few USING (id)", True),
        ("WITH names AS (SELECT * FROM ahead_names) SELECT name FROM ahead_source JOIN names USING (id)", False),
        (
            "WITH a AS (SELECT * FROM ahead_source WHERE id IN (SELECT id FROM ahead_names)) SELECT * FROM a",
            False,
        ),
        ("SELECT name FROM ahead_source JOIN ahead_names USING (id)", False),
        ("SELECT value FROM ahead_source WHERE id IN (SELECT id FROM ahead_names)", False),
        ("SELECT (SELECT max(id) FROM ahead_names) AS newest FROM ahead_source", False),
        ("SELECT value FROM ahead_source UNION ALL SELECT name FROM ahead_names", False),
        ("SELECT name FROM ahead_names", False),
    ],
)
def test_a_query_is_alone_if_it_reads_the_source_and_nothing_else(
    spark: SparkSession, source: DataFrame, query: str, alone: bool
) -> None:
    assert reads_alone(spark.sql(query), source) == alone


@pytest.mark.parametrize("inline_bytes_max", [64 * 1024 * 1024, 0], ids=["by driver", "staged"])
def test_batches_that_wait_are_computed_while_the_ones_before_are_committed(
    world: World, ahead: list[int], inline_bytes_max: int
) -> None:
    world.pipeline(sinks=PostgresSink(world.dsn, "records", inline_bytes_max=inline_bytes_max)).run()
    assert ahead == [2, 3]
    assert world.numbers() == list(range(COUNT))
    assert world.query("SELECT relname FROM pg_class WHERE relname LIKE 'directkafka_stage%'") == []


def test_a_file_keeps_two_batches_apart(world: World, ahead: list[int], tmp_path: Path) -> None:
    sink = SQLiteSink(tmp_path / "numbers.db", "records", inline_bytes_max=0)
    world.pipeline(sinks=sink).run()
    assert ahead == [2, 3]
    assert sink.recount().rows == COUNT
    assert [file.name for file in tmp_path.iterdir() if "staging" in file.name] == []


def test_a_function_is_called_after_the_commit_since_nobody_knows_what_it_reads(world: World, ahead: list[int]) -> None:
    seen: list[int] = []

    def transform(source: DataFrame) -> DataFrame:
        seen.append(len(world.numbers()) if world.query("SELECT to_regclass('records')") != [(None,)] else 0)
        return source.sparkSession.sql(QUERY)

    world.pipeline(transform).run()
    assert ahead == []
    assert seen[-3:] == [0, 30, 60]


@pytest.mark.parametrize(
    "inline_bytes_max", [pytest.param(64 * 1024 * 1024, marks=pytest.mark.slow), 0], ids=["by driver", "staged"]
)
def test_a_batch_ahead_is_given_up_with_the_commit_before_it(
    world: World, ahead: list[int], monkeypatch: pytest.MonkeyPatch, inline_bytes_max: int
) -> None:
    commit, failures = PostgresStore.commit, [StoreUnavailableError(store="here", cause="gone fishing")]

    def fail_once(self: PostgresStore, entry: Any, **arguments: Any) -> Any:
        if entry.batch_id == 1 and failures:
            raise failures.pop()
        return commit(self, entry, **arguments)

    monkeypatch.setattr(PostgresStore, "commit", fail_once)
    world.pipeline(sinks=PostgresSink(world.dsn, "records", inline_bytes_max=inline_bytes_max)).run()
    assert ahead == [2, 2, 3]
    assert world.numbers() == list(range(COUNT))
    assert world.query("SELECT relname FROM pg_class WHERE relname LIKE 'directkafka_stage%'") == []
