"""The session's Spark is the one that tests rely on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


def _interpreter(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import directkafka.offsets

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"v": [sys.executable, directkafka.offsets.__name__]})


def test_workers_run_this_interpreter_and_import_the_package_and_the_tests(
    spark: SparkSession,
) -> None:
    rows = spark.range(1).mapInArrow(_interpreter, "v string").collect()
    assert [row.v for row in rows] == [sys.executable, "directkafka.offsets"]


def test_timestamps_are_shown_in_utc(spark: SparkSession) -> None:
    shown = spark.sql("SELECT CAST(timestamp_seconds(0) AS STRING) AS v").first()
    assert shown is not None
    assert shown.v == "1970-01-01 00:00:00"
