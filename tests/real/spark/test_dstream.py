"""What direct streams read, and what is done with it, against a real broker. Titles of Spark's DirectKafkaStreamSuite
are among these and those of the files beside it."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext
from tests.real.kafka.logs import add_partitions, admin, end_transaction, produce, transactional
from tests.real.spark.dstreams import INTERVAL_S, Collected, Place, place_of, places, running
from tests.real.spark.test_starts import commit
from tests.waiting import WAIT_S, until

import directkafka as dk
from directkafka import OffsetRange, TopicPartition
from directkafka.errors import OptionError

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")]

CreateTopic = Callable[..., str]


# Where it starts, and what it reads.


def test_several_topics_are_read_from_the_earliest_offset_each_record_once(
    context: StreamingContext, params: dict[str, object], servers: str, create_topic: CreateTopic
) -> None:
    topics = [create_topic(2), create_topic(2)]
    for topic in topics:
        for partition in range(2):
            produce(servers, topic, [b"before"] * 20, partition=partition)
    seen = Collected().of(dk.create_direct_stream(context, dk.Subscribe(topics, params)).map(place_of))
    with running(context):
        seen.wait_for(80)
        for topic in topics:
            produce(servers, topic, [b"after"] * 5, partition=1)
        records = seen.wait_for(90)
    expected = set[Place]().union(*(places(topic, 20) for topic in topics))
    expected |= {(topic, 1, offset) for topic in topics for offset in range(20, 25)}
    assert Counter(records) == Counter(expected)
    # The first batch has every partition, later ones those that have something to read.
    assert len(seen.ranges[0]) == 4
    assert all(offset_range.count() for ranges in seen.ranges[1:] for offset_range in ranges)


def test_an_arrow_handler_is_given_decoded_values(
    context: StreamingContext, params: dict[str, object], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    produce(servers, topic, [b'{"id": %d}' % number for number in range(20)])
    typed = params | {"value.format": "json", "value.schema": "id BIGINT"}
    with pytest.raises(OptionError, match="needs an arrow_handler"):
        dk.create_direct_stream(context, dk.Subscribe(topic, typed))
    stream = dk.create_direct_stream(
        context, dk.Subscribe(topic, typed), arrow_handler=lambda batch: batch.column("value").field(0).to_pylist()
    )
    seen = Collected().of(stream)
    with running(context):
        assert seen.wait_for(20) == list(range(20))


@pytest.mark.slow
def test_a_pattern_finds_topics_that_come_later(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str, create_topic: CreateTopic
) -> None:
    prefix = create_topic(1)
    stream = dk.create_direct_stream(context, dk.SubscribePattern(f"^{prefix}", params))
    seen = Collected().of(stream.map(place_of))
    produce(servers, prefix, [b"x"] * 3)
    with running(context):
        seen.wait_for(3)
        client = admin(servers)
        made = client.create_topics([NewTopic(f"{prefix}-2", 1, 1)])
        made[f"{prefix}-2"].result(30)
        produce(servers, f"{prefix}-2", [b"y"] * 4)
        records = seen.wait_for(7)
    assert Counter(topic for topic, _, _ in records) == {prefix: 3, f"{prefix}-2": 4}
    assert hundred not in {topic for topic, _, _ in records}


@pytest.mark.slow
def test_the_latest_offset_is_taken_when_the_first_batch_is_planned(
    context: StreamingContext, servers: str, hundred: str
) -> None:
    params = {"bootstrap.servers": servers, "auto.offset.reset": "largest"}
    seen = Collected().of(dk.create_direct_stream(context, dk.Subscribe(hundred, params)).map(place_of))
    with running(context):
        until(lambda: seen.ranges, "a first batch")
        produce(servers, hundred, [b"new"] * 7)
        records = seen.wait_for(7)
    assert records == [(hundred, 0, offset) for offset in range(50, 57)]
    # The starts are in the first batch, for those who store offsets themselves.
    assert seen.ranges[0] == (OffsetRange(hundred, 0, 50, 50), OffsetRange(hundred, 1, 50, 50))


@pytest.mark.slow
def test_a_stream_starts_at_the_offsets_that_are_given_and_at_the_reset_elsewhere(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    partitions = [TopicPartition(hundred, 0), TopicPartition(hundred, 1)]
    strategy = dk.Assign(partitions, params, {TopicPartition(hundred, 0): 42})
    seen = Collected().of(dk.create_direct_stream(context, strategy).map(place_of))
    with running(context):
        records = seen.wait_for(58)
    assert Counter(records) == Counter(places(hundred, 50) - {(hundred, 0, offset) for offset in range(42)})


@pytest.mark.slow
def test_a_group_s_offsets_count_before_the_reset(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    commit(servers, "a-group-of-" + hundred, hundred, {1: 48})
    strategy = dk.Subscribe([hundred], params | {"group.id": "a-group-of-" + hundred})
    seen = Collected().of(dk.create_direct_stream(context, strategy).map(place_of))
    with running(context):
        records = seen.wait_for(52)
    assert Counter(records) == Counter(places(hundred, 50) - {(hundred, 1, offset) for offset in range(48)})


@pytest.mark.slow
@pytest.mark.parametrize(("reset", "start"), [("latest", 5), ("earliest", 0)])
def test_partitions_that_are_added_start_where_the_reset_says_with_a_warning(
    context: StreamingContext, servers: str, create_topic: CreateTopic, caplog: pytest.LogCaptureFixture,
    reset: str, start: int,
) -> None:  # fmt: skip
    topic = create_topic(1)
    params = {"bootstrap.servers": servers, "auto.offset.reset": reset}
    held, standing, released = threading.Event(), threading.Event(), threading.Event()

    def hold(rdd: RDD[Any]) -> RDD[Any]:
        """Runs behind the planning of its batch and before that of the next, in one thread."""
        if held.is_set():
            standing.set()
            released.wait()
        return rdd

    stream = dk.create_direct_stream(context, dk.Subscribe(topic, params)).map(place_of)
    seen = Collected().of(stream)
    stream.transform(hold).foreachRDD(lambda rdd: None)
    with running(context), caplog.at_level(logging.WARNING, "directkafka"):
        until(lambda: seen.ranges, "a first batch")
        held.set()
        try:
            assert standing.wait(WAIT_S)
            add_partitions(servers, topic, 2)
            produce(servers, topic, [b"before it is noticed"] * 5, partition=1)
        finally:
            released.set()
        until(lambda: any("partitions added" in message for message in caplog.messages), "the partition is noticed")
        produce(servers, topic, [b"later"] * 5, partition=1)
        records = seen.wait_for(10 - start)
    [warning] = [message for message in caplog.messages if "partitions added" in message]
    assert f"{topic}-1 at {start}" in warning
    assert "auto.offset.reset" in warning
    assert sorted(records) == [(topic, 1, offset) for offset in range(start, 10)]


# What is done with batches.


def test_ranges_are_to_be_had_in_transform_and_foreach_rdd_and_lost_after_a_shuffle(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params))
    in_transform: list[tuple[OffsetRange, ...]] = []
    errors: list[OptionError] = []

    def note(rdd: RDD[Any]) -> RDD[Any]:
        in_transform.append(dk.offset_ranges(rdd))
        return rdd

    def ask_too_late(rdd: RDD[Any]) -> None:
        if not errors:
            with pytest.raises(OptionError) as raised:
                dk.offset_ranges(rdd)
            errors.append(raised.value)

    counts: list[tuple[int, int]] = []
    by_partition = stream.transform(note).map(lambda record: (record.partition, 1)).reduceByKey(lambda a, b: a + b)
    by_partition.foreachRDD(ask_too_late)
    by_partition.foreachRDD(lambda rdd: counts.extend(rdd.collect()))
    seen = Collected().of(stream)
    with running(context):
        seen.wait_for(100)
        until(lambda: len(counts) == 2, "sums")
    assert sorted(counts) == [(0, 50), (1, 50)]
    assert in_transform[0] == seen.ranges[0] == (OffsetRange(hundred, 0, 0, 50), OffsetRange(hundred, 1, 0, 50))
    assert "has no offset ranges any more" in str(errors[0])


@pytest.mark.slow
def test_all_outputs_of_a_batch_have_the_same_records(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params), message_handler=place_of)
    first, second = Collected().of(stream), Collected().of(stream.map(lambda record: record))
    with running(context):
        for _ in range(5):
            produce(servers, hundred, [b"more"] * 10, partition=1)
        first.wait_for(150)
        second.wait_for(150)
    assert first.records == second.records
    assert first.ranges[: len(second.ranges)] == second.ranges[: len(first.ranges)]


@pytest.mark.slow
def test_windows_and_state_work_on_top(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str, tmp_path: Path
) -> None:
    context.checkpoint(str(tmp_path))
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params)).map(lambda record: (record.partition, 1))
    windows: list[int] = []
    state: list[tuple[int, int]] = []
    stream.window(10 * INTERVAL_S).count().foreachRDD(lambda rdd: windows.extend(rdd.collect()))  # type: ignore[arg-type]
    stream.updateStateByKey(lambda new, old: sum(new) + (old or 0)).foreachRDD(lambda rdd: state.extend(rdd.collect()))
    with running(context):
        until(lambda: 100 in windows, "a window with all")
        produce(servers, hundred, [b"more"] * 10, partition=1)
        until(lambda: (1, 60) in state, "the state after more")
    assert (0, 50) in state


@pytest.mark.slow
def test_two_streams_are_united(
    context: StreamingContext, params: dict[str, object], hundred: str, create_topic: CreateTopic, servers: str
) -> None:
    other = create_topic(1)
    produce(servers, other, [b"x"] * 10)
    streams = [
        dk.create_direct_stream(context, dk.Subscribe(topic, params)).map(place_of) for topic in (hundred, other)
    ]
    records: list[Place] = []
    context.union(*streams).foreachRDD(lambda rdd: records.extend(rdd.collect()))
    with running(context):
        until(lambda: len(records) >= 110, "all records")
    assert Counter(records) == Counter(places(hundred, 50) | places(other, 10, partitions=1))


@pytest.mark.slow
def test_the_batch_s_records_are_in_spark_s_own_figures(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    from pyspark.streaming.listener import StreamingListener

    counts: list[int] = []

    class Heard(StreamingListener):
        def onBatchCompleted(self, batchCompleted: Any) -> None:  # noqa: N802, N803 - Spark's names
            counts.append(batchCompleted.batchInfo().numRecords())

    context.addStreamingListener(Heard())
    Collected().of(dk.create_direct_stream(context, dk.Subscribe(hundred, params)))
    with running(context):
        until(lambda: 100 in counts, "the batch's 100 records")
    assert sum(counts) == 100, "each record is counted once"


@pytest.mark.slow
def test_a_context_that_is_started_twice_reads_each_record_once_and_a_second_one_is_refused(
    context: StreamingContext, params: dict[str, object], sc: SparkContext, hundred: str
) -> None:
    seen = Collected().of(dk.create_direct_stream(context, dk.Subscribe(hundred, params)).map(place_of))
    second = StreamingContext(sc, INTERVAL_S)  # type: ignore[arg-type]
    Collected().of(dk.create_direct_stream(second, dk.Subscribe(hundred, params)))
    with running(context):
        context.start()
        with pytest.raises(Py4JJavaError, match="Only one StreamingContext may be started"):
            second.start()
        records = seen.wait_for(100)
        until(lambda: len(seen.ranges) >= 4, "further batches")
    assert Counter(records) == Counter(places(hundred, 50))


@pytest.mark.slow
def test_the_records_of_ranges_with_gaps_are_counted_in_an_output(
    context: StreamingContext, params: dict[str, object], servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    producer = transactional(servers, topic)
    for number in range(3):
        producer.begin_transaction()
        produce_in(producer, topic, number + 1)
        end_transaction(servers, topic, producer.commit_transaction)
    stream = dk.create_direct_stream(context, dk.Subscribe(topic, params))
    counted: list[tuple[int, tuple[int, ...]]] = []
    stream.map(place_of).foreachRDD(lambda rdd: counted.append((rdd.count(), dk.record_counts(rdd))))
    with running(context):
        until(lambda: counted, "a batch")
    assert counted[0] == (6, (6,)), "of 9 offsets"


def produce_in(producer: Producer, topic: str, count: int) -> None:
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    producer.flush(30)
