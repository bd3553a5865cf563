"""A Spark whose executors are processes of their own, for programs in which executors are ended or kept waiting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import SparkSession

from directkafka.testing.java import use_java

_WAIT_S = 120
_RUN_TIMEOUT_S = 900


def run_program(program: ModuleType, *arguments: str, folder: Path) -> Any:
    """Run ``program`` as a process of its own, since a process has one SparkContext; what its last line says, as JSON.

    Args:
        program: a module.
        folder: for temporary files.
    """
    use_java()
    path = os.pathsep.join(filter(None, sys.path))
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": path,
        "SPARK_WORKER_DIR": str(folder / "work"),
        "TMPDIR": str(folder),
    }
    command = [sys.executable, "-W", "ignore", "-m", program.__name__, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout.splitlines()[-1])


def local_cluster(folder: str, *, executors: int = 2, **conf: str) -> SparkSession:
    """A session with executors of one core each, all there.

    Args:
        folder: for all that it writes.
        executors: how many.
        conf: more of Spark's settings, with ``__`` for each dot.
    """
    # Executors start as quickly as the driver does: tests/quick_start.py. Spark's settings they have from the driver.
    given = os.environ.get("SPARK_SUBMIT_OPTS", "").split()
    options = " ".join(option for option in given if not option.startswith("-Dspark."))
    builder = SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.executor.extraJavaOptions": f"{options} -XX:-UsePerfData -Djava.io.tmpdir={folder}",
        # A task waits for no executor that it would prefer.
        "spark.locality.wait": "0s",
        **{name.replace("__", "."): value for name, value in conf.items()},
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    wait_for_executors(spark, executors)
    return spark


def wait_for_executors(spark: SparkSession, count: int) -> None:
    until_s = time.monotonic() + _WAIT_S
    while registered(spark) < count:
        assert time.monotonic() < until_s, "the executors did not come"
        time.sleep(0.05)


def registered(spark: SparkSession) -> int:
    """How many executors the driver knows."""
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1  # the driver is one of them
