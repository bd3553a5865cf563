"""Spark's Python workers under the daemon of ``directkafka.sources.worker_daemon``, which the tests' session has."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


def where_pyspark_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyspark

    from directkafka.python_worker import is_python_worker

    for _ in batches:
        yield pa.record_batch({"file": [pyspark.__file__], "is_worker": [is_python_worker()]})


def test_workers_import_pyspark_from_files_and_are_known_as_workers(spark: SparkSession) -> None:
    rows = spark.range(1).mapInArrow(where_pyspark_is, "file string, is_worker boolean").collect()
    assert [row.is_worker for row in rows] == [True]
    assert ".zip" not in rows[0].file
