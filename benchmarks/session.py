"""The Spark session that both sides are measured in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["start_spark"]


def start_spark(jars: Sequence[Path], warehouse: str) -> Any:
    """A local session with two cores, Spark's JVM connector, and the formats ``directkafka`` and ``ready``."""
    from floor import ReadyBatches  # pyspark is imported once Java is found
    from pyspark.sql import SparkSession

    import directkafka

    builder = SparkSession.builder.appName("directkafka benchmark").master("local[2]")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "4g",
        "spark.sql.warehouse.dir": warehouse,
        # As `directkafka run` sets them.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "directkafka.spark.worker_daemon",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    directkafka.register(spark)
    spark.dataSource.register(ReadyBatches)
    return spark
