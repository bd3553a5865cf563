"""A pipeline whose executors are killed, run by test_lost_executors.py, since a process has one SparkContext.

Arguments: who carries the rows, the brokers' addresses, the database, a topic, the number of records of a batch, and
that of the executors. Prints how many executors were killed, and how many batches were redone.

Where Spark carries the rows: right before the rows of the sink ``rejected`` are computed, when those of the other sink
are written, one of the executors is killed; once for each batch. Where nobody does, a task that has staged its rejected
rows kills its own executor, once for each batch; its other rows may be staged by then, or not.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from tests.chaos.local_cluster import local_cluster, wait_for_executors
from tests.processes import arguments_of

import directkafka as dk
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.postgres.task_writer import PostgresTaskWriter

#: Another reason whenever it is computed.
QUERY = (
    "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number, "
    "CASE WHEN ascii(reflect('java.util.UUID', 'randomUUID')) % 2 = 0 THEN 'even' END AS dead_letter_reason FROM source"
)


def executors() -> list[psutil.Process]:
    processes = psutil.Process().children(recursive=True)
    return [
        process
        for process in processes
        if process.is_running() and "CoarseGrainedExecutorBackend" in " ".join(arguments_of(process))
    ]


def transform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same as :data:`QUERY`, for a native pipeline."""
    position_columns = [batch.column(name) for name in ("topic", "partition", "offset")]
    number = pc.cast(pc.cast(batch.column("value"), pa.string()), pa.int64())
    reason = pa.array([random.choice([None, "by chance"]) for _ in range(batch.num_rows)], pa.string())
    names = ["topic", "partition", "offset", "number", "dead_letter_reason"]
    return pa.RecordBatch.from_arrays([*position_columns, number, reason], names)


@dataclass(frozen=True)
class KillsItsExecutor:
    """A task's writer that takes its executor with it when its rows are staged, if no other one has for this batch."""

    inner: Any
    mark: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        report: TaskReport = self.inner(batches)
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return report
        next(
            process
            for process in psutil.Process().parents()
            if "CoarseGrainedExecutorBackend" in " ".join(arguments_of(process))
        ).kill()
        # The worker outlives its executor for a moment, and nobody hears what it says.
        return report


class KilledByTasks(dk.PostgresSink):
    """Its tasks kill their executors. With ``inline_bytes_max=0``, so that there is something staged."""

    folder: Path

    def task_writer(self, batch: BatchAttempt, schema: Any, *, task_count: int = 1) -> Any:
        inner = super().task_writer(batch, schema, task_count=task_count)
        return KillsItsExecutor(inner, self.folder / f"killed-{batch.batch_id}")


class KillsOne(dk.PostgresSink):
    """Kills an executor before the first try of each batch.

    With ``inline_bytes_max=0``: rows that the driver may hold are computed before the sink is asked.
    """

    tries: Counter[int]
    spark: SparkSession
    executors: int

    def task_writer(self, batch: BatchAttempt, schema: Any, *, task_count: int = 1) -> PostgresTaskWriter:
        self.tries[batch.batch_id] += 1
        if self.tries[batch.batch_id] == 1:
            executors()[batch.batch_id % self.executors].kill()
        wait_for_executors(self.spark, self.executors)
        return super().task_writer(batch, schema, task_count=task_count)


def main(carrier: str, servers: str, dsn: str, topic: str, batch: str, count: str) -> None:
    conf = {"spark__sql__shuffle__partitions": "2", "spark__deploy__maxExecutorRetries": "-1"}
    spark = local_cluster(os.environ["TMPDIR"], executors=int(count), **conf)
    folder = Path(os.environ["TMPDIR"])
    killing = KillsOne(dsn, "rejected", inline_bytes_max=0)
    killing.tries, killing.spark, killing.executors = Counter(), spark, int(count)
    killed = KilledByTasks(dsn, "rejected", inline_bytes_max=0)
    killed.folder = folder
    dk.Pipeline(
        "numbers",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": batch,
        },
        transform=QUERY if carrier == "spark" else dk.ArrowTransform(transform),
        sinks=dk.PostgresSink(dsn, "records", inline_bytes_max=1 << 26 if carrier == "spark" else 0),
        dead_letters=killing if carrier == "spark" else killed,
        trigger="available-now",
        retry_ms_max=120_000,
    ).run()
    redone = sum(tries > 1 for tries in killing.tries.values())
    count_killed = len(killing.tries) + len(list(folder.glob("killed-*")))
    print(json.dumps({"killed": count_killed, "redone": redone}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
