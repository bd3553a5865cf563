"""Kafka to Postgres, both ways: the direct engine, and what a Spark user writes today.

Both read the same topic in batches of the same size, cast the value to text, and write the same four columns.
"""

from __future__ import annotations

import itertools
import tempfile

import psycopg
from figures import Figure, alternately, console, ratio
from publish import publish
from pyspark.sql import DataFrame, SparkSession
from ten_columns import jdbc_address
from to_files import texts

from directkafka import ArrowTransform, Pipeline, PostgresSink

BATCH = 250_000


def kafka_to_postgres(spark: SparkSession, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Exactly once, beside `foreachBatch` with Spark's JDBC writer (at least once)."""
    figures = []
    runs = itertools.count()
    for count in (rows, 4 * rows):
        topic = f"write-{count}"
        console.print(f"publishing {count:,} records")
        publish(servers, topic, count, codec="lz4", partitions=2)

        def ours(topic: str = topic, count: int = count) -> None:
            direct_engine(servers, topic, dsn=dsn, table=f"ours_{next(runs)}", rows=count)

        def theirs(topic: str = topic, count: int = count) -> None:
            foreach_batch(spark, servers, topic, dsn=dsn, table=f"theirs_{next(runs)}", rows=count)

        seconds = alternately({"ours": ours, "JVM": theirs}, repeat)
        figures.append(ratio(f"Kafka to Postgres, {count:,} rows", seconds, over="JVM", required=3.0, records=count))
    return figures


def direct_engine(servers: str, topic: str, *, dsn: str, table: str, rows: int) -> None:
    """Exactly once: rows and offsets in one transaction."""
    Pipeline(
        table,
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(BATCH),
        },
        transform=ArrowTransform(texts),
        sinks=PostgresSink(dsn, table),
        trigger="available-now",
        report=lambda report: None,
    ).run()
    _check(dsn, table, rows)


def foreach_batch(spark: SparkSession, servers: str, topic: str, *, dsn: str, table: str, rows: int) -> None:
    """At least once: foreachBatch with Spark's JDBC writer, with the driver's fastest settings."""
    url, user, password = jdbc_address(dsn)

    def write(batch: DataFrame, _number: int) -> None:
        batch.write.format("jdbc").options(
            url=url, dbtable=table, user=user, password=password, driver="org.postgresql.Driver", batchsize="10000"
        ).mode("append").save()

    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(BATCH))
        .load()
        .selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
    )
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as checkpoint:
        query = (
            stream.writeStream.foreachBatch(write)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    _check(dsn, table, rows)


def _check(dsn: str, table: str, rows: int) -> None:
    """The rows are there; then the table goes, so that every run meets the same database."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()
        assert found == (rows,), f"{table} has {found} rows of {rows}"
        connection.execute(f'DROP TABLE "{table}"')
