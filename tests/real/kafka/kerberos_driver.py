"""A driver whose login is Kerberos: it reads a topic by the format, as an RDD and in a pipeline, and counts.

A process of its own, since its JVM, and so its Python workers, need the environment in which Kerberos is set up. The
argument is JSON: ``kafka`` (settings without their prefix), ``topic`` (of one partition), ``records`` and ``folder``.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import directkafka as dk
from directkafka.testing.java import use_java


def main(config: dict[str, Any]) -> None:
    use_java()
    folder, topic = Path(config["folder"]), config["topic"]
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        **dk.spark_settings(),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    dk.register(spark)
    try:
        source = {f"kafka.{name}": value for name, value in config["kafka"].items()}
        source |= {"subscribe": topic, "startingOffsets": "earliest"}
        frame = spark.read.format("directkafka").options(**source).load()
        counts = {"format": frame.count()}
        ranges = [dk.OffsetRange(topic, 0, 0, config["records"])]
        counts["rdd"] = dk.create_rdd(spark.sparkContext, config["kafka"], ranges).count()
        file = folder / "records.db"
        sink = dk.SQLiteSink(file, "records")
        query = "SELECT topic, partition, offset FROM source"
        dk.Pipeline("kerberos", source=source, transform=query, sinks=sink, trigger="available-now").run()
        with closing(sqlite3.connect(file)) as connection:
            ((counts["pipeline"],),) = connection.execute("SELECT count(*) FROM records").fetchall()
        print(json.dumps(counts))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
