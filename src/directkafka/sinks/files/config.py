"""The configuration of a sink into files."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from pydantic import Field

from directkafka.sinks.config import FilePath, SchemaPolicy, SinkConfig, sink_config
from directkafka.sinks.files.formats import ParquetCompression
from directkafka.sinks.files.schema import Format

RowGroupBytes = Annotated[
    int, Field(ge=1, description="Parquet only: a row group takes about this many bytes of a task's memory.")
]
Durable = Annotated[
    bool,
    Field(description="Sync files and log before a step counts. Without it, a power cut may take committed batches."),
]


@sink_config
class FilesConfig(SinkConfig):
    """A directory of files, and how they are written."""

    path: Annotated[
        FilePath,
        Field(
            description="A directory of a local file system, or of one that driver and executors share under one path. "
            "Made when it does not exist."
        ),
    ]
    mode: Annotated[
        Literal["append"],
        Field(
            description="Committed files are never changed, so rows are only ever appended. To update rows by key, "
            "use a Delta table or a database."
        ),
    ] = "append"
    _: KW_ONLY
    table: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        Field(
            description="The sub-folder for the rows, so that one directory can hold several tables that are "
            "committed together; the directory itself by default."
        ),
    ] = None
    format: Annotated[
        Format,
        Field(description="parquet; json (an object a line); text (the DataFrame's only column, a row a line)."),
    ] = "parquet"
    compression: Annotated[
        ParquetCompression | None,
        Field(description="Of the files: json and text take gzip or none. Default: zstd for parquet, else none."),
    ] = None
    row_group_bytes: RowGroupBytes = 64 * 1024 * 1024
    schema_policy: SchemaPolicy = "fail"
    durable: Durable = True
