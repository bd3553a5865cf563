"""Streaming queries into a database, with their checkpoints: what the tests of the structured engine share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.chaos.pipelines import PARTITIONS

import directkafka as dk
from directkafka.errors import DirectKafkaError

if TYPE_CHECKING:
    from tests.real.pipeline.conftest import World

WAIT_S = 120
NAME = "numbers"

NUMBERS = ("topic", "partition", "offset", "CAST(CAST(value AS STRING) AS BIGINT) AS number")


@dataclass
class Streams:
    """Queries over one topic into the tables of one database."""

    world: World
    session: SparkSession
    checkpoint: Path

    def source(self, **options: str) -> DataFrame:
        given = {
            "kafka.bootstrap.servers": self.world.kafka,
            "subscribe": self.world.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "30",
        }
        return self.session.readStream.format("directkafka").options(**(given | options)).load()

    def numbers(self, **options: str) -> DataFrame:
        return self.source(**options).selectExpr(*NUMBERS)

    def sink(self, table: str = "records", **options: Any) -> dk.PostgresSink:
        return dk.PostgresSink(self.world.dsn, table, **options)

    def write(self, frame: DataFrame | None = None, **changes: Any) -> StreamingQuery:
        arguments: dict[str, Any] = {
            "sinks": self.sink(),
            "checkpoint": str(self.checkpoint),
            "trigger": "available-now",
            "retry_ms_max": 2_000,
        }
        name = changes.pop("name", NAME)
        return dk.write_stream(frame if frame is not None else self.numbers(), name, **(arguments | changes))

    def run(self, frame: DataFrame | None = None, **changes: Any) -> None:
        """Run an available-now query to its end."""
        assert self.write(frame, **changes).awaitTermination(WAIT_S), "the query did not end"

    def failure(self, frame: DataFrame | None = None, **changes: Any) -> DirectKafkaError:
        """The error that ended a query, as awaitTermination's caller gets it."""
        return failure_of(self.write(frame, **changes))

    def produce(self, numbers: Iterable[int]) -> None:
        """A record for each number, its timestamp so many seconds after 1970."""
        producer = Producer({"bootstrap.servers": self.world.kafka})
        for number in numbers:
            value = str(number).encode()
            producer.produce(self.world.topic, value, partition=number % PARTITIONS, timestamp=1000 * (number + 1))
        assert producer.flush(30) == 0

    def ledger(self, name: str = NAME) -> dict[str, Any]:
        columns = ("lineage", "batch_id", "generation", "progress", "total_rows")
        rows = self.world.query(f"SELECT {', '.join(columns)} FROM directkafka_ledger WHERE pipeline = '{name}'")
        return dict(zip(columns, rows[0], strict=True))

    def lineage(self) -> str:
        return str(json.loads((self.checkpoint / "metadata").read_text())["id"])

    def done(self) -> int:
        """Number of the last batch that Spark has noted as done."""
        return max((int(file.name) for file in (self.checkpoint / "commits").glob("[0-9]*")), default=-1)

    def forget_done(self, batch_id: int) -> None:
        """As if Spark had died before it noted the batch."""
        (self.checkpoint / "commits" / str(batch_id)).unlink()
        (self.checkpoint / "commits" / f".{batch_id}.crc").unlink(missing_ok=True)

    def delete_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)


def failure_of(query: StreamingQuery) -> DirectKafkaError:
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(WAIT_S)
    failure = dk.cause_of(caught.value)
    assert failure is not None, str(caught.value)
    return failure
