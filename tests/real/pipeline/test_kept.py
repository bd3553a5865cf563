"""What was computed once stays what it was, also when Spark loses its blocks between two jobs of a batch.

The transform gives something else whenever it is computed. In tests/chaos/test_lost_executors.py the same is done by
executors that are killed, and in test_two_attempts.py a block has two versions.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.structured_world import Streams

from directkafka import PostgresSink
from directkafka.errors import WorkerLostError
from directkafka.pipeline.execution.kept import Keeper
from directkafka.sinks.api import BatchAttempt
from directkafka.sinks.postgres.task_writer import PostgresTaskWriter

pytestmark = pytest.mark.real

CHANCE = "reflect('java.util.UUID', 'randomUUID')"
QUERY = (
    "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number, "
    f"CASE WHEN ascii({CHANCE}) % 2 = 0 THEN 'even' END AS dead_letter_reason FROM source"
)


class LosesBlocks(PostgresSink):
    """Makes Spark lose every block that it keeps, right before this sink's rows are computed; once for each batch.

    With ``inline_bytes_max=0``: rows that the driver may hold are computed before the sink is asked.
    """

    lost: Counter[int] | None = None

    def task_writer(self, batch: BatchAttempt, schema: Any, *, task_count: int = 1) -> PostgresTaskWriter:
        self.lost = self.lost or Counter()
        self.lost[batch.batch_id] += 1
        if self.lost[batch.batch_id] == 1:
            lose_blocks()
        return super().task_writer(batch, schema, task_count=task_count)


def lose_blocks() -> None:
    context: Any = SparkContext._active_spark_context
    for number in [int(key) for key in context._jsc.getPersistentRDDs()]:
        # The blocks go; the RDD does not hear of it.
        context._jsc.sc().unpersistRDD(number, True)


def places(world: World, table: str) -> list[tuple[Any, ...]]:
    return world.query(f'SELECT topic, partition, "offset" FROM {table}')


@pytest.mark.slow  # tests/chaos/test_lost_executors.py shows it in every run, with an executor that is killed
def test_each_record_is_a_row_or_a_letter_when_blocks_are_lost_between_the_two(world: World) -> None:
    dead_letters = LosesBlocks(world.dsn, "rejected", inline_bytes_max=0)
    world.pipeline(QUERY, dead_letters=dead_letters, retry_ms_max=20_000).run()
    counts = Counter(places(world, "records") + places(world, "rejected"))
    assert (len(counts), set(counts.values())) == (COUNT, {1})
    assert dead_letters.lost is not None
    assert len(dead_letters.lost) == COUNT // 30
    assert set(dead_letters.lost.values()) == {2}, "the batch was not redone, so nothing was lost"


@pytest.mark.slow  # the quick run has an executor that is lost: chaos/test_lost_executors.py
def test_two_sinks_of_one_output_get_the_same_rows_when_blocks_are_lost_between_them(world: World) -> None:
    query = f"SELECT partition, offset, {CHANCE} AS chance FROM source"
    sinks = [PostgresSink(world.dsn, "one"), LosesBlocks(world.dsn, "other", inline_bytes_max=0)]
    world.pipeline(query, sinks=sinks, retry_ms_max=20_000).run()
    rows, other = (
        world.query(f'SELECT partition, "offset", chance FROM {table} ORDER BY 1, 2') for table in ("one", "other")
    )
    assert len(rows) == COUNT
    assert rows == other


@pytest.mark.slow
def test_two_sinks_of_a_stream_get_the_same_rows_when_blocks_are_lost_between_them(streams: Streams) -> None:
    def with_chance(frame: DataFrame) -> DataFrame:
        return frame.select("partition", "offset", f.expr(CHANCE).alias("chance"))

    dsn = streams.world.dsn
    sinks = [PostgresSink(dsn, "one"), LosesBlocks(dsn, "other", inline_bytes_max=0)]
    streams.run(transform=with_chance, sinks=sinks, retry_ms_max=20_000)
    rows, other = (
        streams.world.query(f'SELECT partition, "offset", chance FROM {table} ORDER BY 1, 2')
        for table in ("one", "other")
    )
    assert len(rows) == COUNT
    assert rows == other


def blocks(spark: Any) -> set[int]:
    return {int(number) for number in spark.sparkContext._jsc.getPersistentRDDs()}


def test_what_is_kept_is_freed_at_the_end_and_not_found_by_who_clears_the_cache(spark: Any) -> None:
    before = blocks(spark)
    with ExitStack() as until:
        kept = Keeper(until).keep(spark.range(100).select(f.expr(CHANCE).alias("chance")))
        first = kept.collect()
        spark.catalog.clearCache()
        assert kept.collect() == first
        assert blocks(spark) - before
    assert blocks(spark) == before


def test_what_a_failed_job_has_made_so_far_is_freed(spark: Any) -> None:
    before = blocks(spark)
    failing = spark.range(100).select(f.when(f.col("id") == 99, f.raise_error(f.lit("the last row"))).alias("failing"))
    with ExitStack() as until:
        keeper = Keeper(until)
        with pytest.raises(PySparkException, match="the last row"):
            keeper.keep(failing)
    assert blocks(spark) == before


def test_blocks_that_are_where_they_were_are_what_all_have_read(spark: Any) -> None:
    frames = spark.range(100, numPartitions=7), spark.range(0).where("id = 1"), spark.createDataFrame([], "a int")
    with ExitStack() as until:
        keeper = Keeper(until)
        kept = [keeper.keep(frame) for frame in frames]
        keeper.check()
        assert [frame.count() for frame in kept] == [100, 0, 0]
        keeper.check()


def test_a_block_that_is_lost_is_seen_before_the_commit(spark: Any) -> None:
    with ExitStack() as until:
        keeper = Keeper(until)
        keeper.keep(spark.range(100))
        keeper.check()
        lose_blocks()
        with pytest.raises(WorkerLostError, match=r"2 of 2 blocks .* are lost"):
            keeper.check()


@pytest.mark.parametrize(
    ("locations", "message"),
    [
        ("executor_h_1, executor_h_2", "1 of 2 .* two attempts"),
        ("", "1 of 2 .* lost"),
        ("executor_h_9", "other executors"),
    ],
)
def test_a_block_that_is_elsewhere_is_seen_before_the_commit(
    spark: Any, monkeypatch: pytest.MonkeyPatch, locations: str, message: str
) -> None:
    with ExitStack() as until:
        keeper = Keeper(until)
        keeper.keep(spark.range(100))
        told = keeper._kept[0].executors
        name = next(iter(told))
        monkeypatch.setattr(
            "directkafka.pipeline.execution.kept._executors",
            lambda *_: {**told, name: frozenset(locations.split(", ") if locations else ())},
        )
        with pytest.raises(WorkerLostError, match=message):
            keeper.check()


def test_an_attempt_that_does_not_end_is_not_waited_for_for_ever(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("directkafka.pipeline.execution.kept._has_attempts", lambda *_: True)
    monkeypatch.setattr("directkafka.pipeline.execution.kept._STOP_S", 0.1)
    with ExitStack() as until, pytest.raises(WorkerLostError, match="runs on"):
        Keeper(until).keep(spark.range(100))
