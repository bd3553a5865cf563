"""Kafka to files, both ways: the direct engine with the file sinks, and Spark's own streaming file writer.

Both read the same source in batches of the same size, cast the value to text, and write the same four columns with the
same compression. Spark's writer syncs nothing; ours syncs every file and the log, as it does by default.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from directkafka import DeltaSink, ParquetSink, Pipeline
from directkafka.sinks.committed import committed_files

__all__ = ["BATCH", "into_delta", "into_directory", "sparks_own"]

BATCH = 250_000
QUERY = "SELECT topic, partition, offset, CAST(value AS STRING) AS value FROM source"
COMPRESSION: Final = "zstd"


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


def _run(servers: str, topic: str, sink: ParquetSink | DeltaSink) -> None:
    Pipeline(
        "bench",
        source={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(BATCH),
        },
        transform=QUERY,
        sinks=sink,
        trigger="available-now",
        report=lambda report: None,
    ).run()


def _check(found: int, rows: int) -> None:
    assert found == rows, f"{found} rows of {rows}"
