"""The fixtures that other tests lean on."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = pytest.mark.real


def test_a_record_written_by_another_client_is_read_back(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    producer.produce(topic, value=b"v", key=b"k", partition=1)
    assert producer.flush(30) == 0

    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": topic})
    try:
        consumer.assign([TopicPartition(topic, 1, 0)])
        record = consumer.poll(30)
    finally:
        consumer.close()
    assert record is not None
    assert record.error() is None
    assert (record.key(), record.value(), record.offset()) == (b"k", b"v", 0)


def test_topic_names_are_fresh_and_legal(topic: Callable[[], str]) -> None:
    first, second = topic(), topic()
    assert first != second
    assert first.startswith("test_topic_names_are_fresh_and_legal-")
    assert len(first) <= 249


def test_a_database_fixture_is_an_empty_database_of_its_own(database: str, postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(database) as connection:
        name = connection.execute("SELECT current_database()").fetchone()
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert name is not None
    assert postgres.dsn_of(name[0]) == database
    assert tables == (0,)
