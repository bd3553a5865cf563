"""What the tests of sinks share: a look into the database, a driver without Spark, Kafka as the contract sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.contract.kafka_harness import KafkaHarness

from directkafka.sinks.postgres.store import PostgresStore
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import Job


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def harness(kafka_broker: KafkaBroker) -> Iterator[KafkaHarness]:
    """Kafka's; a transaction that a test leaves open fails it. Tests of other stores have one of their own."""
    harness = KafkaHarness(kafka_broker.bootstrap_servers)
    yield harness
    harness.close()
    assert harness.leftovers() == []


@pytest.fixture
def job(database: str) -> Iterator[Job]:
    job = Job(PostgresStore(database)).start()
    yield job
    job.store.close()
