"""A Postgres table as a value, and what of a DataFrame fits into it. Only two functions here ask a database.

Every rule that types can decide is decided here, on the driver, before a row is written: a column that is
missing, a type that would have to be narrowed, a key without its unique index. All problems of a table are
told at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.rows import dict_row

from directkafka.payloads.arrow_types import is_bytes, is_text
from directkafka.sinks.capabilities import TableCount
from directkafka.sinks.columns import Column
from directkafka.sinks.databases import load_blocks
from directkafka.sinks.postgres.copy_format import Wire, WireColumn

SQL: Final = load_blocks("directkafka.sinks.postgres", "table_schema.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn(Column):
    """One column as the catalogs describe it; its collation is quoted.

    Attributes:
        base_type: ``pg_type.typname`` at the bottom of a domain.
        is_enum: whether that type is an enum.
        typmod: the type's modifier at the bottom of a domain, or -1.
        element_type, element_is_enum, element_oid: of an array, as ``base_type`` and ``is_enum`` of its elements.
        type_oid, type_modifier: as the table declares it (``pg_attribute``).
    """

    base_type: str
    is_enum: bool
    typmod: int
    element_type: str | None = None
    element_is_enum: bool = False
    element_oid: int | None = None
    type_oid: int = 0
    type_modifier: int = -1

    @property
    def definition_sql(self) -> str:
        """Type and collation, so that another table's column compares as this one does."""
        return f"{self.type_sql} COLLATE {self.collation}" if self.collation else self.type_sql

    def element(self) -> TableColumn:
        """A column of an array's elements; lengths and precisions are those of the array."""
        assert self.element_type is not None, f"{self.type_sql} is no array"
        return replace(
            self, base_type=self.element_type, is_enum=self.element_is_enum, element_type=None, element_oid=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIndex:
    """A unique index that ON CONFLICT can use; ``nulls_are_equal`` is NULLS NOT DISTINCT."""

    columns: frozenset[str]
    nulls_are_equal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The target table and this user's rights.

    Attributes:
        schema, name: as the catalogs have them, unquoted.
        kind: ``pg_class.relkind``.
        rights: of INSERT, SELECT, UPDATE, DELETE, OWN, STAGE (create tables in the staging schema) and TEMPORARY,
            those that this user has.
        triggers: row triggers that come before a row is written, and may leave it out.
        rules: as ``name on INSERT``.
        fleeting: the table itself, or partitions, that a crash of the server would empty, or that commit by themselves.
    """

    schema: str
    name: str
    kind: str
    columns: tuple[TableColumn, ...]
    unique_indexes: tuple[UniqueIndex, ...]
    rights: frozenset[str]
    triggers: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    fleeting: tuple[str, ...] = ()

    def column(self, name: str) -> TableColumn:
        """The column of this name, which must be there."""
        return next(column for column in self.columns if column.name == name)

    def unique_index(self, key: Sequence[str]) -> UniqueIndex | None:
        """The index on exactly these columns; one that treats nulls as equal is preferred."""
        indexes = [index for index in self.unique_indexes if index.columns == frozenset(key)]
        return max(indexes, key=lambda index: index.nulls_are_equal, default=None)


def resolved_name(cursor: psycopg.Cursor[Any], parts: Sequence[str]) -> str:
    """What a table's name stands for in this session: schema and name, the same however it was spelt.

    Args:
        cursor: open on the database.
        parts: of the name.
    """
    quoted = sql.Identifier(*parts).as_string(cursor)
    schema = parts[-2] if len(parts) > 1 else None
    row = cursor.execute(SQL["resolve_name"], {"table": quoted, "schema": schema, "name": parts[-1]}).fetchone()
    assert row is not None, "a SELECT of one row has one"
    return str(row[0])


def read_table(cursor: psycopg.Cursor[Any], name: Sequence[str], staging_schema: str | None) -> Table | None:
    """Describe a table as the catalogs have it; None when there is none on the search path."""
    quoted = sql.Identifier(*name).as_string(cursor)
    with cursor.connection.cursor(row_factory=dict_row) as rows:
        row = rows.execute(SQL["find_table"], {"table": quoted, "staging_schema": staging_schema}).fetchone()
        if row is None:
            return None
        columns = rows.execute(SQL["list_columns"], {"oid": row["oid"]}).fetchall()
        indexes = rows.execute(SQL["list_unique_indexes"], {"oid": row["oid"]}).fetchall()
    rights = {
        "INSERT": row["may_insert"], "SELECT": row["may_select"], "UPDATE": row["may_update"],
        "DELETE": row["may_delete"], "OWN": row["is_owner"],
        "STAGE": row["may_stage"], "TEMPORARY": row["may_make_temporary"],
    }  # fmt: skip
    return Table(
        schema=row["schema"],
        name=row["name"],
        kind=row["kind"],
        columns=tuple(TableColumn(**column) for column in columns),
        unique_indexes=tuple(
            UniqueIndex(columns=frozenset(i["columns"]), nulls_are_equal=i["nulls_are_equal"]) for i in indexes
        ),
        rights=frozenset(right for right, has in rights.items() if has),
        triggers=tuple(row["triggers"]),
        rules=tuple(row["rules"]),
        fleeting=tuple(row["fleeting"]),
    )


# Types. Postgres' names are those of pg_type.

#: Bits that an exact integer may have, sign included.
_INTEGER_BITS: Final = {"int2": 16, "int4": 32, "int8": 64, "float4": 25, "float8": 54}

_INTEGER_WIRES: Final = {
    "int2": Wire.INT2, "int4": Wire.INT4, "int8": Wire.INT8,
    "float4": Wire.FLOAT4, "float8": Wire.FLOAT8,
}  # fmt: skip

_INTEGER_TYPES_SQL: Final = {16: "smallint", 32: "integer", 64: "bigint"}


def _integer_bits(kind: pa.DataType) -> int:
    return int(kind.bit_width) + bool(pa.types.is_unsigned_integer(kind))


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and not pa.types.is_decimal256(kind))


def _is_instant(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit != "ns")


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, of whatever size."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def json_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Names of the columns that have no other form in Postgres than JSON."""
    nested = (field for field in schema if pa.types.is_nested(field.type))
    return tuple(field.name for field in nested if creation_type(field.type) is None)


def creation_type(kind: pa.DataType, *, is_sum: bool = False) -> str | None:
    """The SQL type of a new table's column; None for what has no Postgres form here.

    Args:
        kind: the DataFrame's type.
        is_sum: the column will be added to for ever, so it gets room to grow.
    """
    if pa.types.is_dictionary(kind):
        return creation_type(kind.value_type, is_sum=is_sum)
    if is_list(kind):
        element = None if is_list(kind.value_type) else creation_type(kind.value_type)
        return f"{element}[]" if element is not None else None
    if pa.types.is_integer(kind):
        bits = min((bits for bits in _INTEGER_TYPES_SQL if bits >= _integer_bits(kind)), default=0)
        return "bigint" if is_sum and bits else _INTEGER_TYPES_SQL.get(bits)
    if _is_decimal(kind):
        return "numeric" if is_sum else f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_float32(kind) and is_sum:
        return "double precision"
    return next((sql_type for fits, sql_type in _plain_types(kind) if fits), None)


def _plain_types(kind: pa.DataType) -> Iterator[tuple[bool, str]]:
    yield pa.types.is_boolean(kind), "boolean"
    yield pa.types.is_float32(kind), "real"
    yield pa.types.is_float64(kind), "double precision"
    yield is_text(kind), "text"
    yield is_bytes(kind), "bytea"
    yield pa.types.is_date32(kind), "date"
    yield pa.types.is_time(kind), "time"
    yield pa.types.is_duration(kind), "interval"
    if _is_instant(kind):
        yield True, "timestamptz" if kind.tz else "timestamp"


def wire_column(field: pa.Field, column: TableColumn) -> WireColumn | None:
    """How a DataFrame's column goes into the table's; None when no value-preserving way exists."""
    kind, array_of = field.type, None
    if is_list(kind):
        if column.element_type is None:
            return None
        kind, column, array_of = kind.value_type, column.element(), column.element_oid
    wire = wire_of(kind, column)
    return WireColumn(name=field.name, wire=wire, array_of=array_of) if wire is not None else None


def wire_of(kind: pa.DataType, column: TableColumn) -> Wire | None:
    """The wire type for a DataFrame's type in a column; None when no value-preserving one exists."""
    if pa.types.is_dictionary(kind):
        return wire_of(kind.value_type, column)
    if pa.types.is_integer(kind):
        return _integer_wire(kind, column)
    if _is_decimal(kind):
        return Wire.NUMERIC if _holds(column, kind.precision - kind.scale, kind.scale) else None
    if column.base_type == "uuid":
        return Wire.UUID if is_text(kind) or kind == pa.binary(16) else None
    if column.is_enum:
        return Wire.TEXT if is_text(kind) else None
    return _plain_wire(kind, column)


def _plain_wire(kind: pa.DataType, column: TableColumn) -> Wire | None:
    if column.base_type in _TIMES and column.typmod not in _WHOLE_MICROSECONDS:
        return None
    return _PLAIN_WIRES.get((_plain_kind(kind), column.base_type))


#: Types that a precision rounds, and the modifiers that keep microseconds: none, and six places (for an interval with
#: all of its fields).
_TIMES: Final = frozenset({"timestamp", "timestamptz", "time", "interval"})
_WHOLE_MICROSECONDS: Final = (-1, 6, 0x7FFF << 16 | 6)

_PLAIN_WIRES: Final = {
    ("bool", "bool"): Wire.BOOL,
    ("float", "float4"): Wire.FLOAT4,
    ("float", "float8"): Wire.FLOAT8,
    ("double", "float8"): Wire.FLOAT8,
    ("bytes", "bytea"): Wire.BYTEA,
    ("date32[day]", "date"): Wire.DATE,
    ("instant", "timestamptz"): Wire.TIMESTAMP,
    ("local time", "timestamp"): Wire.TIMESTAMP,
    ("time of day", "time"): Wire.TIME,
    ("duration", "interval"): Wire.INTERVAL,
    ("text", "jsonb"): Wire.JSONB,
} | {("text", base): Wire.TEXT for base in ("text", "varchar", "bpchar", "citext", "json")}


def _plain_kind(kind: pa.DataType) -> str:
    if is_text(kind):
        return "text"
    if is_bytes(kind):
        return "bytes"
    if _is_instant(kind):
        return "instant" if kind.tz else "local time"
    if pa.types.is_time(kind):
        return "time of day"
    return "duration" if pa.types.is_duration(kind) else str(kind)


def _integer_wire(kind: pa.DataType, column: TableColumn) -> Wire | None:
    bits = _integer_bits(kind)
    if column.base_type == "numeric":
        digits = len(str(2 ** (bits - 1)))
        return Wire.NUMERIC if _holds(column, digits, 0) else None
    if bits <= _INTEGER_BITS.get(column.base_type, 0):
        return _INTEGER_WIRES[column.base_type]
    return None


def _holds(column: TableColumn, digits: int, scale: int) -> bool:
    """Whether a numeric column holds this many digits before and after the point without rounding."""
    if column.base_type != "numeric":
        return False
    if column.typmod < 0:
        return True
    packed = column.typmod - 4
    precision_held = (packed >> 16) & 0xFFFF
    scale_held = ((packed & 0x7FF) ^ 1024) - 1024
    return scale <= scale_held and digits <= precision_held - scale_held


def count_table(
    connection: psycopg.Connection[Any], table: Table, add: Sequence[str], *, is_folded: bool
) -> TableCount:
    """The table's rows, those that name a record which another row names too, and the sums of ``add``."""
    record = ("topic", "partition", "offset")
    names_records = set(record) <= {column.name for column in table.columns}
    distinct = SQL["count_records"].format(record=", ".join(f'"{name}"' for name in record))
    sums = [sql.SQL(SQL["sum_column"]).format(column=sql.Identifier(name)) for name in add]
    query = sql.SQL(SQL["count_rows"]).format(
        doubled=sql.SQL(distinct if names_records else "0"),
        sums=sql.SQL("").join(sql.SQL(", ") + column for column in sums),
        target=sql.Identifier(table.schema, table.name),
    )
    row = connection.execute(query).fetchone()
    assert row is not None, "an aggregate without GROUP BY has one row"
    return TableCount(rows=row[0], doubled=row[1], is_folded=is_folded, sums=dict(zip(add, row[2:], strict=True)))


def wire_columns(schema: pa.Schema, table: Table, controls: Collection[str] = ()) -> tuple[WireColumn, ...]:
    """The columns to write, once ``checks.table_problems`` has found none.

    Args:
        schema: the DataFrame's.
        table: the target.
        controls: columns that are not stored there.
    """
    columns = (
        wire_column(field, _control(field) if field.name in controls else table.column(field.name)) for field in schema
    )
    return tuple(column for column in columns if column is not None)


def types_sql(schema: pa.Schema, table: Table, controls: Collection[str]) -> tuple[str, ...]:
    """The types and collations of the columns of a staging table; see :func:`wire_columns`."""
    return tuple(
        _control(field).type_sql if field.name in controls else table.column(field.name).definition_sql
        for field in schema
    )


def _control(field: pa.Field) -> TableColumn:
    """A column that says what is done with a row: staged, and not stored."""
    name, base = ("boolean", "bool") if pa.types.is_boolean(field.type) else ("text", "text")
    return TableColumn(name=field.name, type_sql=name, base_type=base, is_enum=False, typmod=-1)
