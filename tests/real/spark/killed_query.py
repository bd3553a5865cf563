"""A streaming query in a process of its own: ``python -m tests.real.spark.killed_query CONFIG``.

It writes ``PARTITION OFFSET`` lines, or kills itself with SIGKILL in its first batch that has records.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import directkafka
from directkafka.testing.java import use_java


def main() -> None:
    config: dict[str, Any] = json.loads(sys.argv[1])
    use_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]")
    for name, value in config["spark"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    directkafka.register(spark)
    stream = spark.readStream.format("directkafka").options(**config["options"]).load()

    def write(frame: DataFrame, _: int) -> None:
        rows = [f"{row.partition} {row.offset}\n" for row in frame.select("partition", "offset").collect()]
        if rows and config["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if rows:
            with Path(config["output"]).open("a") as output:
                output.writelines(rows)

    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", config["checkpoint"])
    if not config["kill"]:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
