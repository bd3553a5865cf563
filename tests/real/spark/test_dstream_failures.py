"""Direct streams whose batches fail: what runs and what is committed behind them, which is nothing."""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import DStream
from tests.real.kafka.logs import delete_records, produce
from tests.real.spark.dstreams import INTERVAL_S, Collected, Settings
from tests.waiting import until

import directkafka as dk
from directkafka import Cluster, OffsetRange, TopicPartition
from directkafka.spark.dstream.stream import DirectStream

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")]


def plans_of(stream: DirectStream) -> list[int]:
    """The times for which Spark asks the stream, as it asks."""
    planner, times = stream._planner, list[int]()
    plan = planner._rdd

    def noted(ms: int, sc: SparkContext) -> Any:
        times.append(ms)
        return plan(ms, sc)

    planner._rdd = noted  # type: ignore[method-assign]
    return times


def outputs_of(stream: DirectStream) -> list[int]:
    """The times of the batches whose outputs ask the stream whether they may run, as they ask."""
    batches, times = stream._planner.batches, list[int]()
    begin = batches.begin

    def noted(batch_ms: int) -> None:
        times.append(batch_ms)
        begin(batch_ms)

    batches.begin = noted  # type: ignore[method-assign]
    return times


@pytest.mark.slow
def test_an_executor_s_exception_reaches_the_caller_and_nothing_runs_or_commits_after_it(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    group = "failing-" + hundred
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params | {"group.id": group}))
    batches: list[tuple[OffsetRange, ...]] = []
    answers: list[dk.DirectKafkaError | None] = []

    def write(rdd: RDD[Any]) -> None:
        ranges = dk.offset_ranges(rdd)
        batches.append(ranges)
        stream.commit_async(ranges, lambda _, error: answers.append(error))
        rdd.foreach(refuse_bad)

    stream.foreachRDD(write)
    tries = plans_of(stream)
    context.start()
    until(lambda: None in answers, "a first commit")
    produce(servers, hundred, [b"bad"], partition=1)
    with pytest.raises(Py4JJavaError, match="LookupError: a bad record at 50"):
        context.awaitTermination(60)
    ran = len(batches)
    produce(servers, hundred, [b"good"] * 10)
    until(lambda: any(answers), "the commit of the failed batch is refused")
    tried = len(tries)
    until(lambda: len(tries) >= tried + 5, "Spark asks for the next batches")
    context.stop(stopSparkContext=False)
    assert len(batches) == ran
    assert any(offset_range.until_offset == 51 for offset_range in batches[-1])
    with Cluster(params) as cluster:
        assert cluster.committed(group) == {TopicPartition(hundred, partition): 50 for partition in (0, 1)}


def refuse_bad(record: dk.ConsumerRecord) -> None:
    if record.value == b"bad":
        raise LookupError(f"a bad record at {record.offset}")


