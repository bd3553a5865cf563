"""Batch reads of the format ``directkafka`` by a real Spark from a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from tests.real.kafka.logs import consume, delete_records, end_transaction, produce, transactional

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]
Reading = Callable[..., Any]

START_MS = 1_700_000_000_000


@pytest.fixture
def twenty(servers: str, create_topic: CreateTopic) -> str:
    """Two partitions of ten records each, a second apart, years ago: nothing may expire."""
    topic = create_topic(2, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers})
    for number in range(20):
        producer.produce(
            topic,
            value=b"value %d" % number,
            key=None if number == 3 else b"key %d" % number,
            headers=[("trace", b"%d" % number), ("none", None)] if number < 2 else [],
            partition=number % 2,
            timestamp=START_MS + number * 1_000,
        )
    producer.flush()
    return topic


def offsets(frame: DataFrame) -> dict[int, list[int]]:
    offsets_by_partition: dict[int, list[int]] = {}
    for row in sorted(frame.select("partition", "offset").collect()):
        offsets_by_partition.setdefault(row["partition"], []).append(row["offset"])
    return offsets_by_partition


def by_partition(topic: str, zero: int | str, position_one: int | str) -> str:
    return json.dumps({topic: {"0": zero, "1": position_one}})


def message_of(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


# What comes out.


def test_records_have_spark_s_seven_columns(reading: Reading, twenty: str) -> None:
    frame = reading(subscribe=twenty).load()
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    rows = {(row.partition, row.offset): row for row in frame.collect()}
    assert len(rows) == 20
    assert rows[1, 1].key is None
    first = rows[0, 0]
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"key 0", b"value 0", twenty)
    assert first.timestamp.replace(tzinfo=UTC) == datetime.fromtimestamp(START_MS / 1000, UTC)
    assert first.timestampType == 0


def test_headers_come_when_they_are_asked_for(reading: Reading, twenty: str) -> None:
    frame = reading(subscribe=twenty, includeHeaders="true").load()
    assert frame.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    rows = {(row.partition, row.offset): row.headers for row in frame.collect()}
    assert [(header.key, header.value and bytes(header.value)) for header in rows[1, 0]] == [
        ("trace", b"1"),
        ("none", None),
    ]
    assert rows[0, 5] is None


def test_counting_and_an_empty_topic_work(reading: Reading, twenty: str, create_topic: CreateTopic) -> None:
    assert reading(subscribe=twenty).load().count() == 20
    assert reading(subscribe=create_topic(2)).load().count() == 0


def test_two_actions_on_one_frame_give_the_same_and_a_filter_does_not_stick(reading: Reading, twenty: str) -> None:
    frame = reading(subscribe=twenty).load()
    assert frame.where("offset > 5").count() == 8
    assert frame.count() == 20
    assert frame.select("value").distinct().count() == 20


def test_a_frame_is_planned_once_and_all_its_actions_read_the_same(reading: Reading, servers: str, twenty: str) -> None:
    frame = reading(subscribe=twenty).load()
    assert frame.count() == 20
    produce(servers, twenty, [b"later"] * 5)
    assert frame.count() == 20
    assert reading(subscribe=twenty).load().count() == 25


def test_what_spark_reads_is_what_confluent_kafka_reads(
    reading: Reading, servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    produce(servers, topic, [b"v" * (number % 40) for number in range(2_000)], **{"compression.type": "zstd"})
    rows = reading(subscribe=topic, minPartitions="4").load().orderBy("offset").collect()
    expected = [(row[0], row[1], row[2]) for row in consume(servers, topic)]
    assert [(row.offset, row.key and bytes(row.key), bytes(row.value)) for row in rows] == expected


def test_transactions_that_were_aborted_are_left_out_when_it_is_asked_for(
    reading: Reading, servers: str, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    producer = transactional(servers, topic)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, value=end.__name__.encode())
        producer.flush()
        end_transaction(servers, topic, end)
    assert reading(subscribe=topic).load().count() == 2
    committed = reading(subscribe=topic, kafka__isolation__level="read_committed").load().collect()
    assert [bytes(row.value) for row in committed] == [b"commit_transaction"]


def test_ranges_are_split_into_as_many_tasks_as_asked_for(reading: Reading, twenty: str) -> None:
    frame = reading(subscribe=twenty, minPartitions="5").load()
    assert frame.rdd.getNumPartitions() >= 5
    assert offsets(frame) == {0: list(range(10)), 1: list(range(10))}
    assert reading(subscribe=twenty, maxRecordsPerPartition="3").load().rdd.getNumPartitions() == 8


# Which partitions.


def test_partitions_are_assigned_one_by_one(reading: Reading, twenty: str) -> None:
    assert offsets(reading(assign=json.dumps({twenty: [1]})).load()) == {1: list(range(10))}


def test_a_pattern_reads_every_topic_whose_name_it_is_found_in(
    reading: Reading, servers: str, twenty: str, create_topic: CreateTopic
) -> None:
    other = create_topic()
    produce(servers, other, [b"value"] * 3)
    stem = twenty.rpartition("-")[0]
    frame = reading(subscribePattern=f"^{stem}-").load()
    assert {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()} == {twenty: 20, other: 3}


def test_several_topics_are_read_in_one_frame(
    reading: Reading, servers: str, twenty: str, create_topic: CreateTopic
) -> None:
    other = create_topic()
    produce(servers, other, [b"value"] * 3)
    assert reading(subscribe=f"{twenty}, {other}").load().count() == 23


# From where to where.


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        ("earliest", "latest", {0: range(10), 1: range(10)}),
        ((3, -2), "latest", {0: range(3, 10), 1: range(10)}),
        ("earliest", (4, -1), {0: range(4), 1: range(10)}),
        ((2, 9), (5, 10), {0: range(2, 5), 1: range(9, 10)}),
        ((10, 0), (10, 1), {1: range(1)}),
    ],
)
def test_offsets_say_where_a_read_starts_and_ends(
    reading: Reading, twenty: str, starting: Any, ending: Any, expected: dict[int, range]
) -> None:
    def text(position: Any) -> str:
        return position if isinstance(position, str) else by_partition(twenty, *position)

    frame = reading(subscribe=twenty, startingOffsets=text(starting), endingOffsets=text(ending)).load()
    assert offsets(frame) == {partition: list(numbers) for partition, numbers in expected.items()}


def test_a_position_may_be_given_for_a_whole_topic(reading: Reading, twenty: str) -> None:
    frame = reading(
        subscribe=twenty,
        startingOffsets=json.dumps({twenty: "earliest"}),
        endingOffsets=json.dumps({twenty: "latest"}),
    ).load()
    assert frame.count() == 20


def test_timestamps_say_where_a_read_starts_and_ends(reading: Reading, twenty: str) -> None:
    # Record n of the twenty, at second n, is record n // 2 of partition n % 2.
    frame = reading(subscribe=twenty, startingTimestamp=START_MS + 6_000, endingTimestamp=START_MS + 11_000).load()
    assert offsets(frame) == {0: [3, 4, 5], 1: [3, 4]}
    frame = reading(
        subscribe=twenty,
        startingOffsetsByTimestamp=by_partition(twenty, START_MS, START_MS + 18_000),
        endingOffsetsByTimestamp=by_partition(twenty, START_MS + 2_000, START_MS + 60_000),
    ).load()
    assert offsets(frame) == {0: [0], 1: [9]}


def test_without_positions_a_read_goes_from_earliest_to_latest(reading: Reading, servers: str, twenty: str) -> None:
    delete_records(servers, twenty, 2)
    assert offsets(reading(subscribe=twenty).load()) == {0: list(range(2, 10)), 1: list(range(10))}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingTimestamp": 6_000}, {0: range(3, 10), 1: range(3, 10)}),
        ({"endingTimestamp": 6_000}, {0: range(3), 1: range(3)}),
        ({"startingTimestamp": 6_000, "endingOffsets": (5, 4)}, {0: range(3, 5), 1: range(3, 4)}),
        ({"startingOffsets": (1, 2), "endingTimestamp": 6_000}, {0: range(1, 3), 1: range(2, 3)}),
        ({"endingTimestamp": 60_000}, {0: range(10), 1: range(10)}),
        # One timestamp for all counts before those by partition, and these before offsets.
        (
            {"startingTimestamp": 16_000, "startingOffsetsByTimestamp": (6_000, 6_000), "startingOffsets": (1, 1)},
            {0: range(8, 10), 1: range(8, 10)},
        ),
        ({"startingOffsetsByTimestamp": (6_000, 6_000), "startingOffsets": (1, 1)}, {0: range(3, 10), 1: range(3, 10)}),
        (
            {"endingTimestamp": 4_000, "endingOffsetsByTimestamp": (6_000, 6_000), "endingOffsets": (9, 9)},
            {0: range(2), 1: range(2)},
        ),
        ({"endingOffsetsByTimestamp": (6_000, 6_000), "endingOffsets": (9, 9)}, {0: range(3), 1: range(3)}),
    ],
    ids=lambda value: ", ".join(map(str, value)) if "ing" in str(value) else "",
)
def test_times_and_offsets_may_stand_together_and_have_an_order(
    reading: Reading, twenty: str, given: dict[str, Any], expected: dict[int, range]
) -> None:
    def text(name: str, value: Any) -> Any:
        moved = START_MS if "Timestamp" in name else 0
        return value + moved if isinstance(value, int) else by_partition(twenty, *(number + moved for number in value))

    frame = reading(subscribe=twenty, **{name: text(name, value) for name, value in given.items()}).load()
    assert offsets(frame) == {partition: list(numbers) for partition, numbers in expected.items()}


def test_a_timestamp_after_the_last_record_is_an_error_or_the_end(reading: Reading, twenty: str) -> None:
    late = START_MS + 60_000
    message = message_of(reading(subscribe=twenty, startingTimestamp=late).load().count)
    assert str(late) in message
    assert "startingOffsetsByTimestampStrategy" in message
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert reading(subscribe=twenty, startingTimestamp=late, **latest).load().count() == 0


# What is lost.


@pytest.mark.slow
def test_offsets_that_expired_are_a_loss_that_names_the_range(reading: Reading, servers: str, twenty: str) -> None:
    delete_records(servers, twenty, 4)
    asked = {"subscribe": twenty, "startingOffsets": by_partition(twenty, 1, 1)}
    message = message_of(reading(**asked).load().count)
    assert "StartOffsetResetError" in message
    assert f"topic {twenty}, partition 0, offsets [1, 4)" in message
    frame = reading(**asked, failOnDataLoss="false").load()
    assert offsets(frame) == {0: list(range(4, 10)), 1: list(range(1, 10))}


def test_offsets_behind_the_end_are_a_loss_that_names_the_range(reading: Reading, twenty: str) -> None:
    asked = {"subscribe": twenty, "endingOffsets": by_partition(twenty, 15, 10)}
    assert f"topic {twenty}, partition 0, offsets [10, 15)" in message_of(reading(**asked).load().count)
    assert reading(**asked, failOnDataLoss="false").load().count() == 20


# Bad input.


def test_a_broker_that_is_not_there_is_named_in_bounded_time(session: SparkSession) -> None:
    frame = (
        session.read.format("directkafka")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("kafka.socket.connection.setup.timeout.ms", "500")
        .option("fetchOffset.numRetries", "1")
        .option("fetchOffset.retryIntervalMs", "100")
        .option("subscribe", "flights")
        .load()
    )
    begun = time.monotonic()
    message = message_of(frame.count)
    assert time.monotonic() - begun < 15.0
    assert "no Kafka broker answered at ('127.0.0.1:1',)" in message


def test_a_topic_that_is_not_there_is_named(reading: Reading, servers: str, topic: Callable[[], str]) -> None:
    name = topic()
    message = message_of(reading(subscribe=name).load().count)
    assert "TopicNotFoundError" in message
    assert name in message
    assert servers in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of subscribe, subscribePattern, assign must be given, found none"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "found subscribe and assign"),
        ({"subscribe": "a", "startingOffsets": "{not json"}, "not JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": "ten"}}'}, "startingOffsets"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "a batch cannot start at latest"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "a batch cannot end at earliest"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "earliest"}, "set startingOffsets"),
    ],
)
def test_options_that_are_wrong_are_named_with_what_to_write(
    reading: Reading, options: dict[str, str], message: str
) -> None:
    assert message in message_of(lambda: reading(**options).load().count())


def test_offsets_must_name_the_partitions_that_are_read(reading: Reading, twenty: str) -> None:
    frame = reading(subscribe=twenty, startingOffsets=json.dumps({twenty: {"0": 1}})).load()
    assert f"Not named: {twenty}-1" in message_of(frame.count)


@pytest.mark.parametrize("schema", ["value binary", "key binary, value string, topic string, partition int, "
                                    "offset bigint, timestamp timestamp, timestampType int"])  # fmt: skip
def test_a_schema_of_the_user_s_own_is_refused(reading: Reading, twenty: str, schema: str) -> None:
    message = message_of(reading(subscribe=twenty).schema(schema).load().count)
    assert "Kafka records have the columns" in message


def test_a_password_is_in_no_message_and_no_plan(reading: Reading, servers: str, twenty: str) -> None:
    frame = reading(
        subscribe=twenty,
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="PLAIN",
        kafka__sasl__username="alice",
        kafka__sasl__password="hunter2-hunter2",
    ).load()
    plan = frame._jdf.queryExecution().toString()
    message = message_of(frame.count)
    assert "kafka.security.protocol" in message
    assert "hunter2" not in plan + message + repr(frame)


def test_a_loss_on_an_executor_reaches_the_caller_with_its_text(
    reading: Reading, servers: str, twenty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records go between planning and reading: the frame is planned once, its tasks run later."""
    tasks = reading(subscribe=twenty).load().rdd
    assert tasks.getNumPartitions() == 2  # plans
    delete_records(servers, twenty, 7)
    message = message_of(tasks.count)
    assert "CouldNotReadOffsetRangeError" in message
    assert f"topic {twenty}, partition 0, offsets [0, 7)" in message
