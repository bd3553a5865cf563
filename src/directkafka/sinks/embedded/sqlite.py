"""The SQLite sink: a DataFrame's rows into one table of a file, in the transaction of the ledger."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from directkafka.sinks.embedded.sink import EmbeddedSink
from directkafka.sinks.embedded.sqlite_dialect import SQLiteDialect
from directkafka.sinks.embedded.sqlite_store import SQLiteStore
from directkafka.sinks.embedded.table_schema import Dialect

__all__ = ["SQLiteSink"]


class SQLiteSink(EmbeddedSink):
    """Rows into one table of a SQLite file, exactly once.

    A process of the driver's opens the file for a moment at each commit; other programs may use it meanwhile.

    Raises:
        OptionError: path, table, mode, key, add or order make no sense.
    """

    store_type: ClassVar = SQLiteStore
    dialect: ClassVar[Dialect] = SQLiteDialect()
    name_parts_max: ClassVar = 1

    def json_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Columns that the sink wants as JSON texts: all nested ones."""
        return tuple(field.name for field in schema if pa.types.is_nested(field.type))
