"""Several outputs as one: records, totals and offsets change together or not at all, and no reader sees one without
the others.

What goes into one transaction is decided in one ``foreachRDD``. (Two ``foreachRDD`` are two jobs, and a crash may come
between them.)
"""

from __future__ import annotations

from operator import add

import psycopg
from pyspark import RDD
from setting import DSN, TOPIC, crash_if_asked, insert, kafka_params, run, streaming_context

import directkafka as dk

STORE = dk.OffsetStore(DSN, "several-outputs")
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
    rdd.cache()  # two results, one read of Kafka
    counts = rdd.map(lambda record: ((record.value or b"").decode(), 1)).reduceByKey(add).collect()
    with psycopg.connect(DSN) as connection:
        rows = insert(connection, rdd.toLocalIterator())
        crash_if_asked("between outputs")
        connection.cursor().executemany(COUNT, counts)
        STORE.advance(connection, ranges, rows=rows)
    rdd.unpersist()
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
