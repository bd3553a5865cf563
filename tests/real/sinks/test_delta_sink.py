"""The Delta sink with Spark's rows, and in a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.real.pipeline.conftest import COUNT, QUERY
from tests.real.sinks.spark_batches import commit_frame
from tests.real.sinks.test_parquet_sink import frame_of_types

import directkafka as dk
from directkafka.pipeline.verify import verify
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real


def test_every_type_comes_back_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of_types(spark, "CAST('raw' AS BINARY) AS bytes")
    sink = dk.DeltaSink(tmp_path / "types")
    sink.check(to_arrow_schema(frame.schema, timezone="UTC"))
    commit_frame(Job(sink.store).start(), sink, frame)
    table = DeltaTable(tmp_path / "types")
    assert table.to_pyarrow_table().num_rows == 2
    back = spark.read.schema(from_arrow_schema(pa.schema(table.schema()))).parquet(*table.file_uris())
    assert back.orderBy("id").collect() == frame.orderBy("id").collect()


@pytest.mark.slow
def test_a_pipeline_makes_the_table_and_goes_on_where_it_ended(
    spark: SparkSession, kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = create_topic(partitions=PARTITIONS)

    def pipeline() -> dk.Pipeline:
        return dk.Pipeline(
            "numbers",
            source={
                "kafka.bootstrap.servers": kafka_broker.bootstrap_servers,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": "30",
            },
            transform=QUERY,
            sinks=dk.DeltaSink(tmp_path / "numbers"),
            trigger="available-now",
        )

    for first in (0, COUNT):
        produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT, first=first)
        pipeline().run()
    numbers = DeltaTable(tmp_path / "numbers").to_pyarrow_table().column("number").to_pylist()
    assert sorted(numbers) == list(range(2 * COUNT))
    assert [finding.is_right for finding in verify(pipeline())] == [True]
