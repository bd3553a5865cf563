"""Kafka to files, both ways: the direct engine with the file sinks, and Spark's own streaming file writer.

Both read the same source in batches of the same size, cast the value to text, and write the same four columns with the
same compression. Spark's writer syncs nothing; ours syncs every file and the log, as it does by default.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from figures import Figure, alternately, console, ratio
from publish import publish
from pyspark.sql import SparkSession

from directkafka import ArrowTransform, DeltaSink, DuckDBSink, ParquetSink, Pipeline
from directkafka.sinks.files.reader import committed_files

__all__ = ["kafka_to_files"]

BATCH = 250_000
COMPRESSION: Final = "zstd"


def kafka_to_files(spark: SparkSession, servers: str, *, rows: int, repeat: int) -> list[Figure]:
    """Into files, a Delta table and a DuckDB file, exactly once, beside Spark's own streaming file writer."""
    console.print(f"publishing {rows:,} records")
    publish(servers, "files", rows, codec="lz4", partitions=2)
    figures = []
    places = {"Parquet files": into_directory, "a Delta table": into_delta, "a DuckDB file": into_duckdb}
    for (name, ours), required in zip(places.items(), (3.0, 3.0, 1.5), strict=True):
        sides = {
            "ours": partial(ours, servers, "files", rows=rows),
            "Spark": partial(sparks_own, spark, servers, "files", rows=rows),
        }
        seconds = alternately(sides, repeat)
        figures.append(ratio(f"Kafka to {name}, rows", seconds, over="Spark", required=required, records=rows))
    return figures


def into_directory(servers: str, topic: str, *, rows: int) -> None:
    """Exactly once: files, and a log that lists them with the offsets."""
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        _run(servers, topic, ParquetSink(folder, compression=COMPRESSION))
        _check(committed_files(folder).dataset().count_rows(), rows)


def into_delta(servers: str, topic: str, *, rows: int) -> None:
    """Exactly once: a Delta table."""
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        _run(servers, topic, DeltaSink(Path(folder) / "table", compression=COMPRESSION))
        _check(DeltaTable(Path(folder) / "table").count(), rows)


def into_duckdb(servers: str, topic: str, *, rows: int) -> None:
    """Exactly once: a table in a file of DuckDB's own format, which has its own compression."""
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        path = Path(folder) / "rows.duckdb"
        _run(servers, topic, DuckDBSink(path, "rows"))
        with duckdb.connect(str(path), read_only=True) as connection:
            ((row_count,),) = connection.execute("SELECT count(*) FROM rows").fetchall()
        _check(row_count, rows)


def sparks_own(spark: SparkSession, servers: str, topic: str, *, rows: int) -> None:
    """Structured Streaming's file sink, from our source: its log is a checkpoint beside a list of files."""
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        stream = (
            spark.readStream.format("directkafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(BATCH))
            .load()
            .selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        )
        query = (
            stream.writeStream.format("parquet")
            .option("path", f"{folder}/rows")
            .option("compression", COMPRESSION)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        _check(ds.dataset(f"{folder}/rows", format="parquet", exclude_invalid_files=True).count_rows(), rows)


def texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The value as a text, beside the record's place."""
    value = pc.cast(batch.column("value"), pa.string())
    columns = [batch.column(name) for name in ("topic", "partition", "offset")]
    return pa.RecordBatch.from_arrays([*columns, value], ["topic", "partition", "offset", "value"])


def _run(servers: str, topic: str, sink: ParquetSink | DeltaSink | DuckDBSink) -> None:
    Pipeline(
        "bench",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(BATCH),
        },
        transform=ArrowTransform(texts),
        sinks=sink,
        trigger="available-now",
        report=lambda report: None,
    ).run()


def _check(row_count: int, rows: int) -> None:
    assert row_count == rows, f"{row_count} rows of {rows}"
