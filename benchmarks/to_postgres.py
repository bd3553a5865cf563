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

from directkafka import Pipeline, PostgresSink

BATCH = 250_000
QUERY = "SELECT topic, partition, offset, CAST(value AS STRING) AS value FROM source"


def kafka_to_postgres(spark: SparkSession, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Exactly once, beside `foreachBatch` with Spark's JDBC writer (at least once)."""
    console.print(f"publishing {rows:,} records")
    publish(servers, "write", rows, codec="lz4", partitions=2)
    runs = itertools.count()

    def ours() -> None:
        direct_engine(servers, "write", dsn=dsn, table=f"ours_{next(runs)}", rows=rows)

    def theirs() -> None:
        foreach_batch(spark, servers, "write", dsn=dsn, table=f"theirs_{next(runs)}", rows=rows)

    seconds = alternately({"ours": ours, "JVM": theirs}, repeat)
    return [ratio("Kafka to Postgres, rows", seconds, over="JVM", required=1.5, records=rows)]


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
        transform=QUERY,
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
