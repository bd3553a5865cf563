"""JSON from Kafka, three ways: rows that never enter the JVM, a query, and what a Spark user writes today.

Into a Postgres table of ten columns, and into nothing by the format alone. All sides read one topic in batches of one
size, in a Spark that is warm, on two cores; a pipeline's start and its ledger are timed with it.
"""

from __future__ import annotations

import itertools
import tempfile
from functools import partial
from typing import Any, Final

import pyarrow as pa
from figures import Figure, alternately, console, ratio
from json_flights import TABLE, TYPES, flights
from peers import Table
from publish import publish_values
from pyspark.sql import DataFrame, SparkSession
from ten_columns import jdbc_address

from directkafka import ArrowTransform, Pipeline, PostgresSink

__all__ = ["json_rows", "native", "query"]

BATCH: Final = 250_000
TOPIC: Final = "json-rows"
_PARTITIONS: Final = 2
#: Spark's types of what the table has.
SPARK_TYPES: Final = {"bigint": "BIGINT", "text": "STRING", "double precision": "DOUBLE", "boolean": "BOOLEAN"}
FIELDS: Final = ", ".join(f"{name} {SPARK_TYPES[kind]}" for name, kind in TYPES.items())
_TIMES_ROWS: Final = 3

_runs = itertools.count()


def json_rows(spark: SparkSession, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Three million records, unless ``rows`` says otherwise."""
    count = _TIMES_ROWS * rows
    console.print(f"publishing {count:,} records of JSON")
    publish_values(servers, TOPIC, flights(count), partitions=_PARTITIONS)
    table = Table(dsn, rows=count)
    seconds = alternately(
        {
            "ours": partial(native, servers, TOPIC, dsn),
            "query": partial(query, servers, TOPIC, dsn),
            "query over fields": partial(query_over_fields, servers, TOPIC, dsn),
            "JVM": partial(foreach_batch, spark, servers, TOPIC, dsn),
        },
        repeat,
        before=table.make,
        after=table.check,
    )
    what = "JSON to ten columns of Postgres, native"
    figures = [
        ratio(f"{what}, beside a query with from_json", seconds, over="query", required=2.0, records=count),
        ratio(
            f"{what}, beside a query over value.format", seconds, over="query over fields", required=None, records=count
        ),
        ratio(f"{what}, beside Spark's connector and JDBC", seconds, over="JVM", required=3.0, records=count),
    ]
    seconds = alternately(
        {"ours": partial(_fields, spark, servers), "JVM": partial(_from_json, spark, servers)}, repeat
    )
    name = "the format with value.format = json, fields used, noop"
    return [*figures, ratio(name, seconds, over="JVM", required=3.0, records=count)]


def fields_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What a native pipeline does with the records: their fields are its rows."""
    value = batch.column("value")
    return pa.RecordBatch.from_arrays(value.flatten(), names=[field.name for field in value.type])


def native(servers: str, topic: str, dsn: str, *, batch: int = BATCH) -> None:
    """Exactly once, and no row enters the JVM."""
    options = {"value.format": "json", "value.schema": FIELDS, "maxOffsetsPerTrigger": str(batch)}
    _run(servers, topic, dsn, ArrowTransform(fields_of), **options)


def query(servers: str, topic: str, dsn: str) -> None:
    """Exactly once: a query that parses."""
    _run(
        servers, topic, dsn, f"SELECT flight.* FROM (SELECT from_json(string(value), '{FIELDS}') AS flight FROM source)"
    )


def query_over_fields(servers: str, topic: str, dsn: str) -> None:
    """Exactly once: a query over fields that are read by the tasks."""
    _run(servers, topic, dsn, "SELECT value.* FROM source", **{"value.format": "json", "value.schema": FIELDS})


def _run(servers: str, topic: str, dsn: str, transform: Any, **options: str) -> None:
    source = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
    }
    Pipeline(
        f"bench-{topic}-{next(_runs)}",
        source=source | options,
        transform=transform,
        sinks=PostgresSink(dsn, TABLE),
        trigger="available-now",
        report=lambda report: None,
    ).run()


def foreach_batch(spark: SparkSession, servers: str, topic: str, dsn: str) -> None:
    """At least once: Spark's connector, from_json, and foreachBatch with its JDBC writer."""
    url, user, password = jdbc_address(dsn)

    def write(batch: DataFrame, _number: int) -> None:
        batch.write.format("jdbc").options(
            url=url, dbtable=TABLE, user=user, password=password, driver="org.postgresql.Driver", batchsize="10000"
        ).mode("append").save()

    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(BATCH))
        .load()
        .selectExpr(f"from_json(string(value), '{FIELDS}') AS flight")
        .select("flight.*")
    )
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as checkpoint:
        writing = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        writing.trigger(availableNow=True).start().awaitTermination()


def _fields(spark: SparkSession, servers: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "value.format": "json", "value.schema": FIELDS}
    frame = spark.read.format("directkafka").options(**options).load().select("value.*")
    frame.write.format("noop").mode("overwrite").save()


def _from_json(spark: SparkSession, servers: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
    frame = spark.read.format("kafka").options(**options).load()
    frame = frame.selectExpr(f"from_json(string(value), '{FIELDS}') AS flight").select("flight.*")
    frame.write.format("noop").mode("overwrite").save()