def test_a_batch_that_fails_in_one_output_commits_in_none(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    group = "two-outputs-" + hundred
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params | {"group.id": group}))
    answers: list[dk.DirectKafkaError | None] = []
    stream.foreachRDD(lambda rdd: stream.commit_async(dk.offset_ranges(rdd), lambda _, error: answers.append(error)))
    stream.map(lambda record: 1 // 0).foreachRDD(lambda rdd: rdd.count())
    context.start()
    with pytest.raises(Py4JJavaError, match="ZeroDivisionError"):
        context.awaitTermination(60)
    until(lambda: answers, "an answer")
    assert all("the stream stands still" in str(answer) for answer in answers)
    with Cluster(params) as cluster:
        assert cluster.committed(group) == {}


def test_a_batch_whose_first_output_fails_and_whose_last_one_succeeds_is_not_committed(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    """Spark counts such a batch as done, and it is not among those that wait any more."""
    group = "first-output-" + hundred
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params | {"group.id": group}))
    answers: list[dk.DirectKafkaError | None] = []
    queued = threading.Event()
    failing = stream.map(lambda record: 1 // 0)
    # A stream of Spark's own, whose outputs tell a failure by Spark's event and report only; both come late here.
    context.union(failing, failing).foreachRDD(lambda rdd: rdd.count())
    stream.foreachRDD(lambda rdd: (queue(stream, rdd, answers), queued.set()))
    planner, jvm = stream._planner, stream._planner.batches.jvm
    assert jvm is not None
    fail, error = planner.fail, jvm.error

    def fail_late(ms: int, cause: str) -> None:
        queued.wait(60)
        fail(ms, cause)

    planner.fail = fail_late  # type: ignore[method-assign]
    jvm.error = lambda: error() if queued.is_set() else None  # type: ignore[method-assign]
    context.start()
    with pytest.raises(Py4JJavaError, match="ZeroDivisionError"):
        context.awaitTermination(60)
    context.stop(stopSparkContext=False)
    assert answers, "the second output has run"
    assert None not in answers
    with Cluster(params) as cluster:
        assert cluster.committed(group) == {}


def queue(stream: DirectStream, rdd: RDD[Any], answers: list[dk.DirectKafkaError | None]) -> None:
    stream.commit_async(dk.offset_ranges(rdd), lambda _, error: answers.append(error))


@pytest.mark.slow
def test_outputs_of_what_is_made_of_a_stream_do_not_run_behind_a_batch_that_failed(
    context: StreamingContext, params: dict[str, object], hundred: str, settings: Settings
) -> None:
    settings({"spark.streaming.kafka.maxRatePerPartition": 10})
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    sums: list[int] = []
    asked = outputs_of(stream)

    def fail_second(rdd: RDD[Any]) -> None:
        sums.append(rdd.count())
        if len(sums) == 2:
            until(lambda: stream.waiting_batches() >= 3, "batches queue up")
            asked.clear()
            raise LookupError("the second batch")

    stream.map(lambda record: (record.partition, 1)).reduceByKey(lambda total, two: total + two).foreachRDD(fail_second)
    context.start()
    with pytest.raises(Py4JJavaError, match="the second batch"):
        context.awaitTermination(60)
    # Three batches waited or ran, with one output each; the first of them has been asked for.
    until(lambda: len(asked) >= 2, "the outputs of those that were queued are asked for")
    context.stop(stopSparkContext=False)
    assert len(sums) == 2, "nothing ran behind the batch that failed"


@pytest.mark.slow
@pytest.mark.parametrize("maker", ["the stream", "the context"])
def test_a_stream_stands_still_when_spark_drops_a_batch_that_another_output_could_not_make(
    context: StreamingContext, params: dict[str, object], hundred: str, settings: Settings, maker: str
) -> None:
    """Its ranges are planned by then; the next batch would begin behind them. What the context makes of streams tells
    nobody but Spark."""
    settings({"spark.streaming.kafka.maxRatePerPartition": 10})
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    collected = Collected().of(stream)
    calls: list[int] = []

    def fail_first(rdd: RDD[Any]) -> RDD[Any]:
        calls.append(1)
        if len(calls) == 1:
            raise LookupError("the first call")
        return rdd

    if maker == "the stream":
        made: DStream[Any] = stream.transform(lambda rdd: fail_first(rdd))  # noqa: PLW0108
    else:
        made = context.transform([stream], lambda rdds: fail_first(rdds[0]))
    made.foreachRDD(lambda rdd: None)
    tries = plans_of(stream)
    context.start()
    with pytest.raises(Py4JJavaError, match="the first call"):
        context.awaitTermination(60)
    until(lambda: len(tries) >= 12, "Spark asks for the next batches")
    context.stop(stopSparkContext=False)
    assert collected.records == [], "nothing behind the batch that Spark has dropped"


@pytest.mark.slow
def test_an_error_in_one_stream_stops_the_others_of_its_context(
    context: StreamingContext, params: dict[str, object], hundred: str, settings: Settings
) -> None:
    """A batch is all outputs of a time, and the caller of awaitTermination is told that it failed."""
    settings({"spark.streaming.kafka.maxRatePerPartition": 10})
    failing_stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    other = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    batches: list[datetime] = []
    failed: list[datetime] = []

    def fail_second(when: datetime, rdd: RDD[Any]) -> None:
        batches.append(when)
        if len(batches) == 2:
            failed.append(when)
            raise LookupError("the second batch")

    failing_stream.foreachRDD(fail_second)
    other_batches: list[datetime] = []
    other.foreachRDD(lambda when, rdd: other_batches.append(when))
    tries = plans_of(failing_stream)
    context.start()
    with pytest.raises(Py4JJavaError, match="the second batch"):
        context.awaitTermination(60)
    seen = len(tries)
    until(lambda: len(tries) >= seen + 5, "Spark asks for the next batches")
    context.stop(stopSparkContext=False)
    assert other_batches, "the first batch went well"
    assert max(other_batches) <= failed[0]


@pytest.mark.slow
def test_windows_state_and_two_streams_in_one_stand_still_too(
    context: StreamingContext, params: dict[str, object], hundred: str, settings: Settings, tmp_path: Path
) -> None:
    settings({"spark.streaming.kafka.maxRatePerPartition": 10})
    context.checkpoint(str(tmp_path))
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    other = dk.create_direct_stream(context, dk.Subscribe(hundred, params)).map(partition_of)
    failed: list[datetime] = []
    called: dict[str, list[datetime]] = {}
    asked = outputs_of(stream)

    def fail_third(when: datetime, rdd: RDD[Any]) -> None:
        called.setdefault("first", []).append(when)
        if len(called["first"]) == 3:
            until(lambda: stream.waiting_batches() >= 3, "batches queue up")
            asked.clear()
            failed.append(when)
            raise LookupError("the third batch")

    stream.foreachRDD(fail_third)
    pairs = stream.map(partition_of)
    length = 2 * INTERVAL_S
    made = {
        "window": pairs.window(length),  # type: ignore[arg-type]
        "count by window": pairs.countByWindow(length, INTERVAL_S),  # type: ignore[arg-type]
        "state": pairs.updateStateByKey(lambda new, old: sum(new) + (old or 0)).map(lambda pair: pair),
        "union": other.union(pairs),
        "join": other.join(pairs).filter(lambda pair: True),
    }
    for name, made_stream in made.items():
        made_stream.foreachRDD(lambda when, rdd, name=name: called.setdefault(name, []).append(when))
    context.start()
    with pytest.raises(Py4JJavaError, match="the third batch"):
        context.awaitTermination(120)
    until(lambda: len(asked) >= 8, "the outputs of those that were queued are asked for")
    context.stop(stopSparkContext=False)
    assert called.keys() == {"first", *made}
    assert [name for name, times in called.items() if name != "first" and max(times) >= failed[0]] == []


def partition_of(record: dk.ConsumerRecord) -> tuple[int, int]:
    return record.partition, 1


@pytest.mark.slow
def test_records_that_retention_has_taken_before_they_were_read_stop_the_stream_with_their_range(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str, settings: Settings
) -> None:
    settings({"spark.streaming.kafka.maxRatePerPartition": 10})
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    counts: list[int] = []

    def count_and_delete(rdd: RDD[Any]) -> None:
        counts.append(rdd.count())
        if len(counts) == 1:
            delete_records(servers, hundred, 40, partition=1)

    stream.foreachRDD(count_and_delete)
    context.start()
    # Told by the next plan, or by a task of a batch that was planned before.
    with pytest.raises(Py4JJavaError, match=r", partition 1, offsets \[\d+, \d+\): the log starts at (offset )?40"):
        context.awaitTermination(60)
    context.stop(stopSparkContext=False)


def test_a_message_handler_that_raises_fails_its_batch_and_offsets_stay(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    group = "handler-" + hundred
    strategy = dk.Subscribe(hundred, params | {"group.id": group})
    stream = dk.create_direct_stream(context, strategy, message_handler=refuse)
    stream.foreachRDD(lambda rdd: (stream.commit_async(dk.offset_ranges(rdd)), rdd.count()))
    context.start()
    with pytest.raises(Py4JJavaError, match="LookupError: no carrier at 0"):
        context.awaitTermination(60)
    context.stop(stopSparkContext=False)
    with Cluster(params) as cluster:
        assert cluster.committed(group) == {}


def refuse(record: dk.ConsumerRecord) -> None:
    raise LookupError(f"no carrier at {record.offset}")
