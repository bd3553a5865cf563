"""The configuration of a sink into a database file."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

from pydantic import Field

from directkafka.sinks.config import (
    AddColumns,
    DeleteColumn,
    DeleteHowName,
    DeleteTimeColumn,
    FilePath,
    KeyColumns,
    ModeName,
    OrderColumns,
    SchemaPolicy,
    SinkConfig,
    Truncate,
    sink_config,
)


@sink_config
class EmbeddedConfig(SinkConfig):
    """A table of a database file, and how rows get there."""

    path: Annotated[FilePath, Field(description="The database file; made when it does not exist.")]
    table: Annotated[
        str,
        Field(
            min_length=1,
            description="table, of DuckDB also schema.table, quoted where SQL would need it. Made from the DataFrame's "
            "schema when it does not exist.",
        ),
    ]
    mode: ModeName = "append"
    key: KeyColumns = None
    add: AddColumns = None
    order: OrderColumns = None
    _: KW_ONLY
    delete: DeleteColumn = None
    delete_how: DeleteHowName = "hard"
    delete_time: DeleteTimeColumn = None
    truncate: Truncate = False
    inline_bytes_max: Annotated[
        int,
        Field(
            description="Up to about this many bytes of a batch go to the driver inside the tasks' reports; the tasks "
            "share it. A task with more than its share stages its rows in a file.",
        ),
    ] = 64 * 1024 * 1024
    staging: Annotated[
        FilePath | None,
        Field(description="Folder for such files, which driver and executors share; beside the file by default."),
    ] = None
    schema_policy: SchemaPolicy = "fail"
    lock_timeout_s: Annotated[
        float,
        Field(gt=0, allow_inf_nan=False, description="Seconds to wait for another process that keeps the file."),
    ] = 10.0
