"""A query over Spark's own Kafka source into a sink of ours; a process of its own, whose JVM has the connector's jars.

The argument is JSON: ``servers``, ``topic`` (with one partition), ``folder`` and ``spark`` (settings). After each run a
line of JSON says where the ledger stands, as ``[partition, origin, start, end]``, and how many rows the table has.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.real.kafka.logs import add_partitions, produce

import directkafka as dk
from directkafka.testing.java import use_java
from directkafka.testing.jvm_connector import jvm_connector_jars

WAIT_S = 120
NAME = "own-source"


class Query:
    """Runs of one query, and looks at what they left."""

    def __init__(self, spark: SparkSession, config: dict[str, Any]) -> None:
        self.spark = spark
        self.config = config
        self.checkpoint = Path(config["folder"]) / "checkpoint"
        self.file = Path(config["folder"]) / "records.db"

    def sink(self) -> dk.SQLiteSink:
        return dk.SQLiteSink(self.file, "records")

    def run(self) -> None:
        stream = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.config["servers"])
        stream = stream.option("subscribe", self.config["topic"]).option("startingOffsets", "earliest")
        rows = stream.load().select("topic", "partition", "offset")
        query = dk.write_stream(rows, NAME, self.sink(), checkpoint=str(self.checkpoint), trigger="available-now")
        assert query.awaitTermination(WAIT_S), "the query did not end"
        self.tell()

    def tell(self) -> None:
        ((progress,),) = self.ask("SELECT progress FROM directkafka_ledger")
        ledger = [
            [partition[key] for key in ("partition", "origin", "start", "end")] for partition in json.loads(progress)
        ]
        ((rows,),) = self.ask("SELECT count(*) FROM (SELECT DISTINCT partition, offset FROM records)")
        ((all_rows,),) = self.ask("SELECT count(*) FROM records")
        assert rows == all_rows, "rows are doubled"
        print(json.dumps([ledger, rows]), flush=True)

    def ask(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement).fetchall()

    def forget_last(self) -> None:
        """As if Spark had died before it noted its last batch."""
        last = max((file for file in (self.checkpoint / "commits").glob("[0-9]*")), key=lambda file: int(file.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def adopt(self) -> None:
        """After the ledger was left to another lineage, at the same offsets."""
        self.ask("UPDATE directkafka_ledger SET lineage = 'another', batch_id = 70")
        dk.adopt(NAME, self.sink(), checkpoint=str(self.checkpoint), confirm=True, spark=self.spark)

    def produce(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            produce(self.config["servers"], self.config["topic"], [b"value"] * 10, partition=partition)


def main() -> None:
    config = json.loads(sys.argv[1])
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = jvm_connector_jars(lambda text: print(text, file=sys.stderr))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(map(str, jars)))
    for name, value in config["spark"].items():
        builder = builder.config(name, value)
    query = Query(builder.getOrCreate(), config)
    query.produce([0])
    query.run()
    add_partitions(config["servers"], config["topic"], 2)
    query.produce([0, 1])
    query.run()
    query.forget_last()
    query.run()
    query.adopt()
    add_partitions(config["servers"], config["topic"], 3)
    query.produce([0, 2])
    query.run()


if __name__ == "__main__":
    main()
