"""A pipeline whose executors are killed, run by test_lost_executors.py, since a process has one SparkContext.

Arguments: the brokers' addresses, the database, a topic, the number of records of a batch, and that of the executors.
Right before the rows of the sink ``rejected`` are computed, when those of the other sink are written, one of the
executors is killed; once for each batch. Prints how many were killed, and how many batches were redone.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

import psutil
from pyspark.sql import SparkSession
from tests.chaos.local_cluster import local_cluster, wait_for_executors

import directkafka as dk
from directkafka.sinks.api import BatchAttempt
from directkafka.sinks.postgres.task_writer import PostgresTaskWriter

#: Another reason whenever it is computed.
QUERY = (
    "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number, "
    "CASE WHEN ascii(reflect('java.util.UUID', 'randomUUID')) % 2 = 0 THEN 'even' END AS dead_letter_reason FROM source"
)


def executors() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [one for one in found if one.is_running() and "CoarseGrainedExecutorBackend" in " ".join(cmdline(one))]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


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


def main(servers: str, dsn: str, topic: str, batch: str, count: str) -> None:
    conf = {"spark__sql__shuffle__partitions": "2", "spark__deploy__maxExecutorRetries": "-1"}
    spark = local_cluster(os.environ["TMPDIR"], executors=int(count), **conf)
    dead_letters = KillsOne(dsn, "rejected", inline_bytes_max=0)
    dead_letters.tries, dead_letters.spark, dead_letters.executors = Counter(), spark, int(count)
    dk.Pipeline(
        "numbers",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": batch,
        },
        transform=QUERY,
        sinks=dk.PostgresSink(dsn, "records"),
        dead_letters=dead_letters,
        trigger="available-now",
        retry_ms_max=120_000,
    ).run()
    redone = sum(tries > 1 for tries in dead_letters.tries.values())
    print(json.dumps({"killed": len(dead_letters.tries), "redone": redone}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
