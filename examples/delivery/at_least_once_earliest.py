"""At least once, by starting over: none is lost as long as Kafka keeps it, and a restart repeats all that it keeps.

For short retention, or where duplicates cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from setting import DSN, TOPIC, crash_if_asked, insert, kafka_params, run, streaming_context

import directkafka as dk


def write(records: Iterable[dk.ConsumerRecord]) -> None:
    """Runs on executors, for each partition."""
    with psycopg.connect(DSN) as connection:
        rows = insert(connection, records)
    if rows:
        crash_if_asked("after a partition")


if __name__ == "__main__":
    context = streaming_context()
    stream = dk.create_direct_stream(context, dk.Subscribe(TOPIC, kafka_params(auto_offset_reset="earliest")))
    stream.foreachRDD(lambda rdd: rdd.foreachPartition(write))
    run(context)
