"""Timestamps of first unread records, at every position of real logs; another client says what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer
from tests.real.kafka.compacted import TOPIC, compacted_topic
from tests.real.kafka.logs import consume, end_offset, end_transaction, options, produce, transactional
from tests.waiting import WAIT_S

from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.consumer.first_records import first_timestamps
from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import OffsetRange, TopicPartition

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]

START_MS = 1_600_000_000_000


def seconds_apart(servers: str, topic: str, count: int, *, partition: int = 0, **settings: object) -> None:
    """Records a second apart, ten to a batch."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, **settings})
    for number in range(count):
        producer.produce(topic, value=b"v" * 50, partition=partition, timestamp=START_MS + 1000 * number)
        if number % 10 == 9:
            assert producer.flush(WAIT_S) == 0
    assert producer.flush(WAIT_S) == 0


def check_every_position(servers: str, topic: str, *, isolation_level: str = "read_uncommitted", step: int = 1) -> None:
    """Compare with what confluent-kafka reads from each position on."""
    rows = consume(servers, topic, isolation_level=isolation_level)
    end, partition = end_offset(servers, topic), TopicPartition(topic, 0)
    with closing(KafkaClient(options(servers, isolation_level=isolation_level))) as client:
        admin = AdminClient(client)
        topics = admin.topics([topic])
        for start in range(0, end, step):
            expected = next((row[3] for row in rows if row[0] >= start), None)
            timestamps = first_timestamps(client, admin, [OffsetRange(topic, 0, start, end)], topics)
            assert timestamps == {partition: expected}, start


@pytest.mark.parametrize(
    "codec", ["none", *(pytest.param(codec, marks=pytest.mark.slow) for codec in ("gzip", "snappy", "lz4", "zstd"))]
)
def test_between_batches_and_in_their_middle(servers: str, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic()
    seconds_apart(servers, topic, 40, **{"compression.type": codec})
    check_every_position(servers, topic)


@pytest.mark.slow
def test_where_the_broker_stamps_the_records(servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic(config={"message.timestamp.type": "LogAppendTime"})
    seconds_apart(servers, topic, 20)
    check_every_position(servers, topic)


@pytest.mark.parametrize(
    "isolation_level", ["read_committed", pytest.param("read_uncommitted", marks=pytest.mark.slow)]
)
def test_among_transactions_that_were_committed_and_aborted(
    servers: str, create_topic: CreateTopic, isolation_level: str
) -> None:
    topic = create_topic()
    producer = transactional(servers, f"first-records-{isolation_level}")
    for number in range(8):
        producer.begin_transaction()
        for record in range(5):
            timestamp_ms = START_MS + 100_000 * number + 1000 * record
            producer.produce(topic, value=b"v", partition=0, timestamp=timestamp_ms)
        assert producer.flush(WAIT_S) == 0
        end_transaction(
            servers, topic, producer.abort_transaction if number in (0, 3, 4, 7) else producer.commit_transaction
        )
    check_every_position(servers, topic, isolation_level=isolation_level)


def test_a_record_that_is_larger_than_what_is_asked_for(servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic()
    produce(servers, topic, [b"x" * 300_000, b"y", b"z" * 300_000], batch_every=3, timestamp_ms=START_MS)
    produce(servers, topic, [b"x" * 300_000] * 2, batch_every=1, timestamp_ms=START_MS + 5000)
    check_every_position(servers, topic)


def test_of_many_partitions_at_once(servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic(7)
    for partition in range(5):
        seconds_apart(servers, topic, 20, partition=partition)
    unread = [OffsetRange(topic, partition, partition * 3, 20) for partition in range(5)]
    # One of which its leader has nothing, whatever the range says, and an empty one.
    unread += [OffsetRange(topic, 5, 0, 1), OffsetRange(topic, 6, 0, 0)]
    with closing(KafkaClient(options(servers))) as client:
        timestamps = first_timestamps(client, AdminClient(client), unread)
    expected: dict[TopicPartition, int | None] = {
        TopicPartition(topic, partition): START_MS + 3000 * partition for partition in range(5)
    }
    assert timestamps == {**expected, TopicPartition(topic, 6): None}


@pytest.fixture(scope="module")
def compacted() -> Iterator[str]:
    with compacted_topic() as (servers, _):
        yield servers


@pytest.mark.slow
def test_where_records_were_compacted_away(compacted: str) -> None:
    check_every_position(compacted, TOPIC, step=7)
