"""The database goes away while a pipeline runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import PARTITIONS, State, produce_numbers

from directkafka import Pipeline, PostgresSink
from directkafka.errors import StoreUnavailableError
from directkafka.pipeline.progress import BatchReport
from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = pytest.mark.real

COUNT = 300
QUERY = "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source"


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres() as running:
        yield running


@pytest.fixture
def topic(kafka_broker: KafkaBroker, create_topic: Callable[..., str]) -> str:
    name = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, name, COUNT)
    return name


def pipeline_of(kafka: str, topic: str, dsn: str, report: Callable[[BatchReport], None], retry_ms_max: int) -> Pipeline:
    return Pipeline(
        "numbers",
        source={
            "kafka.bootstrap.servers": kafka,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "60",
        },
        transform=QUERY,
        sinks=PostgresSink(dsn, "records"),
        trigger="available-now",
        report=report,
        retry_ms_max=retry_ms_max,
    )


def numbers_in(dsn: str) -> list[int]:
    return sorted(row[3] for row in State.read(dsn, "numbers").rows)


def test_a_database_that_comes_back_is_waited_for(
    spark: SparkSession, kafka_broker: KafkaBroker, topic: str, server: EmbeddedPostgres
) -> None:
    dsn = server.create_database("air")
    restarts = iter([True])

    def report(batch: BatchReport) -> None:
        if next(restarts, False):
            server.kill()
            server.restart()

    pipeline_of(kafka_broker.bootstrap_servers, topic, dsn, report, retry_ms_max=60_000).run()
    assert numbers_in(dsn) == list(range(COUNT))


@pytest.mark.slow
def test_a_database_that_stays_away_stops_the_pipeline_and_nothing_is_lost(
    spark: SparkSession, kafka_broker: KafkaBroker, topic: str, server: EmbeddedPostgres, tmp_path: Path
) -> None:
    dsn = server.create_database("air")
    kills = iter([True])

    def report(batch: BatchReport) -> None:
        if next(kills, False):
            server.kill()

    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        pipeline_of(kafka_broker.bootstrap_servers, topic, dsn, report, retry_ms_max=2_000).run()
    server.restart()
    left = numbers_in(dsn)
    assert 0 < len(left) < COUNT
    pipeline_of(kafka_broker.bootstrap_servers, topic, dsn, lambda batch: None, retry_ms_max=60_000).run()
    assert numbers_in(dsn) == list(range(COUNT))
