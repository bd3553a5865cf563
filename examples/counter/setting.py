"""What the counter-examples share: a query over a topic, and a crash at a chosen moment.

Environment: ``KAFKA`` (brokers), ``TOPIC`` (input), ``FOLDER`` (checkpoint and files), and ``CRASH=kill`` for the run
that is to die, or ``CRASH=raise`` for one whose task, or function on the driver, is to fail at that moment. Each
example is started twice: once with it, once without.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import directkafka as dk

FOLDER = Path(os.environ["FOLDER"])


def spark_session(**settings: str) -> SparkSession:
    """One core, so that tasks run one after the other and the crash has one outcome."""
    # Workers inherit it, so that a task can end the driver as well as itself.
    os.environ["DRIVER_PID"] = str(os.getpid())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.addPyFile(__file__)  # tasks call crash_if_asked()
    dk.register(spark)
    return spark


def records(spark: SparkSession) -> DataFrame:
    """The input topic's values."""
    source = spark.readStream.format("directkafka").option("kafka.bootstrap.servers", os.environ["KAFKA"])
    stream = source.option("subscribe", os.environ["TOPIC"]).option("startingOffsets", "earliest").load()
    return stream.selectExpr("CAST(value AS STRING) AS value")


def run(query: DataStreamWriter) -> None:
    """Run what there is, with a checkpoint."""
    query.option("checkpointLocation", str(FOLDER / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


def crash_if_asked(batch_id: int) -> None:
    """Here and now, the whole application is gone: the driver, and the process that runs this line. Or this line fails.

    Batch 0 has no records; it only says where the query starts.
    """
    how = os.environ.get("CRASH") if batch_id > 0 else None
    if how == "raise":
        raise RuntimeError("a failure at the worst moment")
    if how == "kill":
        for process in (int(os.environ["DRIVER_PID"]), os.getpid()):
            os.kill(process, signal.SIGKILL)
