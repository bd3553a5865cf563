"""Structured Streaming into Postgres: every row once, whatever Spark forgets, and Spark's own state beside it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from tests.chaos.pipelines import PARTITIONS
from tests.real.kafka.logs import create_topic_again, delete_topic
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.structured_world import WAIT_S, Streams, failure_of
from tests.waiting import until

import directkafka as dk
from directkafka.errors import (
    DirectKafkaError,
    EnvironmentFaultError,
    FencedError,
    OptionError,
    SchemaMismatchError,
    StoreUnavailableError,
    TransformError,
)
from directkafka.pipeline.structured import engine
from directkafka.pipeline.structured.api import BatchFunction
from directkafka.sinks.postgres.store import PostgresStore

pytestmark = pytest.mark.real

#: A query of a few batches takes two to four seconds; one of each kind is enough for the quick run.
slow = pytest.mark.slow


@slow
def test_each_batch_is_committed_with_spark_s_number_and_the_checkpoint_s_id(streams: Streams) -> None:
    streams.run()
    assert streams.world.numbers() == list(range(COUNT))
    ledger = streams.ledger()
    assert ledger["lineage"] == streams.lineage()
    # 30 at a time, after batch 0, which only says where the query starts.
    assert ledger["batch_id"] == streams.done() == COUNT // 30
    assert [(partition["origin"], partition["end"]) for partition in ledger["progress"]] == [(0, 30)] * 3
    assert ledger["total_rows"] == {"records": COUNT}


@slow
def test_a_second_run_goes_on_where_the_first_ended(streams: Streams) -> None:
    streams.run()
    streams.produce(range(COUNT, COUNT + 12))
    streams.run()
    assert streams.world.numbers() == list(range(COUNT + 12))
    assert streams.ledger()["generation"] == 2


@slow
def test_an_empty_batch_is_an_entry_too(streams: Streams) -> None:
    streams.run(streams.numbers(startingOffsets="latest"))
    assert streams.ledger()["batch_id"] == streams.done() == 0
    assert [(partition["start"], partition["end"]) for partition in streams.ledger()["progress"]] == [(30, 30)] * 3


def test_a_batch_that_spark_did_not_note_is_not_written_again(streams: Streams) -> None:
    streams.run()
    streams.forget_done(streams.done())
    streams.produce(range(COUNT, COUNT + 6))
    streams.run()
    assert streams.world.numbers() == list(range(COUNT + 6))


@slow
def test_a_batch_whose_function_fails_after_our_commit_is_not_written_again(streams: Streams) -> None:
    ours = dk.foreach_batch("numbers", streams.sink(), checkpoint=str(streams.checkpoint))
    failures = iter([None, RuntimeError("the user's own code"), None])

    def write(frame: DataFrame, batch_id: int) -> None:
        ours(frame, batch_id)
        if (failure := next(failures, None)) is not None:
            raise failure

    def run() -> None:
        writer = streams.numbers().writeStream.foreachBatch(write).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(streams.checkpoint)).start()
        assert query.awaitTermination(WAIT_S)

    with pytest.raises(Exception, match="the user's own code"):
        run()
    assert streams.ledger()["batch_id"] == streams.done() + 1 == 1
    run()
    ours.close()
    assert streams.world.numbers() == list(range(COUNT))


def test_sources_that_are_not_kafka_have_no_progress_and_their_rows_are_there_once(streams: Streams) -> None:
    rate = streams.session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = streams.write(rate.select("value"), trigger="0ms")
    try:
        until(lambda: streams.done() >= 2 or query.exception(), "no third batch")
    finally:
        query.stop()
    ledger = streams.ledger()
    values = [value for (value,) in streams.world.query("SELECT value FROM records ORDER BY value")]
    assert values == list(range(5 * (ledger["batch_id"] + 1)))
    assert ledger["progress"] == []


# Spark's state.


def windows(stream: DataFrame) -> DataFrame:
    return (
        stream.withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "10 seconds"))
        .agg(f.count("*").alias("records"))
        .select(f.unix_timestamp("window.start").alias("start"), "records")
    )


@slow
def test_windows_with_a_watermark_are_written_once_each_also_after_a_batch_was_skipped(
    streams: Streams, create_topic: Callable[..., str]
) -> None:
    streams.world.topic = create_topic(partitions=PARTITIONS)
    streams.produce(range(60))
    streams.run(windows(streams.source(maxOffsetsPerTrigger="9")))
    streams.forget_done(streams.done())
    streams.produce(range(60, 120))
    streams.run(windows(streams.source(maxOffsetsPerTrigger="9")))
    records_by_start = dict(streams.world.query("SELECT start, records FROM records"))
    assert len(records_by_start) >= 9
    assert set(records_by_start) == {10 * number for number in range(len(records_by_start))}
    # The first record is one second after 1970.
    assert list(records_by_start.values()) == [9] + [10] * (len(records_by_start) - 1)
    assert streams.world.query("SELECT count(*) FROM records") == [(len(records_by_start),)]


@slow
def test_duplicates_are_dropped_across_batches_and_runs(streams: Streams) -> None:
    def distinct() -> DataFrame:
        return streams.numbers().select((f.col("number") % 50).alias("number")).dropDuplicates(["number"])

    streams.run(distinct())
    streams.forget_done(streams.done())
    streams.produce(range(200, 240))
    streams.run(distinct())
    assert streams.world.numbers() == list(range(50))


@slow
@pytest.mark.parametrize("mode", ["update", "complete"])
def test_update_and_complete_give_what_spark_says(mode: str, streams: Streams) -> None:
    counts = streams.numbers().groupBy("partition").agg(f.count("*").alias("records"))
    streams.run(counts, output_mode=mode)
    rows = sorted(streams.world.query("SELECT partition, records FROM records"))
    assert rows == [(partition, records) for partition in range(3) for records in (10, 20, 30)]


def test_an_output_mode_that_the_query_cannot_have_is_refused_before_it_runs(streams: Streams) -> None:
    counts = streams.numbers().groupBy("partition").count()
    with pytest.raises(TransformError, match="STREAMING_OUTPUT_MODE"):
        streams.write(counts, output_mode="append")


# Several outputs.


def split(source: DataFrame) -> dict[str, DataFrame]:
    marked = source.withColumn("mark", f.rand())
    totals = marked.groupBy("partition").agg(f.count("*").alias("records"))
    return {"rows": marked, "same": marked.select("number", "mark"), "totals": totals}


@slow
def test_several_outputs_change_together_and_the_batch_is_computed_once(streams: Streams) -> None:
    streams.run(transform=split, sinks=outputs_of(streams))
    query = streams.world.query
    assert query("SELECT count(*), count(DISTINCT mark) FROM rows") == [(COUNT, COUNT)]
    # A second computation would have drawn other random numbers.
    assert query("SELECT count(*) FROM rows JOIN same USING (number, mark)") == [(COUNT,)]
    assert sorted(query("SELECT partition, records FROM totals")) == [(0, 30), (1, 30), (2, 30)]


def outputs_of(streams: Streams) -> dict[str, Any]:
    return {
        "rows": streams.sink("rows"),
        "same": streams.sink("same"),
        "totals": streams.sink("totals", mode="merge", key=["partition"], add=["records"]),
    }


@slow
def test_a_transform_of_batches_may_be_a_query(streams: Streams) -> None:
    streams.run(transform="SELECT number FROM source WHERE number % 2 = 0")
    assert streams.world.numbers() == list(range(0, COUNT, 2))


# What ends a query.


@slow
def test_a_newer_driver_ends_the_query_and_the_caller_gets_the_numbers(streams: Streams) -> None:
    streams.run()
    newer = PostgresStore(streams.world.dsn)

    def take_over(report: object) -> None:
        newer.fence("numbers")
        newer.close()

    streams.produce(range(COUNT, COUNT + 60))
    failure = failure_of(streams.write(report=take_over))
    assert isinstance(failure, FencedError)
    assert (failure.pipeline, failure.held, failure.found) == ("numbers", 2, 3)
    assert len(streams.world.numbers()) == COUNT + 30, "the batch before the fence, and nothing after it"


@slow
def test_a_function_with_another_checkpoint_than_its_query_is_refused(streams: Streams) -> None:
    other = dk.foreach_batch("numbers", streams.sink(), checkpoint=str(streams.checkpoint) + "-other")
    writer = streams.numbers().writeStream.foreachBatch(other).trigger(availableNow=True)
    failure = failure_of(writer.option("checkpointLocation", str(streams.checkpoint)).start())
    assert isinstance(failure, OptionError)
    assert "is the checkpoint of query none" in str(failure)


@slow
def test_a_table_that_does_not_fit_ends_the_query_before_a_fence(streams: Streams) -> None:
    streams.run()
    failure = streams.failure(
        streams.source().select(f.col("value").alias("other")), name="another", checkpoint=f"{streams.checkpoint}-2"
    )
    assert isinstance(failure, SchemaMismatchError)
    assert streams.world.query("SELECT pipeline FROM directkafka_ledger") == [("numbers",)]


@slow
def test_a_database_that_is_away_for_a_moment_costs_no_query(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = PostgresStore.commit
    failures = iter([StoreUnavailableError(store="db", cause="it restarts")])

    def flaky(store: PostgresStore, *arguments: Any, **named: Any) -> Any:
        if named["previous"] is not None and (failure := next(failures, None)) is not None:
            raise failure
        return commit(store, *arguments, **named)

    monkeypatch.setattr(PostgresStore, "commit", flaky)
    streams.run(retry_ms_max=10_000)
    assert next(failures, None) is None
    assert streams.world.numbers() == list(range(COUNT))


# The pipeline object.


def pipeline(world: World, streams: Streams, **changes: Any) -> dk.Pipeline:
    return world.pipeline(**({"engine": "structured", "checkpoint": str(streams.checkpoint)} | changes))


@slow
def test_a_pipeline_runs_as_a_query_and_stops_between_two_batches(world: World, streams: Streams) -> None:
    reports: list[int] = []
    running = pipeline(world, streams, trigger="0ms", report=lambda report: reports.append(report.batch_id))
    running.start()
    try:
        until(lambda: len(reports) >= 2, "no second batch")
    finally:
        running.stop()
    assert streams.ledger()["batch_id"] == reports[-1]
    pipeline(world, streams).run()
    assert world.numbers() == list(range(COUNT))


@pytest.fixture
def failing_after_the_stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], threading.Event]:
    """``failing_after_the_stop(error)``: commits wait until the engine waits for the batch in flight, and fail.

    The event says that one has begun.
    """

    def arm(error: Exception) -> threading.Event:
        has_begun, is_waited_for, end = threading.Event(), threading.Event(), BatchFunction.end

        def tell_and_end(function: BatchFunction) -> None:
            is_waited_for.set()
            end(function)

        def fail(*_: Any, **_named: Any) -> Any:
            has_begun.set()
            assert is_waited_for.wait(WAIT_S)
            raise error

        monkeypatch.setattr(BatchFunction, "end", tell_and_end)
        monkeypatch.setattr(PostgresStore, "commit", fail)
        return has_begun

    return arm


def test_a_batch_that_fails_while_a_stop_waits_for_it_is_a_failure(
    world: World, streams: Streams, failing_after_the_stop: Callable[[Exception], threading.Event]
) -> None:
    has_begun = failing_after_the_stop(FencedError(store="db", pipeline="numbers", held=1, found=2))
    running = pipeline(world, streams, trigger="0ms")
    running.start()
    assert has_begun.wait(WAIT_S)
    with pytest.raises(FencedError):
        running.stop()


def test_a_batch_that_a_stop_gave_up_is_told(
    world: World,
    streams: Streams,
    failing_after_the_stop: Callable[[Exception], threading.Event],
    caplog: pytest.LogCaptureFixture,
) -> None:
    has_begun = failing_after_the_stop(StoreUnavailableError(store="db", cause="it waited for a lock"))
    running = pipeline(world, streams, trigger="0ms")
    running.start()
    assert has_begun.wait(WAIT_S)
    with caplog.at_level("INFO", "directkafka.pipeline"):
        running.stop()
    (told,) = [record.getMessage() for record in caplog.records if "is rolled back" in record.getMessage()]
    assert "it waited for a lock" in told


@slow
def test_an_idle_pipeline_finds_out_that_a_newer_driver_has_it(world: World, streams: Streams) -> None:
    reports: list[int] = []
    idle = pipeline(world, streams, trigger="0ms", report=lambda report: reports.append(report.batch_id))
    idle.start()
    until(lambda: len(reports) == 4, "it did not catch up")
    newer = PostgresStore(world.dsn)
    held = newer.fence("numbers")
    newer.close()
    with pytest.raises(FencedError) as caught:
        idle.wait()
    assert (caught.value.held, caught.value.found) == (held - 1, held)


@slow
def test_a_database_that_is_away_while_no_data_come_costs_no_pipeline(
    world: World, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PostgresStore.read
    failures = [StoreUnavailableError(store="db", cause="it restarts") for _ in range(3)]
    is_idle = threading.Event()

    def flaky(store: PostgresStore, pipeline: str) -> Any:
        if is_idle.is_set() and failures:
            raise failures.pop()
        return read(store, pipeline)

    monkeypatch.setattr(engine, "_FENCE_LOOK_S", 0.1)
    monkeypatch.setattr(PostgresStore, "read", flaky)
    reports: list[int] = []
    running = pipeline(world, streams, trigger="0ms", report=lambda report: reports.append(report.batch_id))
    running.start()
    try:
        until(lambda: len(reports) == 4, "it did not catch up")
        is_idle.set()
        until(lambda: not failures, "it did not look")
        streams.produce(range(COUNT, COUNT + 6))
        # They come in one batch or in two.
        until(lambda: world.numbers() == list(range(COUNT + 6)), "it did not go on")
    finally:
        running.stop()
    assert world.numbers() == list(range(COUNT + 6))


@slow
def test_a_loss_in_the_source_ends_a_pipeline_with_its_words(world: World, streams: Streams) -> None:
    pipeline(world, streams).run()
    delete_topic(world.kafka, world.topic)
    create_topic_again(world.kafka, world.topic, partitions=PARTITIONS)
    # Spark's name for it where a run has an end.
    with pytest.raises(DirectKafkaError, match=r"END_OFFSET_HAS_GREATER_OFFSET.*changed from at least 30 to 0"):
        pipeline(world, streams).run()


@slow
def test_a_pipeline_with_one_output_has_spark_s_state(world: World, streams: Streams) -> None:
    query = "SELECT CAST(CAST(value AS STRING) AS BIGINT) % 7 AS number, count(*) AS records FROM source GROUP BY 1"
    pipeline(world, streams, transform=query, output_mode="update").run()
    assert world.query("SELECT number, max(records) FROM records GROUP BY 1 ORDER BY 1") == [
        (number, len(range(number, COUNT, 7))) for number in range(7)
    ]


@slow
def test_a_pipeline_ends_with_the_error_itself(world: World, streams: Streams) -> None:
    pipeline(world, streams).run()
    streams.delete_checkpoint()
    with pytest.raises(dk.LineageError) as caught:
        pipeline(world, streams).run()
    assert isinstance(caught.value, dk.LineageError)


def test_check_compiles_a_stream_and_changes_nothing(world: World, streams: Streams) -> None:
    assert pipeline(world, streams).check() == ("rows pass through Spark: the structured engine's batches are Spark's",)
    assert world.query("SELECT to_regclass('records')") == [(None,)]
    assert not streams.checkpoint.exists()
    with pytest.raises(TransformError, match="no_such_column"):
        pipeline(world, streams, transform="SELECT no_such_column FROM source").check()


def test_the_function_cannot_be_sent_elsewhere(streams: Streams) -> None:
    function = dk.foreach_batch("numbers", streams.sink(), checkpoint="/tmp/x")
    assert isinstance(function, BatchFunction)
    with pytest.raises(EnvironmentFaultError, match="Spark Connect"):
        pickle.dumps(function)
