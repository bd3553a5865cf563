"""At least once, by a consumer group of Kafka: none is lost, records may come twice, and every lag tool sees it.

1. A batch is written.
2. Only once it has succeeded, its offsets are committed to the group, without waiting for the next batch.
3. A restart begins where the group is: a batch that was written and not yet committed comes again.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from pyspark import RDD
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
    params = kafka_params(group_id="delivery-" + TOPIC, auto_offset_reset="earliest")
    stream = dk.create_direct_stream(context, dk.Subscribe(TOPIC, params))

    def write_and_commit(rdd: RDD) -> None:
        """Runs on the driver, for each batch."""
        ranges = dk.offset_ranges(rdd)
        rdd.foreachPartition(write)
        stream.commit_async(ranges)

    stream.foreachRDD(write_and_commit)
    run(context)
