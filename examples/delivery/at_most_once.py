"""At most once: records may be lost, none comes twice.

1. ``spark.task.maxFailures = 1`` and no speculation: a task that has failed does not run a second time.
2. Where an executor is lost, Spark makes a second attempt all the same: an attempt that is not the first raises.
3. A restart begins at the end of the log: what was in flight, and what came meanwhile, is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from pyspark import TaskContext
from setting import DSN, TOPIC, crash_if_asked, insert, kafka_params, run, streaming_context

import directkafka as dk


def write(records: Iterable[dk.ConsumerRecord]) -> None:
    """Runs on executors, for each partition."""
    if TaskContext.get().attemptNumber() > 0:
        raise RuntimeError("the first attempt may have written these records already")
    with psycopg.connect(DSN) as connection:
        rows = insert(connection, records)
    if rows:
        crash_if_asked("after a partition")  # the other partitions of this batch are never written


if __name__ == "__main__":
    context = streaming_context(spark_task_maxFailures="1", spark_speculation="false")
    stream = dk.create_direct_stream(context, dk.Subscribe(TOPIC, kafka_params(auto_offset_reset="latest")))
    stream.foreachRDD(lambda rdd: rdd.foreachPartition(write))
    run(context)
