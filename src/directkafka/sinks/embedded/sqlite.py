"""SQLite: the sink of an SQLite file, its store, and what SQLite makes of types and values.

SQLite's tables: five storage classes, and affinities that decide what becomes of a value in a column.

New tables are STRICT, so that a column holds what it says. Dates, timestamps and decimals are texts: SQLite has no
types for them, its date functions read the first two, and a decimal as a number would lose digits. Sources:
https://www.sqlite.org/datatype3.html, https://www.sqlite.org/stricttables.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.errors import RowRejectedError
from directkafka.payloads.arrow_types import is_bytes, is_text
from directkafka.sinks.columns import Column
from directkafka.sinks.databases import check_years
from directkafka.sinks.embedded.file.connection import FileConnection
from directkafka.sinks.embedded.file.database_file import DatabaseFile
from directkafka.sinks.embedded.sink import EmbeddedSink
from directkafka.sinks.embedded.store import EmbeddedStore
from directkafka.sinks.embedded.table_schema import Dialect, FileTable

#: Digits of a decimal that a double holds.
_EXACT_DIGITS: Final = 15

#: Bits of an integer that a double holds.
_EXACT_BITS: Final = 32


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _affinity(type_sql: str) -> str:
    """By the rules of section 3.1 of "Datatypes In SQLite"; ``ANY`` is what a STRICT table says for none."""
    declared = type_sql.upper()
    if "INT" in declared:
        return "INTEGER"
    if any(part in declared for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not declared or "BLOB" in declared or declared == "ANY":
        return "BLOB"
    if any(part in declared for part in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def _affinities(kind: pa.DataType) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Whether a type is of a kind, and the affinities that leave values of that kind as they are."""
    yield _is_number(kind), ("INTEGER", "NUMERIC")
    yield _is_number(kind) and kind.bit_width <= _EXACT_BITS, ("REAL",)
    yield pa.types.is_floating(kind), ("REAL", "NUMERIC")
    yield is_text(kind), ("TEXT",)
    yield _is_time(kind), ("TEXT", "NUMERIC")
    yield pa.types.is_decimal(kind), ("TEXT",)
    yield pa.types.is_decimal(kind) and kind.precision <= _EXACT_DIGITS, ("NUMERIC",)


class SQLiteDialect(Dialect):
    """See :class:`~directkafka.sinks.embedded.table_schema.Dialect`."""

    table_suffix = " STRICT"
    insert_sql = "INSERT OR ABORT"
    is_typed = False
    goes_row_by_row = True

    def creation_type(self, kind: pa.DataType, *, is_sum: bool = False) -> str | None:
        """A storage class; there is none for nested types, nor for sums of decimals."""
        if pa.types.is_dictionary(kind):
            return self.creation_type(kind.value_type, is_sum=is_sum)
        classes = (
            (_is_number(kind), "INTEGER"),
            (pa.types.is_floating(kind), "REAL"),
            (is_bytes(kind), "BLOB"),
            (not is_sum and (is_text(kind) or _is_time(kind) or pa.types.is_decimal(kind)), "TEXT"),
        )
        return next((name for fits, name in classes if fits), None)

    def takes(self, kind: pa.DataType, column: Column) -> bool:
        """By the column's affinity: what it would convert with loss, or keep in another class, does not fit."""
        if pa.types.is_dictionary(kind):
            return self.takes(kind.value_type, column)
        affinity = _affinity(column.type_sql)
        if affinity == "BLOB":
            return self.creation_type(kind) is not None and (column.type_sql.upper() != "BLOB" or is_bytes(kind))
        return any(fits and affinity in affinities for fits, affinities in _affinities(kind))

    def compares(self, kind: pa.DataType) -> bool:
        """Decimals are texts; dates and timestamps too, but in an order that is theirs."""
        return not pa.types.is_decimal(kind)

    def is_number(self, column: Column) -> bool:
        """A text or a blob would be added to as zero."""
        return _affinity(column.type_sql) in ("INTEGER", "REAL", "NUMERIC")

    def addition(self, column: str, kind: pa.DataType) -> str:
        """An integer sum that leaves 64 bits becomes a floating-point number in silence; here it is an error.

        ``abs`` of the smallest integer is the one expression by which SQLite reports an overflow.
        """
        total = f"coalesce(held.{column}, 0) + excluded.{column}"
        if not pa.types.is_integer(kind):
            return total
        left = f"typeof({total}) = 'real' AND typeof(coalesce(held.{column}, 0)) = 'integer'"
        return f"CASE WHEN {left} THEN abs(-9223372036854775807 - 1) ELSE {total} END"

    def read_table(self, connection: FileConnection, name: Sequence[str]) -> FileTable | None:
        """From the pragmas, which are tables as well."""
        (table,) = name
        table_rows = connection.rows(
            "SELECT master.type, list.strict, list.type, master.sql "
            "FROM sqlite_master AS master, pragma_table_list($1) AS list "
            "WHERE lower(master.name) = lower($1) AND list.schema = 'main'",
            (table,),
        )
        if not table_rows:
            return None
        triggers = connection.rows(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower($1) ORDER BY name",
            (table,),
        )
        columns = connection.rows(
            'SELECT name, type, "notnull", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo($1)', (table,)
        )
        key = frozenset(row[0] for row in columns if row[4])
        # The one column of an INTEGER PRIMARY KEY is the row's number, which SQLite gives when nobody else does.
        is_row_number = len(key) == 1 and any(row[4] and row[1].upper() == "INTEGER" for row in columns)
        indexes = connection.rows(
            "SELECT list.name, info.name FROM pragma_index_list($1) AS list, pragma_index_info(list.name) AS info "
            'WHERE list."unique" AND NOT list.partial',
            (table,),
        )
        return FileTable(
            columns=tuple(
                Column(
                    name=row[0],
                    # Outside of STRICT tables ANY is a name like any other, and means a number.
                    type_sql="NUMERIC" if row[1].upper() == "ANY" and not table_rows[0][1] else row[1],
                    not_null=bool(row[2]),
                    has_default=bool(row[3]) or (is_row_number and bool(row[4])),
                    is_generated=row[5] in (2, 3),
                )
                for row in columns
            ),
            unique=_unique(key, indexes),
            is_table=table_rows[0][0] == "table",
            triggers=tuple(name for (name,) in triggers),
            # No pragma tells of ON CONFLICT clauses. A column or a comment of this name costs a detour, no more.
            is_plain=not triggers and table_rows[0][2] == "table" and "CONFLICT" not in str(table_rows[0][3]).upper(),
        )

    def converter(self, schema: pa.Schema, *, store: str, sink: str) -> Converter:
        """Texts of what SQLite has no class for."""
        return Converter(schema=schema, store=store, sink=sink)


