"""Spark's Python workers under the daemon of ``directkafka.spark.worker_daemon``, what they have at their start."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from directkafka.testing.java import java_home

pytestmark = pytest.mark.real

#: The tests' own Spark has no zip file (``tests/quick_start.py``), so it would show nothing.
PROGRAM = """
import json

import pyarrow as pa
from pyspark.sql import SparkSession

def where_pyspark_is(batches):
    import pyspark, sys
    from directkafka.python_worker import is_python_worker
    for _ in batches:
        knows_zip = any(entry.endswith("pyspark.zip") for entry in sys.path_importer_cache)
        found = {"file": pyspark.__file__, "knows_zip": knows_zip, "is_worker": is_python_worker()}
        yield pa.RecordBatch.from_pylist([found])

def what_is_imported(_):
    # More than fits into the pipe, so that whoever takes one leaves the worker in the middle.
    import sys
    for _number in range(100_000):
        yield {"numba", "directkafka.kafka.records.decoder", "directkafka.spark.read_task"} <= sys.modules.keys()

SCHEMA = "file string, knows_zip boolean, is_worker boolean"
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for module in ("pyspark.daemon", "directkafka.spark.worker_daemon", "directkafka.sources.worker_daemon"):
    spark = builder.config("spark.python.daemon.module", module).getOrCreate()
    [row] = spark.range(1, numPartitions=1).mapInArrow(where_pyspark_is, SCHEMA).collect()
    numbers = spark.sparkContext.parallelize(range(1), 1)
    imported = [numbers.mapPartitions(what_is_imported).take(1)[0] for _ in range(2)]
    print(json.dumps({**row.asDict(), "has_imports": imported}))
    spark.stop()
"""


@pytest.mark.slow
def test_workers_have_their_imports_and_pyspark_from_files_and_are_known_as_workers() -> None:
    world = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**world, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spark_s, ours, formerly_named = map(json.loads, done.stdout.splitlines())
    assert ".zip" in spark_s["file"]
    assert spark_s["knows_zip"]
    assert spark_s["has_imports"] == [False, False]
    assert ".zip" not in ours["file"]
    assert not ours["knows_zip"]
    assert formerly_named == ours
    assert ours["is_worker"]
    # Of the second worker as well: the first one was ended early.
    assert ours["has_imports"] == [True, True]
