"""Exactly once, by a transaction for each partition: rows and offset are one commit, on the executor.

1. The stream starts at the offsets that the database has; a first run preloads them.
2. A task writes its rows and moves its partition's offset on, in one transaction. The offset must stand at the start
   of the range: a range that was written already, or one that leaves something out, rolls back.

Without a shuffle, for RDD partition i is range i. No checkpoint; to rewind, UPDATE directkafka_offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import psycopg
from pyspark import RDD
from setting import DSN, TOPIC, crash_if_asked, insert, kafka_params, run, streaming_context

import directkafka as dk

STORE = dk.OffsetStore(DSN, "per-partition")


def save(offset_range: dk.OffsetRange, records: Iterable[dk.ConsumerRecord]) -> Iterator[int]:
    """Runs on executors. All rows are taken while the connection is open: a lazy map would come too late."""
    with psycopg.connect(DSN) as connection:
        rows = insert(connection, records)
        crash_if_asked("before a commit")
        STORE.advance(connection, [offset_range], rows=rows)
    crash_if_asked("after a commit")
    yield rows


def write(rdd: RDD) -> None:
    """Runs on the driver, for each batch."""
    ranges = dk.offset_ranges(rdd)
    saved = rdd.mapPartitionsWithIndex(lambda number, records: save(ranges[number], records))
    saved.foreach(lambda rows: None)  # a transformation alone does nothing


if __name__ == "__main__":
    with dk.Cluster(kafka_params()) as cluster:
        offsets = STORE.preload(cluster.earliest(cluster.partitions(TOPIC)))
    context = streaming_context()
    stream = dk.create_direct_stream(context, dk.Assign(list(offsets), kafka_params(), offsets))
    stream.foreachRDD(write)
    run(context)
