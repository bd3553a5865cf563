"""Kafka to Postgres, both ways: the direct engine, and what a Spark user writes today.

Both read the same topic in batches of the same size, cast the value to text, and write the same four columns.
"""

from __future__ import annotations

import tempfile
from urllib.parse import urlsplit

import psycopg
from pyspark.sql import DataFrame, SparkSession

from directkafka import Pipeline, PostgresSink

BATCH = 250_000
QUERY = "SELECT topic, partition, offset, CAST(value AS STRING) AS value FROM source"


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
    parts = urlsplit(dsn)
    url = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}?reWriteBatchedInserts=true"

    def write(batch: DataFrame, _number: int) -> None:
        batch.write.format("jdbc").options(
            url=url, dbtable=table, user=parts.username, driver="org.postgresql.Driver", batchsize="10000"
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
