"""Kafka to Postgres, both ways: the direct engine, and what a Spark user writes today.

Both read the same topic in batches of the same size, cast the value to text, and write the same four columns.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Final

import psycopg
from figures import Figure, alternately, console, ratio, told
from publish import publish
from pyspark.sql import DataFrame, SparkSession
from ten_columns import jdbc_address
from to_files import texts

from directkafka import ArrowTransform, Pipeline, PostgresSink
from directkafka.pipeline.progress import BatchReport

BATCH: Final = 250_000
#: How many times as long as the second it may take; the second is read while the first is committed.
_FIRST_BATCH_MAX: Final = 3.0

_runs = itertools.count()


def kafka_to_postgres(spark: SparkSession, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Exactly once, beside `foreachBatch` with Spark's JDBC writer (at least once)."""
    figures = []
    for count in (rows, 4 * rows):
        topic = f"write-{count}"
        console.print(f"publishing {count:,} records")
        publish(servers, topic, count, codec="lz4", partitions=2)
        reports: list[BatchReport] = []
        seconds = alternately(
            {
                "ours": partial(direct_engine, servers, topic, dsn, "ours", reports),
                "JVM": partial(foreach_batch, spark, servers, topic, dsn, "jvm"),
            },
            repeat,
            before=partial(_drop, dsn),
            after=partial(_check, dsn, count),
        )
        figures.append(ratio(f"Kafka to Postgres, {count:,} rows", seconds, over="JVM", required=3.0, records=count))
        if len(reports) > 1:
            figures.append(_first_beside_second(reports, count))
    return figures


def direct_engine(servers: str, topic: str, dsn: str, table: str, reports: list[BatchReport]) -> None:
    """Exactly once: rows and offsets in one transaction.

    Args:
        reports: where those of the batches go, in place of the run's before.
    """
    reports.clear()
    Pipeline(
        f"{topic}-{next(_runs)}",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(BATCH),
        },
        transform=ArrowTransform(texts),
        sinks=PostgresSink(dsn, table),
        trigger="available-now",
        report=reports.append,
    ).run()


def _first_beside_second(reports: Sequence[BatchReport], count: int) -> Figure:
    """How many times as long a run's first batch takes as the second, which is read while the first is committed."""
    first, second, *_ = (report.total_ms for report in reports)
    name = f"time of the first batch, of the second's, {count:,} rows into Postgres"
    detail = f"first {first} ms, second {second} ms, in the last run"
    return told(
        Figure(name=name, value=first / second, unit="x", required=_FIRST_BATCH_MAX, at_most=True, detail=detail)
    )


def foreach_batch(spark: SparkSession, servers: str, topic: str, dsn: str, table: str) -> None:
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


def _drop(dsn: str, side: str) -> None:
    """Nothing is left of a run that has failed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{side.lower()}"')


def _check(dsn: str, rows: int, side: str) -> None:
    """The rows are there; then the table goes, so that every run meets the same database."""
    table = side.lower()
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()
        assert row == (rows,), f"{table} has {row} rows of {rows}"
        connection.execute(f'DROP TABLE "{table}"')
        connection.execute("CHECKPOINT")
