"""Topics of many partitions with few new records each: fewer tasks than ranges, whoever carries the rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tests.real.pipeline.conftest import World

from directkafka import ArrowTransform, SQLiteSink

pytestmark = pytest.mark.real

RANGES = 24
ROWS = 240


def with_task(batch: pa.RecordBatch) -> pa.RecordBatch:
    # There is no task when the pipeline is checked, by an empty batch.
    context = TaskContext.get()
    number = -1 if context is None else context.partitionId()
    names = ["topic", "partition", "offset"]
    tasks = pa.array([number] * batch.num_rows, pa.int32())
    return pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), tasks], [*names, "task"])


@pytest.mark.parametrize(
    "transform",
    [ArrowTransform(with_task), "SELECT topic, partition, offset, spark_partition_id() AS task FROM source"],
    ids=["native", "query"],
)
@pytest.mark.parametrize("wish", [None, pytest.param(RANGES, marks=pytest.mark.slow)])
def test_small_ranges_share_tasks_unless_the_user_wishes_for_more(
    wish: int | None,
    transform: Any,
    world: World,
    spark: SparkSession,
    create_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    topic = create_topic(partitions=RANGES)
    producer = Producer({"bootstrap.servers": world.kafka})
    for number in range(ROWS):
        producer.produce(topic, str(number).encode(), partition=number % RANGES)
    assert producer.flush(30) == 0
    source = {"subscribe": topic, "maxOffsetsPerTrigger": None, "minPartitions": None if wish is None else str(wish)}
    path = tmp_path / "air.sqlite"
    world.pipeline(transform, sinks=SQLiteSink(path, "records"), name=topic, source=source).run()
    with closing(sqlite3.connect(path)) as connection:
        rows = 'SELECT count(*), count(DISTINCT partition || "/" || "offset"), count(DISTINCT task) FROM records'
        counts = connection.execute(rows).fetchone()
    assert counts == (ROWS, ROWS, wish or 2 * spark.sparkContext.defaultParallelism)
