"""What an earlier version of directkafka left behind: broker, stores and checkpoints, as they lie on the disk.

``tests/vectors/aacf0b4.tar.xz`` was written by this program under commit aacf0b4, before the rooms of the code were
made anew; ``tests/real/test_earlier_versions.py`` goes on from it. To write another one, with a checkout of that
version and its environment::

    .venv/bin/python /path/to/this/tests/earlier.py ARCHIVE.tar.xz
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

import directkafka as dk
from directkafka.testing import EmbeddedPostgres, KafkaBroker

TOPIC = "numbers"
PARTITIONS = 2
#: How many numbers are in the topic, and read; the number n is at offset n // 2 of partition n % 2.
COUNT = 12
#: The interval of the direct stream.
INTERVAL_S = 1

QUERY = "SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source"
REJECTING = f"SELECT *, IF(number % 5 = 4, 'of five', NULL) AS dead_letter_reason FROM ({QUERY})"
RECORDS = "SELECT key, value FROM source"


def distinct(source: DataFrame) -> DataFrame:
    """Each number once, however often it comes: that is state."""
    return source.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS number").dropDuplicates(["number"])


#: What the columns of a table are, as in the statement that makes it.
_COLUMNS = """
    SELECT string_agg(format('%%I %%s%%s', a.attname, format_type(a.atttypid, a.atttypmod),
                             CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
                             || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')), ', ' ORDER BY a.attnum)
      FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped"""
_CONSTRAINTS = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype <> 'n'"


def produce(servers: str, numbers: Iterable[int]) -> None:
    """These numbers as records, each in its partition."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce(TOPIC, str(number).encode(), key=b"key", partition=number % PARTITIONS)
    producer.flush()


def pipelines(folder: Path, servers: str, dsn: str) -> dict[str, dk.Pipeline]:
    """A pipeline into each kind of store, and one of the structured engine, by name."""
    options: dict[str, Any] = {"kafka.bootstrap.servers": servers}
    sinks: dict[str, tuple[Any, Any, Mapping[str, Any]]] = {
        "sqlite": (
            REJECTING,
            dk.SQLiteSink(folder / "air.sqlite", "numbers"),
            {"dead_letters": dk.SQLiteSink(folder / "air.sqlite", "rejected")},
        ),
        "duckdb": (QUERY, dk.DuckDBSink(folder / "air.duckdb", "numbers"), {}),
        "postgres": (QUERY, dk.PostgresSink(dsn, "numbers"), {}),
        "upsert": (QUERY, dk.PostgresSink(dsn, "newest", "upsert", ["partition"], order=["offset"]), {}),
        "kafka": (RECORDS, dk.KafkaSink({"bootstrap.servers": servers}, "copied"), {}),
        "parquet": (QUERY, dk.ParquetSink(folder / "parquet"), {}),
        "json": (QUERY, dk.ParquetSink(folder / "json", format="json"), {}),
        "delta": (QUERY, dk.DeltaSink(folder / "delta"), {}),
        "structured": (
            distinct,
            dk.SQLiteSink(folder / "structured.sqlite", "numbers"),
            {"engine": "structured", "checkpoint": str(folder / "structured")},
        ),
    }
    source = options | {"subscribe": TOPIC, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    return {
        name: dk.Pipeline(name, source=source, transform=transform, sinks=sink, trigger="available-now", **changes)
        for name, (transform, sink, changes) in sinks.items()
    }


def run_query(session: SparkSession, folder: Path, servers: str) -> None:
    """A query of the user's own over the format, into Parquet, until it has read all there is."""
    dk.register(session)
    frame = session.readStream.format("directkafka").option("kafka.bootstrap.servers", servers)
    frame = frame.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    query = (
        frame.load()
        .selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS number")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "query"))
        .option("path", str(folder / "queried"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def direct_stream(session: SparkSession, folder: Path, servers: str) -> Any:
    """A streaming context with a direct stream, or what its checkpoint has of one."""
    from pyspark.streaming import StreamingContext

    def make() -> StreamingContext:
        context = StreamingContext(session.sparkContext, INTERVAL_S)
        context.checkpoint(str(folder / "dstream"))
        params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "group.id": "direct"}
        stream = dk.create_direct_stream(context, dk.Subscribe([TOPIC], params))
        stream.foreachRDD(lambda rdd: rdd.count())
        return context

    return StreamingContext.getOrCreate(str(folder / "dstream"), make)


def tables_as_sql(dsn: str) -> str:
    """The tables of a database as statements, one a line, and their rows as JSON."""
    lines = []
    with psycopg.connect(dsn) as connection:
        for (table,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        ).fetchall():
            columns = connection.execute(_COLUMNS, (table,)).fetchone()
            constraints = [text for (text,) in connection.execute(_CONSTRAINTS, (table,)).fetchall()]
            rows = connection.execute(f"SELECT coalesce(json_agg(t), '[]')::text FROM {table} t").fetchone()  # type: ignore[call-overload]
            assert columns is not None
            assert rows is not None
            lines.append(f"CREATE TABLE {table} ({', '.join([columns[0], *constraints])})")
            quoted = rows[0].replace("'", "''").replace("\n", "")
            lines.append(f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, '{quoted}')")
    return "\n".join(lines) + "\n"


def write(archive: Path) -> None:
    """All of it, as one archive."""
    from confluent_kafka.admin import AdminClient, NewTopic

    with tempfile.TemporaryDirectory(prefix="directkafka-earlier-") as name:
        folder = Path(name)
        with KafkaBroker(folder=folder / "kafka") as kafka, EmbeddedPostgres() as postgres:
            servers = kafka.bootstrap_servers
            admin = AdminClient({"bootstrap.servers": servers})
            for topic in (TOPIC, "copied"):
                admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
            produce(servers, range(COUNT))
            for pipeline in pipelines(folder, servers, postgres.dsn).values():
                pipeline.run()
            session = SparkSession.builder.getOrCreate()
            run_query(session, folder, servers)
            context = direct_stream(session, folder, servers)
            context.start()
            time.sleep(8 * INTERVAL_S)
            context.stop(stopSparkContext=False, stopGraceFully=True)
            (folder / "postgres.sql").write_text(tables_as_sql(postgres.dsn))
        for unneeded in ("server.log", "tmp"):
            os.system(f"rm -rf {folder}/kafka/node-1/{unneeded}")
        with tarfile.open(archive, "w:xz") as packed:
            for path in sorted(folder.iterdir()):
                packed.add(path, path.name)


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
