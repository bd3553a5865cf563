"""A query that is run by Spark's own source and by ours in turn, on one checkpoint; a process of its own.

Its JVM has the connector's jars, which the other tests' must not have. The argument is JSON: ``servers``, ``topic``,
``folder``, ``spark`` (settings) and ``formats``. Before each run twenty records are produced; after it a line of JSON
says which format read which ``[partition, offset]``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.real.kafka.logs import produce

import directkafka
from directkafka.testing.java import use_java
from directkafka.testing.jvm_connector import jvm_connector_jars

WAIT_S = 120


def run(spark: SparkSession, source: str, config: dict[str, Any]) -> list[tuple[int, int]]:
    positions: list[tuple[int, int]] = []

    def keep(frame: DataFrame, _: int) -> None:
        positions.extend((row.partition, row.offset) for row in frame.select("partition", "offset").collect())

    stream = spark.readStream.format(source).option("kafka.bootstrap.servers", config["servers"])
    stream = stream.option("subscribe", config["topic"]).option("startingOffsets", "earliest")
    writer = stream.load().writeStream.foreachBatch(keep)
    checkpoint = str(Path(config["folder"]) / "checkpoint")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S), "the query did not end"
    return sorted(positions)


def main() -> None:
    config = json.loads(sys.argv[1])
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    jars = jvm_connector_jars(lambda text: print(text, file=sys.stderr))
    for name, value in {"spark.jars": ",".join(map(str, jars)), **config["spark"]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    directkafka.register(spark)
    for source in config["formats"]:
        for partition in range(2):
            produce(config["servers"], config["topic"], [b"value"] * 10, partition=partition)
        print(json.dumps([source, run(spark, source, config)]), flush=True)


if __name__ == "__main__":
    main()
