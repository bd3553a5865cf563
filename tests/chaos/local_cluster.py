"""A Spark whose executors are processes of their own, for programs in which executors are ended or kept waiting."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

EXECUTORS = 2
_WAIT_S = 120


def local_cluster(folder: str, **conf: str) -> SparkSession:
    """A session with ``EXECUTORS`` executors, all there.

    Args:
        folder: for all that it writes.
        conf: more of Spark's settings, with ``__`` for each dot.
    """
    builder = SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.executor.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        # A task waits for no executor that it would prefer.
        "spark.locality.wait": "0s",
        **{name.replace("__", "."): value for name, value in conf.items()},
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    wait_for_executors(spark)
    return spark


def wait_for_executors(spark: SparkSession) -> None:
    until_s = time.monotonic() + _WAIT_S
    while registered(spark) < EXECUTORS:
        assert time.monotonic() < until_s, "the executors did not come"
        time.sleep(0.05)


def registered(spark: SparkSession) -> int:
    """How many executors the driver knows."""
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.getExecutorMemoryStatus().size()) - 1  # the driver is one of them
