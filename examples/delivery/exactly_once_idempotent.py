"""Exactly once, by writes that may be repeated: the same record has the same key, and a second insert does nothing.

1. The checkpoint makes a batch that was interrupted run again (at least once).
2. The table's key is the record's place in Kafka, or a key of the message's own (at most once).

For records that are written one by one. A sum over several records has no such key: see exactly_once_per_batch.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from pyspark.streaming import StreamingContext
from setting import (
    DSN,
    INSERT,
    TOPIC,
    checkpoint_folder,
    crash_if_asked,
    insert,
    kafka_params,
    run,
    streaming_context,
)

import directkafka as dk

KEY = "CREATE UNIQUE INDEX IF NOT EXISTS output_place ON output (partition, kafka_offset)"


def write(records: Iterable[dk.ConsumerRecord]) -> None:
    """Runs on executors, for each partition."""
    with psycopg.connect(DSN) as connection:
        rows = insert(connection, records, f"{INSERT} ON CONFLICT DO NOTHING")
    if rows:
        crash_if_asked("after a partition")


def first_start() -> StreamingContext:
    """Makes the context when there is no checkpoint."""
    context = streaming_context()
    stream = dk.create_direct_stream(context, dk.Subscribe(TOPIC, kafka_params(auto_offset_reset="earliest")))
    stream.foreachRDD(lambda rdd: rdd.foreachPartition(write))
    return context


if __name__ == "__main__":
    with psycopg.connect(DSN) as connection:
        connection.execute(KEY)
    run(StreamingContext.getOrCreate(checkpoint_folder(), first_start))
