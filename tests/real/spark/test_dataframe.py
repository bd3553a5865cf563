"""Arrow functions for Spark, with pandas hidden as in a plain installation."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from directkafka.spark.dataframe import map_in_arrow

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of it fails, as where it is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pandas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pandas", None)


def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"twice": pc.multiply(batch.column(0), 2)})


def barrier_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        tasks = len(BarrierTaskContext.get().getTaskInfos())
        yield pa.record_batch({"tasks": pa.array([tasks] * batch.num_rows, pa.int32())})


def test_a_function_runs_on_each_partition_without_pandas(spark: SparkSession) -> None:
    rows = map_in_arrow(spark.range(0, 10, 1, 2), doubled, "twice long").collect()
    assert sorted(row.twice for row in rows) == list(range(0, 20, 2))


def test_columns_may_have_any_name(spark: SparkSession) -> None:
    frame = spark.range(3).withColumnRenamed("id", "a.b `c` d")
    assert [row.twice for row in map_in_arrow(frame, doubled, "twice long").collect()] == [0, 2, 4]


def test_a_barrier_stage_runs_all_tasks_at_once(spark: SparkSession) -> None:
    frame = map_in_arrow(spark.range(0, 2, 1, 2), barrier_tasks, "tasks int", barrier=True)
    assert frame.toArrow().column("tasks").to_pylist() == [2, 2]
