"""The configuration of a Postgres sink."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

from pydantic import Field

from directkafka.sinks.config import (
    AddColumns,
    DeleteColumn,
    DeleteHowName,
    DeleteTimeColumn,
    KeyColumns,
    ModeName,
    OrderColumns,
    SchemaPolicy,
    SinkConfig,
    Truncate,
    sink_config,
)


@sink_config
class PostgresConfig(SinkConfig):
    """A table of a Postgres database, and how rows get there."""

    dsn: Annotated[str, Field(repr=False, description="libpq connection string or URI; also used by the executors.")]
    table: Annotated[
        str,
        Field(
            min_length=1,
            description="table or schema.table, quoted where SQL would need it. Made from the DataFrame's schema when "
            "it does not exist.",
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
            description="Up to about this many bytes of a batch go through the driver, which writes them "
            "once; the tasks share it. A task with more than its share stages its rows in the database itself, where "
            "they are written twice.",
        ),
    ] = 64 * 1024 * 1024
    connections_max: Annotated[
        int,
        Field(ge=1, description="How many tasks may write at a time: each may hold one connection of the server's."),
    ] = 8
    schema_policy: SchemaPolicy = "fail"
    staging_schema: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        Field(description="Schema in which staging tables are made; the table's own by default."),
    ] = None
