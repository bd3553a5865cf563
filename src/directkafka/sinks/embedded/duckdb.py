"""DuckDB: the sink of a DuckDB file, its store, and DuckDB's types.

Its types match Arrow's one to one, nested ones too.

Source: https://duckdb.org/docs/stable/sql/data_types/overview
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from directkafka.options.texts import check_installed
from directkafka.sinks.columns import Column
from directkafka.sinks.embedded.file.connection import FileConnection, quoted
from directkafka.sinks.embedded.file.database_file import DatabaseFile
from directkafka.sinks.embedded.sink import EmbeddedSink
from directkafka.sinks.embedded.store import EmbeddedStore
from directkafka.sinks.embedded.table_schema import Dialect, FileTable

_SIGNED: Final = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_UNSIGNED: Final = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64, "UHUGEINT": 128}
#: Bits of an integer that a floating-point number holds.
_FLOATING: Final = {"FLOAT": 24, "DOUBLE": 53}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_SUMS: Final = {"FLOAT": "DOUBLE", "REAL": "DOUBLE"}


#: Names are compared without case; without a schema, the current one is meant.
_IS_THE_TABLE: Final = (
    "WHERE lower(table_name) = lower($1) AND database_name = current_database() "
    "AND lower(schema_name) = lower(coalesce(CAST($2 AS VARCHAR), current_schema()))"
)


class DuckDBDialect(Dialect):
    """See :class:`~directkafka.sinks.embedded.table_schema.Dialect`; DuckDB keeps every type as it is."""

    def creation_type(self, kind: pa.DataType, *, is_sum: bool = False) -> str | None:
        """DuckDB's own type for the Arrow type, or a wider one for sums."""
        name = _name_of(kind)
        if name is None or not is_sum:
            return name
        if name in _SIGNED or name in _UNSIGNED:
            return "BIGINT" if _SIGNED.get(name, 0) <= 64 else name
        if match := _DECIMAL.fullmatch(name):
            return f"DECIMAL(38,{match[2]})"
        return _SUMS.get(name, name)

    def takes(self, kind: pa.DataType, column: Column) -> bool:
        """Whether it is the same type, one that holds all of its values, or, for text, JSON, UUID or an ENUM."""
        name = _name_of(kind)
        return name is not None and (name == column.type_sql or _widens(name, column.type_sql))

    def is_number(self, column: Column) -> bool:
        """By the type's name."""
        name = column.type_sql
        return name in _SIGNED or name in _UNSIGNED or name in _FLOATING or _DECIMAL.fullmatch(name) is not None

    def addition(self, column: str, kind: pa.DataType) -> str:
        """DuckDB reports an overflow by itself."""
        return f"coalesce(held.{column}, 0) + excluded.{column}"

    def read_table(self, connection: FileConnection, name: Sequence[str]) -> FileTable | None:
        """From ``information_schema`` and DuckDB's catalog functions."""
        schema, table = name if len(name) == 2 else (None, name[0])

        def ask(what: str, source: str, rest: str = "") -> list[tuple[Any, ...]]:
            return connection.rows(f"SELECT {what} FROM {source} {_IS_THE_TABLE} {rest}", (table, schema))

        table_rows = ask(
            "table_type",
            "(SELECT *, table_schema AS schema_name, table_catalog AS database_name FROM information_schema.tables)",
        )
        if not table_rows:
            return None
        definition = ask("sql", "duckdb_tables()")
        columns = ask(
            "column_name, data_type, NOT is_nullable, column_default IS NOT NULL",
            "duckdb_columns()",
            "ORDER BY column_index",
        )
        constraints = ask(
            "constraint_column_names", "duckdb_constraints()", "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"
        )
        indexes = ask("expressions", "duckdb_indexes()", "AND is_unique")
        return FileTable(
            columns=tuple(
                Column(
                    name=name,
                    type_sql=kind,
                    not_null=not_null,
                    has_default=has_default,
                    collation=_collation_of(name, definition[0][0] if definition else ""),
                )
                for name, kind, not_null, has_default in columns
            ),
            unique=tuple(frozenset(row[0]) for row in constraints) + tuple(_columns_of(row[0]) for row in indexes),
            is_table=table_rows[0][0] == "BASE TABLE",
        )

    def converter(self, schema: pa.Schema, *, store: str, sink: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """DuckDB takes Arrow's columns as they are."""
        return unchanged


def unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as it is."""
    return batch


@functools.cache
def _name_of(kind: pa.DataType) -> str | None:
    """DuckDB's name of an Arrow type, as DuckDB says."""
    import duckdb

    empty = pa.table({"value": pa.nulls(0, kind)})
    with duckdb.connect(":memory:") as connection:
        try:
            connection.register("empty", empty)
            row = connection.execute("DESCRIBE SELECT value FROM empty").fetchone()
        except duckdb.Error:
            return None
    return str(row[1]) if row is not None else None


def _widens(name: str, target: str) -> bool:
    bits, unsigned_bits = _SIGNED.get(name), _UNSIGNED.get(name)
    decimal, target_decimal = _DECIMAL.fullmatch(name), _DECIMAL.fullmatch(target)
    if bits is not None or unsigned_bits is not None:
        needed = bits or (unsigned_bits or 0) + 1
        digits = len(str(2 ** (needed - 1)))
        return (
            needed <= _SIGNED.get(target, 0)
            or (unsigned_bits or 256) <= _UNSIGNED.get(target, 0)
            or needed - 1 <= _FLOATING.get(target, 0)
            or (target_decimal is not None and digits <= int(target_decimal[1]) - int(target_decimal[2]))
        )
    if decimal is not None and target_decimal is not None:
        whole, places = int(decimal[1]) - int(decimal[2]), int(decimal[2])
        return places <= int(target_decimal[2]) and whole <= int(target_decimal[1]) - int(target_decimal[2])
    if name == "FLOAT":
        return target == "DOUBLE"
    return name == "VARCHAR" and (target in ("JSON", "UUID") or target.startswith("ENUM("))


def _collation_of(column: str, table_sql: str) -> str:
    """The collation of a column, from DuckDB's CREATE TABLE statement, since no catalog has it; empty if none."""
    name = f"(?:{re.escape(column)}|{re.escape(quoted(column))})"
    match = re.search(rf"[(,] ?{name} VARCHAR COLLATE ([\w.]+)", table_sql)
    return match[1] if match else ""


def _columns_of(expressions: str) -> frozenset[str]:
    """The columns of an index as ``duckdb_indexes`` writes them: ``[id, '"day of week"']``."""
    parts = re.findall(r"'?\"((?:[^\"]|\"\")+)\"'?|([^\s,\[\]'\"]+)", expressions)
    return frozenset((quoted_name or plain).replace('""', '"') for quoted_name, plain in parts)


class DuckDBStore(EmbeddedStore):
    """A DuckDB file as the place where a pipeline commits; see :mod:`directkafka.sinks.embedded.store`.

    Args:
        path: the file; made when it does not exist.
        lock_timeout_s: bound on waiting for another process that has the file open, in seconds.

    Raises:
        OptionError: the path names no file, or the package duckdb is missing.
    """

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        check_installed("duckdb", extra="duckdb")
        super().__init__(DatabaseFile("duckdb", path, lock_timeout_s=lock_timeout_s), lock_timeout_s=lock_timeout_s)


class DuckDBSink(EmbeddedSink):
    """Rows into one table of a DuckDB file, exactly once.

    A child process of the driver opens the file only for a moment, at each commit; other programs may use it meanwhile.

    Raises:
        OptionError: path, table, mode, key, add or order make no sense, or the package duckdb is missing.
    """

    store_type: ClassVar = DuckDBStore
    dialect: ClassVar[Dialect] = DuckDBDialect()
    name_parts_max: ClassVar = 2
