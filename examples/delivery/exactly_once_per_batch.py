"""Exactly once with a shuffle: the results of a whole batch and all its offsets are one commit, on the driver.

After ``reduceByKey``, partitions are no ranges any more. So the ranges are taken before it, the (small) result is
brought to the driver, and both are written in one transaction.
"""

from __future__ import annotations

from operator import add

import psycopg
from pyspark import RDD
from setting import DSN, TOPIC, crash_if_asked, kafka_params, run, streaming_context

import directkafka as dk

STORE = dk.OffsetStore(DSN, "per-batch")
TABLE = "CREATE TABLE IF NOT EXISTS totals (word text PRIMARY KEY, count bigint NOT NULL)"
COUNT = """
    INSERT INTO totals VALUES (%s, %s)
    ON CONFLICT (word) DO UPDATE SET count = totals.count + excluded.count
"""


def write(rdd: RDD) -> None:
    """Runs on the driver, for each batch."""
    ranges = dk.offset_ranges(rdd)
    if not ranges:
        return  # not for empty ranges: they say where a partition begins
    counts = rdd.map(lambda record: ((record.value or b"").decode(), 1)).reduceByKey(add).collect()
    with psycopg.connect(DSN) as connection:
        connection.cursor().executemany(COUNT, counts)
        crash_if_asked("before a commit")
        STORE.advance(connection, ranges, rows=sum(count for _, count in counts))
    crash_if_asked("after a commit")


if __name__ == "__main__":
    with psycopg.connect(DSN) as connection:
        connection.execute(TABLE)
    with dk.Cluster(kafka_params()) as cluster:
        offsets = STORE.preload(cluster.earliest(cluster.partitions(TOPIC)))
    context = streaming_context()
    stream = dk.create_direct_stream(context, dk.Assign(list(offsets), kafka_params(), offsets))
    stream.foreachRDD(write)
    run(context)
