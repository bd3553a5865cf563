"""The format in a session without a setting of ours: what its Python processes are, and what the session's others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from directkafka.spark.python_command import NAME
from directkafka.testing import KafkaBroker
from directkafka.testing.java import java_home

pytestmark = pytest.mark.real

#: The tests' own Spark has no zip file (``tests/quick_start.py``), so it would show nothing.
PROGRAM = """
import json, sys
from contextlib import suppress
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
import directkafka as dk

def daemons():
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command = process.cmdline()
            if "pyspark.daemon" in command and process.parent().name() == "java":
                has_arrow = any("libarrow" in library.path for library in process.memory_maps())
                yield command[-1], [Path(command[-4]).name, has_arrow]

servers, topic = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.log.level", "ERROR").getOrCreate()
dk.register(spark)
options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
records = spark.read.format("directkafka").options(**options).load()
count = records.count()
of_format = dict(daemons())
assert spark.sparkContext.parallelize(range(2), 2).map(str).count() == 2
print(json.dumps([count, of_format, [daemon for daemon in daemons() if daemon not in [*of_format.items()]]]))
"""


@pytest.mark.slow
def test_processes_of_the_format_are_forked_by_the_command_and_others_by_python(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(partitions=2)
    world = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kafka_broker.bootstrap_servers, topic],
        env={**world, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, of_format, others = json.loads(done.stdout.splitlines()[-1])
    assert count == 0
    # Spark looks for sources that are packages by its own Python, before it knows of any.
    python = Path(sys.executable).name
    assert of_format.pop("pyspark.sql.worker.lookup_data_sources")[0] == python
    # Arrow is imported before the fork, but where only a schema is asked for.
    assert of_format == {
        "pyspark.sql.worker.create_data_source": [NAME, False],
        "pyspark.sql.worker.plan_data_source_read": [NAME, True],
        "pyspark.worker": [NAME, True],
    }
    assert others == [["pyspark.worker", [python, False]]]
