"""The configuration of a MySQL sink."""

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
class MySQLConfig(SinkConfig):
    """A table of a MySQL or MariaDB database, and how rows get there."""

    dsn: Annotated[
        str,
        Field(
            repr=False,
            description="mysql://user:password@host:port/database, with ?ssl_ca=FILE&ssl_verify_identity=true for TLS; "
            "also used by the executors. The ledger is in this database.",
        ),
    ]
    table: Annotated[
        str,
        Field(
            min_length=1,
            description="table or database.table, in double quotes where a name has a dot. Made from the DataFrame's "
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
            description="Up to about this many bytes of a batch go through the driver, which writes them "
            "once; the tasks share it. A task with more than its share stages its rows in the database itself, where "
            "they are written twice.",
        ),
    ] = 16 * 1024 * 1024
    connections_max: Annotated[
        int,
        Field(ge=1, description="How many tasks may write at a time: each may hold one connection of the server's."),
    ] = 8
    schema_policy: SchemaPolicy = "fail"
