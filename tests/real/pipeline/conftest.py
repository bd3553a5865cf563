"""A topic of numbers and a pipeline over it, on the session's broker, database server and Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.real.pipeline.structured_world import Streams

import directkafka
from directkafka import Pipeline, PostgresSink
from directkafka.testing import KafkaBroker

COUNT = 90
QUERY = "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source"


@dataclass
class World:
    """What a test's pipeline reads and writes."""

    kafka: str
    dsn: str
    topic: str

    def pipeline(self, transform: Any = QUERY, *, sinks: Any = None, **changes: Any) -> Pipeline:
        source = {
            "kafka.bootstrap.servers": self.kafka,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "30",
        }
        given = source | changes.pop("source", {})
        arguments: dict[str, Any] = {
            "source": {name: value for name, value in given.items() if value is not None},
            "transform": transform,
            "sinks": sinks if sinks is not None else PostgresSink(self.dsn, "records"),
            "trigger": "available-now",
            "retry_ms_max": 2_000,
        }
        return Pipeline(changes.pop("name", "numbers"), **(arguments | changes))

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def numbers(self) -> list[int]:
        return [number for (number,) in self.query("SELECT number FROM records ORDER BY number")]

    def batch_id(self, name: str = "numbers") -> int:
        rows = self.query(f"SELECT batch_id FROM directkafka_ledger WHERE pipeline = '{name}'")
        return int(rows[0][0])


@pytest.fixture
def world(spark: SparkSession, kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str) -> World:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    return World(kafka=kafka_broker.bootstrap_servers, dsn=database, topic=topic)


@pytest.fixture
def streams(world: World, spark: SparkSession, tmp_path: Path) -> Streams:
    session = spark.newSession()
    directkafka.register(session)
    return Streams(world=world, session=session, checkpoint=tmp_path / "checkpoint")
