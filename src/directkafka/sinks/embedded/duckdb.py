"""The DuckDB sink: a DataFrame's rows into one table of a file, in the transaction of the ledger."""

from __future__ import annotations

from typing import ClassVar

from directkafka.sinks.embedded.duckdb_dialect import DuckDBDialect
from directkafka.sinks.embedded.duckdb_store import DuckDBStore
from directkafka.sinks.embedded.sink import EmbeddedSink
from directkafka.sinks.embedded.table_schema import Dialect

__all__ = ["DuckDBSink"]


class DuckDBSink(EmbeddedSink):
    """Rows into one table of a DuckDB file, exactly once.

    A process of the driver's opens the file for a moment at each commit; other programs may use it between.

    Raises:
        OptionError: path, table, mode, key, add or order make no sense, or the package duckdb is missing.
    """

    store_type: ClassVar = DuckDBStore
    dialect: ClassVar[Dialect] = DuckDBDialect()
    name_parts_max: ClassVar = 2