def _unique(key: frozenset[str], indexes: Sequence[tuple[str, str | None]]) -> tuple[frozenset[str], ...]:
    """Sets of columns by index; an index with an expression has a column without a name."""
    columns_by_index: dict[str, set[str | None]] = {}
    for index, column in indexes:
        columns_by_index.setdefault(index, set()).add(column)
    named = [
        frozenset(name for name in columns if name is not None)
        for columns in columns_by_index.values()
        if None not in columns
    ]
    return tuple([key] * bool(key) + named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Makes the columns that SQLite takes of a DataFrame's; runs on executors.

    Attributes:
        schema: the DataFrame's.
        store, sink: for messages.
    """

    schema: pa.Schema
    store: str
    sink: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch.

        Raises:
            RowRejectedError: a NaN, which SQLite would store as NULL, or a year outside 1 to 9999.
        """
        columns = [self._column(field, batch.column(index)) for index, field in enumerate(self.schema)]
        return pa.record_batch(columns, names=self.schema.names)

    def _column(self, field: pa.Field, array: pa.Array) -> pa.Array:
        kind = field.type
        if pa.types.is_dictionary(kind):
            return array.cast(kind.value_type)
        if pa.types.is_floating(kind) and pc.any(pc.is_nan(array)).as_py():
            raise RowRejectedError(
                store=self.store,
                sink=self.sink,
                detail=f"column {field.name!r}: NaN, which SQLite would store as NULL: say in the transform what it is "
                "to be, for example with nanvl",
            )
        check_years(field.name, array, store=self.store, sink=self.sink)
        if pa.types.is_timestamp(kind):
            return _text_of_timestamps(array)
        if pa.types.is_decimal(kind) or pa.types.is_date32(kind):
            return array.cast(pa.string())
        return array


def _text_of_timestamps(array: pa.Array) -> pa.Array:
    """``2013-01-01 05:00:00.000000``, and ``+00:00`` behind an instant, as SQLite and Python write and read them."""
    zone = array.type.tz
    plain = array.cast(pa.timestamp("us", "UTC" if zone else None))
    text = pc.strftime(plain, format="%Y-%m-%d %H:%M:%S", locale="C")
    return pc.binary_join_element_wise(text, pa.scalar("+00:00"), pa.scalar("")) if zone else text


class SQLiteStore(EmbeddedStore):
    """An SQLite file as the place where a pipeline commits; see :mod:`directkafka.sinks.embedded.store`.

    Args:
        path: the file; made when it does not exist.
        lock_timeout_s: bound on waiting for another process that keeps the file locked, in seconds.

    Raises:
        OptionError: the path names no file.
    """

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        super().__init__(DatabaseFile("sqlite", path, lock_timeout_s=lock_timeout_s), lock_timeout_s=lock_timeout_s)


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
