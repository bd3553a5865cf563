"""The configuration of a Delta sink."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from directkafka.sinks.config import FilePath, SchemaPolicy, SinkConfig, sink_config
from directkafka.sinks.files.config import Durable, RowGroupBytes
from directkafka.sinks.files.formats import ParquetCompression


@sink_config
class DeltaConfig(SinkConfig):
    """A Delta table, and how its files are written."""

    path: Annotated[
        FilePath,
        Field(
            description="Of the table, on a local file system or one that driver and executors share under one path. "
            "Made from the DataFrame's schema when it does not exist."
        ),
    ]
    mode: Annotated[
        Literal["append"],
        Field(
            description="Rows that meet rows would rewrite files of the table, for which this sink has no way yet; use "
            "a database for that."
        ),
    ] = "append"
    _: KW_ONLY
    compression: Annotated[ParquetCompression, Field(description="Of the table's files.")] = "zstd"
    row_group_bytes: RowGroupBytes = 64 * 1024 * 1024
    schema_policy: SchemaPolicy = "fail"
    durable: Durable = True
