"""Rows written to real brokers, and read back with confluent-kafka: through lost answers, fences, and refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Message
from confluent_kafka import Producer as ConfluentProducer
from tests.real.kafka.logs import consume, create_topic_again, host_and_port, options
from tests.real.kafka.proxy import KafkaProxy, advertise
from tests.waiting import until

from directkafka.errors import BrokerResponseError
from directkafka.errors.kafka import DeliveryTimeoutError, ProducerFencedError, ProducerStateError
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.producer.partitioner import partitions_of
from directkafka.kafka.producer.producer import Producer, new_identity
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.offsets import TopicPartition
from directkafka.options.producer import ProducerOptions

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]
PRODUCE = 0
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def identity(servers: str) -> ProducerIdentity:
    return identity_at(servers)


def identity_at(servers: str) -> ProducerIdentity:
    client = KafkaClient(options(servers))
    try:
        return new_identity(client)
    finally:
        client.close()


@contextmanager
def producer(servers: str, identity: ProducerIdentity, **settings: Any) -> Iterator[Producer]:
    client = settings.pop("client", {})
    with Producer(options(servers, **client), ProducerOptions(**settings), identity) as made:
        yield made


def rows(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"%d" % number for number in range(first, first + count)])})


def write(kafka_producer: Producer, topic: str, first: int, count: int) -> None:
    kafka_producer.write(rows(first, count), [TopicPartition(topic, 0)], np.zeros(count, np.int32))


def written(servers: str, topic: str, partition: int = 0) -> list[int]:
    """Numbers that a consumer of another make sees."""
    return [int(row[2] or b"-1") for row in consume(servers, topic, partition=partition)]


# What is written is what is read.


@pytest.mark.parametrize(
    "codec",
    [*(pytest.param(slow_codec, marks=pytest.mark.slow) for slow_codec in ("none", "gzip", "zstd")), "lz4", "snappy"],
)
def test_a_consumer_of_another_make_reads_what_was_written(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity, codec: str
) -> None:
    topic, count = create_topic(2), 3000
    places = [TopicPartition(topic, 1), TopicPartition(topic, 0)]
    target_of = np.arange(count, dtype=np.int32) % 3 % 2
    keys = [None if number % 5 == 0 else b"key-%d" % number for number in range(count)]
    values = [None if number % 7 == 0 else b"value-%d" % number for number in range(count)]
    headers = [[("n", b"%d" % number), ("none", None)] if number % 11 == 0 else None for number in range(count)]
    table = pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(
                [pairs and [{"key": key, "value": value} for key, value in pairs] for pairs in headers], HEADERS
            ),
            "timestamp": pa.array([1_700_000_000_000 + number for number in range(count)], pa.timestamp("ms", "UTC")),
        }
    )
    with producer(servers, identity, compression=codec, batch_size_bytes=4_000) as kafka_producer:
        kafka_producer.write(table, places, target_of)
        assert kafka_producer.flush() == {places[target]: int((target_of == target).sum()) for target in (0, 1)}
    for target, partition in enumerate(places):
        mine = [number for number in range(count) if target_of[number] == target]
        assert consume(servers, topic, partition=partition.partition) == [
            (offset, keys[number], values[number], 1_700_000_000_000 + number, 0, headers[number])
            for offset, number in enumerate(mine)
        ]


def test_keys_go_where_another_producer_with_java_s_rule_puts_them(servers: str, create_topic: CreateTopic) -> None:
    topic, count = create_topic(7), 500
    dice = np.random.default_rng(3)
    keys = [dice.bytes(int(length)) for length in dice.integers(0, 40, count)]
    settings = {"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 50}
    theirs = ConfluentProducer(settings)
    chosen: dict[bytes | None, int | None] = {}

    def note(_: object, message: Message) -> None:
        chosen[message.key()] = message.partition()

    for key in keys:
        theirs.produce(topic, key=key, on_delivery=note)
    assert theirs.flush(60) == 0
    ours, _ = partitions_of(pa.record_batch({"key": pa.array(keys, pa.binary())}), 7)
    assert dict(zip(keys, ours.tolist(), strict=True)) == chosen
    assert len(set(chosen.values())) == 7


def test_order_holds_over_many_requests_in_flight(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic()
    with producer(servers, identity, batch_size_bytes=300) as kafka_producer:
        for first in range(0, 20_000, 1_000):
            write(kafka_producer, topic, first, 1_000)
        assert kafka_producer.flush() == {TopicPartition(topic, 0): 20_000}
    assert written(servers, topic) == list(range(20_000))


def test_a_writer_waits_while_more_is_on_its_way_than_it_may(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic()
    with producer(servers, identity, buffer_bytes_max=1) as kafka_producer:
        for first in range(5):
            write(kafka_producer, topic, first * 100, 100)
            assert kafka_producer._accumulator._queues.acknowledged[TopicPartition(topic, 0)] >= first * 100
        kafka_producer.flush()
    assert written(servers, topic) == list(range(500))


def test_connections_are_kept_for_the_next_producer(servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic()
    used = []
    for number in range(2):
        with producer(servers, identity_at(servers)) as kafka_producer:
            write(kafka_producer, topic, number, 1)
            kafka_producer.flush()
        ((_, channel),) = connection_pool._idle
        used.append(channel)
    assert used[0] is used[1]


# Answers that do not come.


@contextmanager
def behind_proxy(servers: str) -> Iterator[tuple[KafkaProxy, str]]:
    """A proxy that clients do not leave, and its address."""
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        proxy.change = advertise(servers, address)
        yield proxy, address


def answers_swallowed(proxy: KafkaProxy, servers: str, address: str, *, from_produce: int, count: int) -> list[int]:
    """Keep the answers to so many Produce requests, which the broker has got; returns what was kept, as it grows."""
    kept: list[int] = []
    rename = advertise(servers, address)

    def change(response: bytes) -> bytes | None:
        if proxy.requests[PRODUCE] >= from_produce and len(kept) < count:
            kept.append(len(response))
            return None
        return rename(response)

    proxy.change = change
    return kept


@pytest.mark.parametrize("in_flight", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_an_answer_that_did_not_come_is_asked_for_again_and_nothing_is_doubled(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity, in_flight: int
) -> None:
    topic = create_topic()
    with behind_proxy(servers) as (proxy, address):
        settings = {"client": {"request_timeout_ms": 1_000}, "batch_size_bytes": 300, "in_flight_max": in_flight}
        with producer(address, identity, **settings) as kafka_producer:
            write(kafka_producer, topic, 0, 10)
            kafka_producer.flush()
            kept = answers_swallowed(proxy, servers, address, from_produce=proxy.requests[PRODUCE] + 1, count=1)
            write(kafka_producer, topic, 10, 2_000)
            assert kafka_producer.flush() == {TopicPartition(topic, 0): 2_010}
        assert kept
    assert written(servers, topic) == list(range(2_010))


def test_a_connection_that_breaks_again_and_again_loses_nothing_and_doubles_nothing(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic(3)
    places = [TopicPartition(topic, number) for number in range(3)]
    with behind_proxy(servers) as (proxy, address), producer(address, identity, batch_size_bytes=200) as kafka_producer:
        for first in range(0, 6_000, 300):
            kafka_producer.write(rows(first, 300), places, np.arange(300, dtype=np.int32) % 3)
            proxy.cut()
        assert kafka_producer.flush() == dict.fromkeys(places, 2_000)
    for number in range(3):
        assert written(servers, topic, number) == list(range(number, 6_000, 3))


def test_what_is_not_acknowledged_in_time_is_told(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic()
    with behind_proxy(servers) as (proxy, address):
        client = {"request_timeout_ms": 300, "socket_connection_setup_timeout_ms": 500}
        settings = {"client": client, "delivery_timeout_ms": 1_500}
        with producer(address, identity, **settings) as kafka_producer:
            write(kafka_producer, topic, 0, 10)
            kafka_producer.flush()
            proxy.change = lambda _: None
            write(kafka_producer, topic, 10, 10)
            begun = time.monotonic()
            with pytest.raises(DeliveryTimeoutError) as caught:
                kafka_producer.flush()
            assert 1.0 < time.monotonic() - begun < 5.0
            with pytest.raises(DeliveryTimeoutError):
                write(kafka_producer, topic, 20, 10)
    error = caught.value
    assert (error.topic, error.partition, error.records, error.timeout_ms) == (topic, 0, 10, 1_500)
    assert error.tries >= 1
    assert "127.0.0.1" in error.cause


# What brokers refuse.


def test_a_topic_that_is_not_there_is_waited_for_and_then_told(servers: str, identity: ProducerIdentity) -> None:
    with producer(servers, identity, topic_timeout_ms=700) as kafka_producer:
        write(kafka_producer, "nobody-made-this", 0, 1)
        with pytest.raises(BrokerResponseError, match=r"topic nobody-made-this, partition 0.*Create the topic"):
            kafka_producer.flush()


def test_a_partition_that_is_not_there_is_told(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic(2)
    with producer(servers, identity, topic_timeout_ms=300) as kafka_producer:
        kafka_producer.write(rows(0, 1), [TopicPartition(topic, 2)], np.zeros(1, np.int32))
        with pytest.raises(BrokerResponseError, match=f"topic {topic}, partition 2"):
            kafka_producer.flush()


def test_a_topic_that_comes_while_it_is_waited_for_is_written_to(
    servers: str, topic: Callable[[], str], identity: ProducerIdentity
) -> None:
    name = topic()
    with producer(servers, identity) as kafka_producer:
        write(kafka_producer, name, 0, 5)
        create_topic_again(servers, name)
        assert kafka_producer.flush() == {TopicPartition(name, 0): 5}
    assert written(servers, name) == list(range(5))


def test_a_batch_that_the_topic_does_not_take_is_told_with_both_sizes(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic(config={"max.message.bytes": "1000"})
    with producer(servers, identity) as kafka_producer:
        write(kafka_producer, topic, 0, 500)
        with pytest.raises(BrokerResponseError, match=r"error 10 .*kafka.batch.size.*500 records") as caught:
            kafka_producer.flush()
    assert caught.value.code == 10
    assert written(servers, topic) == []


def test_a_record_that_the_topic_does_not_take_is_told_in_the_broker_s_words(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic(config={"cleanup.policy": "compact"})
    with producer(servers, identity) as kafka_producer:
        write(kafka_producer, topic, 0, 1)
        with pytest.raises(BrokerResponseError, match=r"INVALID_RECORD.*must have a key") as caught:
            kafka_producer.flush()
    assert caught.value.code == 87


# Identities.


def initialised(servers: str, name: str, former: ProducerIdentity | None = None) -> ProducerIdentity:
    """A producer of transactions, as a driver makes it: new, or the next epoch of a former one."""
    client = KafkaClient(options(servers))

    def ask() -> Any:
        coordinator = client.call("FindCoordinator", key=name, key_type=1)
        if coordinator.error_code:
            return None
        client.call("Metadata", topics=[])
        answer = client.call(
            "InitProducerId",
            coordinator.node_id,
            transactional_id=name,
            transaction_timeout_ms=60_000,
            producer_id=-1 if former is None else former.producer_id,
            producer_epoch=-1 if former is None else former.epoch,
        )
        return None if answer.error_code else answer

    try:
        answer = until(ask, "no producer id")
        return ProducerIdentity(producer_id=answer.producer_id, epoch=answer.producer_epoch, transactional_id=name)
    finally:
        client.close()


def test_a_producer_whose_epoch_is_over_is_fenced(
    servers: str, create_topic: CreateTopic, topic: Callable[[], str]
) -> None:
    name, transactional_id = create_topic(), topic()
    older = initialised(servers, transactional_id)
    newer = initialised(servers, transactional_id, older)
    assert newer.epoch > older.epoch
    plain = [
        ProducerIdentity(producer_id=transactional_identity.producer_id, epoch=transactional_identity.epoch)
        for transactional_identity in (newer, older)
    ]
    with producer(servers, plain[0]) as kafka_producer:
        write(kafka_producer, name, 0, 1)
        kafka_producer.flush()
    with producer(servers, plain[1]) as kafka_producer:
        write(kafka_producer, name, 1, 1)
        with pytest.raises(ProducerFencedError) as caught:
            kafka_producer.flush()
    assert (caught.value.code, caught.value.epoch) == (47, older.epoch)
    assert written(servers, name) == [0]


def test_records_of_a_transaction_that_nobody_opened_are_refused(
    servers: str, create_topic: CreateTopic, topic: Callable[[], str]
) -> None:
    name = create_topic()
    with producer(servers, initialised(servers, topic())) as kafka_producer:
        write(kafka_producer, name, 0, 1)
        with pytest.raises(ProducerStateError) as caught:
            kafka_producer.flush()
    assert caught.value.code in {48, 120}
    assert written(servers, name) == []


def test_an_identity_that_is_used_twice_is_found_out_when_the_sequence_numbers_do_not_fit(
    servers: str, create_topic: CreateTopic, identity: ProducerIdentity
) -> None:
    topic = create_topic()
    with producer(servers, identity) as first_producer:
        write(first_producer, topic, 0, 10)
        first_producer.flush()
    with producer(servers, identity) as two:
        two._encoder._sequences[TopicPartition(topic, 0)] = 500
        write(two, topic, 10, 10)
        with pytest.raises(ProducerStateError) as caught:
            two.flush()
    assert (caught.value.code, caught.value.base_sequence) == (45, 500)
    assert written(servers, topic) == list(range(10))


def test_each_identity_is_new(servers: str) -> None:
    assert len({identity_at(servers).producer_id for _ in range(3)}) == 3
