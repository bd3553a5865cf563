"""A program with a state by key and a window over a direct stream, which goes on from its checkpoint.

Arguments: the brokers' addresses, a topic, the database, and a folder for the checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psycopg
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

import directkafka as dk

INTERVAL_S = 0.5


def main(servers: str, topic: str, dsn: str, folder: str) -> None:
    checkpoint = str(Path(folder) / "checkpoint")

    def keep(rdd: Any) -> None:
        with psycopg.connect(dsn) as connection:
            connection.cursor().executemany(
                "INSERT INTO totals VALUES (%s, %s) ON CONFLICT (word) DO UPDATE SET count = excluded.count",
                rdd.collect(),
            )

    def first_start() -> StreamingContext:
        conf = SparkConf().setMaster("local[2]").setAppName("state").set("spark.ui.enabled", "false")
        conf.set("spark.driver.bindAddress", "127.0.0.1").set("spark.driver.host", "127.0.0.1")
        context = StreamingContext(SparkContext(conf=conf), INTERVAL_S)  # type: ignore[arg-type]
        params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        words = dk.create_direct_stream(context, dk.Subscribe(topic, params)).map(lambda one: (one.value.decode(), 1))
        words.updateStateByKey(lambda new, old: sum(new) + (old or 0)).foreachRDD(lambda rdd: keep(rdd))  # noqa: PLW0108
        context.checkpoint(checkpoint)
        return context

    context = StreamingContext.getOrCreate(checkpoint, first_start)
    context.start()
    print("started", flush=True)
    context.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
