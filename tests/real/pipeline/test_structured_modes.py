"""Stateful queries into tables by upsert and replace: what a table holds is what Spark's state says, after any restart.

Each query runs twice, and in between Spark forgets its last batch, which is then handed over again. Every run begins or
ends with batches that have no rows: batch 0 only says where the query starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from tests.chaos.pipelines import PARTITIONS
from tests.real.pipeline.conftest import COUNT
from tests.real.pipeline.structured_world import WAIT_S, Streams

import directkafka as dk
from directkafka.errors import RowRejectedError

pytestmark = [pytest.mark.real, pytest.mark.slow]

Query = Callable[[], DataFrame]

#: Seconds of a window; a number's record is so many seconds after 1970 as the number says, and one.
WINDOW_S = 10


@pytest.fixture(params=["write_stream", "foreach_batch"])
def run(request: pytest.FixtureRequest, streams: Streams) -> Callable[..., None]:
    """Runs a query to its end, in either of the two ways of writing it."""

    def by_foreach_batch(frame: DataFrame, *, sinks: Any, output_mode: str = "append", **options: Any) -> None:
        function = dk.foreach_batch("numbers", sinks, checkpoint=str(streams.checkpoint), **options)
        writer = frame.writeStream.foreachBatch(function).outputMode(output_mode).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(streams.checkpoint)).start()
        try:
            assert query.awaitTermination(WAIT_S), "the query did not end"
        finally:
            function.close()

    return streams.run if request.param == "write_stream" else by_foreach_batch


def twice(streams: Streams, run: Callable[..., None], query: Query, *, more: range, **options: Any) -> None:
    """Run, forget the last batch, produce more, run again."""
    run(query(), **options)
    streams.forget_done(streams.done())
    streams.produce(more)
    run(query(), **options)
    assert streams.ledger()["batch_id"] == streams.done(), "empty batches are entries, too"


def rows(streams: Streams) -> list[tuple[Any, ...]]:
    return sorted(streams.world.query("SELECT * FROM records"))


def windows_of(numbers: range) -> list[tuple[int, int]]:
    """Start and count of each window over the records of these numbers."""
    starts = [(number + 1) // WINDOW_S * WINDOW_S for number in numbers]
    return [(start, starts.count(start)) for start in sorted(set(starts))]


@pytest.fixture
def windows(streams: Streams, create_topic: Callable[..., str]) -> Query:
    """Records counted by window, over a topic of its own with sixty of them; nine a batch, so windows are cut."""
    streams.world.topic = create_topic(partitions=PARTITIONS)
    streams.produce(range(60))

    def query() -> DataFrame:
        stream = streams.source(maxOffsetsPerTrigger="9").withWatermark("timestamp", "1 hour")
        counted = stream.groupBy(f.window("timestamp", f"{WINDOW_S} seconds")).agg(f.count("*").alias("records"))
        return counted.select(f.unix_timestamp("window.start").alias("start"), "records")

    return query


def test_windows_that_change_are_upserted(streams: Streams, run: Callable[..., None], windows: Query) -> None:
    sink = streams.sink(mode="upsert", key=["start"])
    twice(streams, run, windows, more=range(60, 75), sinks=sink, output_mode="update")
    assert rows(streams) == windows_of(range(75))


def test_all_windows_replace_the_table(streams: Streams, run: Callable[..., None], windows: Query) -> None:
    twice(streams, run, windows, more=range(60, 75), sinks=streams.sink(mode="replace"), output_mode="complete")
    assert rows(streams) == windows_of(range(75))


def test_totals_are_upserted(streams: Streams, run: Callable[..., None]) -> None:
    def query() -> DataFrame:
        return streams.numbers().groupBy("partition").agg(f.max("number").alias("newest"))

    twice(
        streams, run, query, more=range(COUNT, COUNT + 12),
        sinks=streams.sink(mode="upsert", key=["partition"]), output_mode="update",
    )  # fmt: skip
    assert rows(streams) == [(partition, COUNT + 9 + partition) for partition in range(PARTITIONS)]


@pytest.mark.parametrize("mode", ["upsert", "ignore"])
def test_rows_without_duplicates_meet_those_of_earlier_batches(
    streams: Streams, run: Callable[..., None], mode: str
) -> None:
    def query() -> DataFrame:
        return streams.numbers().select((f.col("number") % 50).alias("number")).dropDuplicates(["number"])

    twice(streams, run, query, more=range(200, 240), sinks=streams.sink(mode=mode, key=["number"]))
    assert streams.world.numbers() == list(range(50))


def test_the_newest_record_of_a_key_stays_whatever_order_batches_have(
    streams: Streams, run: Callable[..., None]
) -> None:
    """Rows of many partitions, several of a key in each batch: ``order`` decides, not the batch."""

    def query() -> DataFrame:
        return streams.numbers().select((f.col("number") % 7).alias("key"), "number")

    sink = streams.sink(mode="upsert", key=["key"], order=["number"])
    twice(streams, run, query, more=range(COUNT, COUNT + 12), sinks=sink)
    last = COUNT + 12
    assert rows(streams) == [(key, max(range(key, last, 7))) for key in range(7)]


def test_a_batch_without_rows_replaces_the_table_with_none(streams: Streams, run: Callable[..., None]) -> None:
    """As the mode says: the last of three batches has none of these."""
    first = streams.numbers().where("number < 15")
    run(first, sinks=streams.sink(mode="replace"))
    assert rows(streams) == []
    assert streams.ledger()["total_rows"] == {"records": 15}


def test_two_rows_of_a_key_in_a_batch_end_the_query(streams: Streams) -> None:
    failure = streams.failure(
        streams.numbers().select("partition", "number"), sinks=streams.sink(mode="upsert", key=["partition"])
    )
    assert isinstance(failure, RowRejectedError)
    assert "10 rows of one batch have the key partition = " in failure.detail


def test_totals_and_their_sums_change_together(streams: Streams, run: Callable[..., None]) -> None:
    """One query into three tables, by upsert, replace and merge, each batch in one transaction."""

    def query() -> DataFrame:
        return streams.numbers()

    def split(source: DataFrame) -> dict[str, DataFrame]:
        counted = source.groupBy("partition").agg(f.count("*").alias("records"), f.max("number").alias("newest"))
        return {
            "newest": counted.select("partition", "newest"),
            "last": counted.select("partition", "records"),
            "sums": counted.select("partition", "records"),
        }

    sinks = {
        "newest": streams.sink("newest", mode="upsert", key=["partition"]),
        "last": streams.sink("last", mode="replace"),
        "sums": streams.sink("sums", mode="merge", key=["partition"], add=["records"]),
    }
    twice(streams, run, query, more=range(COUNT, COUNT + 12), sinks=sinks, transform=split)
    tables = [streams.world.query(f"SELECT * FROM {name} ORDER BY 1") for name in ("newest", "last", "sums")]
    assert tables == [
        [(partition, COUNT + 9 + partition) for partition in range(3)],
        [(partition, 4) for partition in range(3)],
        [(partition, 34) for partition in range(3)],
    ]
