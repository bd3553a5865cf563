"""The configuration of a Delta sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated

from pydantic import Field

from directkafka.sinks.config import (
    AddColumns,
    DeleteColumn,
    DeleteHowName,
    DeleteTimeColumn,
    FilePath,
    ModeName,
    OrderColumns,
    SchemaPolicy,
    SinkConfig,
    Truncate,
    sink_config,
)
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
    mode: ModeName = "append"
    key: Annotated[
        Sequence[str] | None,
        Field(description="Columns that name a row: needed by ignore, upsert and merge, whose batches rewrite files."),
    ] = None
    add: AddColumns = None
    order: OrderColumns = None
    _: KW_ONLY
    delete: DeleteColumn = None
    delete_how: DeleteHowName = "hard"
    delete_time: DeleteTimeColumn = None
    truncate: Truncate = False
    compression: Annotated[ParquetCompression, Field(description="Of the table's files.")] = "zstd"
    row_group_bytes: RowGroupBytes = 64 * 1024 * 1024
    schema_policy: SchemaPolicy = "fail"
    durable: Durable = True
