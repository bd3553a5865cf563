"""At least once, by a checkpoint: none is lost, records may come twice.

1. Spark submits a batch, and writes its ranges to the checkpoint beside it.
2. A batch that had begun when the driver died runs again: with the same ranges, if the checkpoint was written by then.
   All that it had written comes again.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from pyspark.streaming import StreamingContext
from setting import DSN, TOPIC, checkpoint_folder, crash_if_asked, insert, kafka_params, run, streaming_context

import directkafka as dk


def write(records: Iterable[dk.ConsumerRecord]) -> None:
    """Runs on executors, for each partition."""
    with psycopg.connect(DSN) as connection:
        rows = insert(connection, records)
    if rows:
        crash_if_asked("after a partition")


def first_start() -> StreamingContext:
    """Makes the context when there is no checkpoint; later starts have it from there, functions and all."""
    context = streaming_context()
    stream = dk.create_direct_stream(context, dk.Subscribe(TOPIC, kafka_params(auto_offset_reset="earliest")))
    stream.foreachRDD(lambda rdd: rdd.foreachPartition(write))
    return context


if __name__ == "__main__":
    run(StreamingContext.getOrCreate(checkpoint_folder(), first_start))
