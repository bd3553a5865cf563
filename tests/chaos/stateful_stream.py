"""Two direct streams beside one of files, with a state by key and a window, which go on from their checkpoint.

Arguments: the brokers' addresses, a topic, the database, and a folder for the checkpoint. Where that folder has a file
``fail``, a function that makes RDDs fails, once the first records are there, and the program says so.
"""

from __future__ import annotations

import signal
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

    def add(what: str, count: int) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute("UPDATE sums SET count = count + %s WHERE what = %s", [count, what])

    def fail_if_asked(rdd: Any) -> Any:
        if (Path(folder) / "fail").exists() and any(offset_range.count() for offset_range in dk.offset_ranges(rdd)):
            raise LookupError("as asked")
        return rdd

    def first_start() -> StreamingContext:
        conf = SparkConf().setMaster("local[2]").setAppName("state").set("spark.ui.enabled", "false")
        conf.set("spark.driver.bindAddress", "127.0.0.1").set("spark.driver.host", "127.0.0.1")
        context = StreamingContext(SparkContext(conf=conf), INTERVAL_S)  # type: ignore[arg-type]
        params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        (Path(folder) / "files").mkdir(exist_ok=True)
        files = context.textFileStream((Path(folder) / "files").as_uri())
        words = dk.create_direct_stream(context, dk.Subscribe(topic, params)).map(
            lambda record: (record.value.decode(), 1)
        )
        others = dk.create_direct_stream(context, dk.Subscribe(topic, params)).map(lambda record: "seen")
        words.updateStateByKey(lambda new, old: sum(new) + (old or 0)).foreachRDD(lambda rdd: keep(rdd))  # noqa: PLW0108
        # Each record is in two windows.
        words.window(2 * INTERVAL_S).count().foreachRDD(lambda rdd: add("in windows", sum(rdd.collect())))
        others.union(files).foreachRDD(lambda rdd: add("seen", rdd.count()))
        words.transform(fail_if_asked).foreachRDD(lambda rdd: None)
        context.checkpoint(checkpoint)
        return context

    context = StreamingContext.getOrCreate(checkpoint, first_start)
    context.start()
    print("started", flush=True)
    try:
        context.awaitTermination()
    except Exception:  # noqa: BLE001 - the test asks what came of it
        print("failed", flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
