"""Micro-batches of a stream, and the first batch of a cold process, beside Spark's JVM connector."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from figures import Figure, console, told
from publish import publish

__all__ = ["cold_start", "micro_batches"]

_BATCHES = 24
#: What is left out: the first batches of a query, while code is compiled and connections are made.
_FIRST = 6
#: Queries of each side before the first that counts.
_WARM_QUERIES = 2
_FORMATS = {"ours": "directkafka", "JVM": "kafka"}
#: Format and settings of each side. The connector starts no Python, so what is set for Python workers is ours alone.
_COLD_SIDES: Final[Mapping[str, tuple[str, dict[str, str]]]] = {
    "ours": (
        "directkafka",
        {
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.daemon.module": "directkafka.spark.worker_daemon",
        },
    ),
    "ours in a plain session": ("directkafka", {}),
    "JVM": ("kafka", {}),
}


def micro_batches(spark: Any, servers: str, *, repeat: int) -> list[Figure]:
    """How long a batch takes from trigger to commit, in milliseconds: the median over a query's batches."""
    figures = []
    for size in (2_000, 100_000):
        topic = f"stream-{size}"
        console.print(f"publishing {_BATCHES} batches of {size:,} records")
        publish(servers, topic, size * _BATCHES, codec="lz4", partitions=2)
        batch_ms: dict[str, list[float]] = {side: [] for side in _FORMATS}
        for run in range(_WARM_QUERIES + repeat):
            for side, form in _FORMATS.items():
                median_ms = _median_batch_ms(spark, form, servers, topic, size)
                if run >= _WARM_QUERIES:
                    batch_ms[side].append(median_ms)
        medians = {side: statistics.median(times) for side, times in batch_ms.items()}
        detail = ", ".join(
            f"{side} {medians[side]:.0f} ms ({min(times):.0f}-{max(times):.0f})" for side, times in batch_ms.items()
        )
        value = medians["ours"] / medians["JVM"]
        name = f"time of a batch of {size:,} records, of the connector's"
        figures.append(told(Figure(name=name, value=value, unit="x", required=1.0, at_most=True, detail=detail)))
    return figures


def _median_batch_ms(spark: Any, form: str, servers: str, topic: str, size: int) -> float:
    reader = spark.readStream.format(form).option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    stream = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", size).load()
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as checkpoint:
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [json.loads(batch.json) for batch in query.recentProgress]
    # The partitions' shares are rounded, so a batch may be a few records off.
    full = [
        batch["durationMs"]["triggerExecution"] for batch in progress if abs(batch["numInputRows"] - size) < size / 10
    ]
    assert len(full) >= _BATCHES - 2, f"{form}: {len(full)} whole batches of {_BATCHES}"
    return float(statistics.median(full[_FIRST:]))


def cold_start(servers: str, jars: Sequence[Path], *, repeat: int) -> list[Figure]:
    """How long a new process takes until its first batch is counted, beside the connector's time."""
    publish(servers, "cold", 2_000, codec="lz4", partitions=2)
    seconds: dict[str, list[float]] = {side: [] for side in _COLD_SIDES}
    for run in range(repeat + 1):
        for side, (form, settings) in _COLD_SIDES.items():
            taken_s = _count_in_new_process(form, settings, servers, jars)
            # The first run of each fills the machine's file cache.
            if run:
                seconds[side].append(taken_s)
    medians = {side: statistics.median(times) for side, times in seconds.items()}
    detail = ", ".join(
        f"{side} {medians[side]:.2f} s ({min(times):.2f}-{max(times):.2f})" for side, times in seconds.items()
    )
    jvm_s = medians["JVM"]
    # README shows the first.
    figures = {
        "first batch of a cold process, of the connector's": "ours",
        "first batch of a cold process, plain session, of the connector's": "ours in a plain session",
    }
    return [
        told(Figure(name=name, value=medians[side] / jvm_s, unit="x", required=1.0, at_most=True, detail=detail))
        for name, side in figures.items()
    ]


_COLD = """
import json, sys, time
import psutil
from pyspark.sql import SparkSession
form, settings, servers, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
if form == "kafka":
    builder = builder.config("spark.jars", jars)
for name, value in json.loads(settings).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
if form == "directkafka":
    import directkafka
    directkafka.register(spark)
reader = spark.read.format(form).option("kafka.bootstrap.servers", servers).option("subscribe", "cold")
assert reader.load().count() == 2000
print(time.time() - psutil.Process().create_time())
spark.stop()
"""


def _count_in_new_process(form: str, settings: Mapping[str, str], servers: str, jars: Sequence[Path]) -> float:
    """Seconds from a new process's start until its first batch is counted."""
    arguments = [form, json.dumps(settings), servers, ",".join(map(str, jars))]
    done = subprocess.run(
        [sys.executable, "-c", _COLD, *arguments],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])
