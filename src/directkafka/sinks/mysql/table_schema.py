"""A table of MySQL or MariaDB as a value, and what of a DataFrame fits into it. One function here asks a database.

Every rule that types can decide is decided on the driver, before a row is written; the rest the server refuses, since
its sessions are strict: a text that is too long, a negative number for an unsigned column.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from directkafka.payloads.arrow_types import is_bytes, is_text
from directkafka.sinks.columns import Column, column_problems, target_problems
from directkafka.sinks.databases import is_json, load_blocks
from directkafka.sinks.mysql.session import Connection, execute, quoted
from directkafka.sinks.write_modes import WriteMode

SQL: Final = load_blocks("directkafka.sinks.mysql", "statements.sql")

#: How many characters or bytes of a key's text fit into a new table's index, beside two others.
_KEY_LENGTH: Final = 255

#: A text in the type of an ENUM, as ``append_unescaped`` of both servers writes it: a quote twice, and these after a
#: backslash.
_LITERAL: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED: Final = re.compile(r"''|\\(.)", re.DOTALL)
_CONTROLS: Final = {"0": "\0", "n": "\n", "r": "\r"}

#: Digits that DECIMAL takes, in all and behind the point.
_DECIMAL_DIGITS_MAX: Final = 65
_DECIMAL_SCALE_MAX: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn(Column):
    """One column as ``information_schema`` describes it.

    Attributes:
        base_type: ``DATA_TYPE``, for example ``varchar``.
        precision, scale: of a number; digits behind the second for a time.
        is_unsigned: whether it takes no negative numbers.
        is_counter: whether it is AUTO_INCREMENT.
    """

    base_type: str
    precision: int = 0
    scale: int = 0
    is_unsigned: bool = False
    is_counter: bool = False

    @property
    def takes_null_for_now(self) -> bool:
        """Whether the server may store the time of now for a null: MariaDB does, and MySQL where it is told to."""
        return self.base_type == "timestamp" and self.not_null

    @property
    def members(self) -> tuple[str, ...]:
        """Of an ENUM, the texts that it has."""
        if self.base_type != "enum":
            return ()
        return tuple(_unescaped(literal) for literal in _LITERAL.findall(self.type_sql))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The target table.

    Attributes:
        schema, name: as the server has them.
        kind: ``TABLE_TYPE``.
        engine: where its rows are; empty for a view.
        columns: as the server describes them.
        unique: the columns of each unique index, by its name; None in place of a column of which the index has only the
            beginning, or an expression.
    """

    schema: str
    name: str
    kind: str
    engine: str
    columns: tuple[TableColumn, ...]
    unique: tuple[frozenset[str | None], ...] = ()

    def column(self, name: str) -> TableColumn:
        """The column of this name, in whatever case; it must be there."""
        return next(column for column in self.columns if column.name.lower() == name.lower())


def _unescaped(literal: str) -> str:
    return _ESCAPED.sub(lambda match: "'" if match[1] is None else _CONTROLS.get(match[1], match[1]), literal)


def read_table(connection: Connection, schema: str, name: str) -> Table | None:
    """Describe a table; None when there is none."""
    named = {"schema": schema, "name": name}
    rows = execute(connection, SQL["find_table"], named)
    if not rows:
        return None
    kind, engine = rows[0]
    indexes: dict[str, set[str | None]] = {}
    for index, column, is_part in execute(connection, SQL["list_unique_indexes"], named):
        indexes.setdefault(index, set()).add(None if column is None or is_part else column.lower())
    return Table(
        schema=schema,
        name=name,
        kind=kind,
        engine=engine or "",
        columns=tuple(_column(row) for row in execute(connection, SQL["list_columns"], named)),
        unique=tuple(frozenset(columns) for columns in indexes.values()),
    )


def _column(row: Sequence[Any]) -> TableColumn:
    name, kind, base, is_nullable, default, extra, precision, scale, time_digits, collation, generation = row
    words = str(extra).lower()
    return TableColumn(
        name=name,
        type_sql=kind,
        not_null=is_nullable == "NO",
        has_default=default is not None or "auto_increment" in words,
        is_generated=bool(generation) or "generated" in words.replace("default_generated", ""),
        collation=collation,
        base_type=str(base).lower(),
        precision=int(precision or 0),
        scale=int((time_digits if precision is None else scale) or 0),
        is_unsigned="unsigned" in str(kind).lower(),
        is_counter="auto_increment" in words,
    )


def table_problems(schema: pa.Schema, table: Table, mode: WriteMode, *, name: str, held: pa.Schema) -> list[str]:
    """All that keeps rows of a schema out of a table, one sentence each. Names ignore case, as in the database.

    Args:
        schema: the rows'.
        table: as the server describes it.
        mode: how rows meet those that are there.
        name: the table's, for remedies.
        held: the columns of the schema that the table should have already.
    """
    problems = column_problems(
        held, table.columns, takes=takes, can_be_made=lambda kind: creation_type(kind) is not None, fold=str.lower
    )
    problems += mode.column_problems(schema)
    key = frozenset(column.lower() for column in mode.key)
    problems += target_problems(
        mode.key, mode.add, table.columns,
        has_index=key in table.unique, index_sql=f"some_name ON {name}", is_number=_is_number, fold=str.lower,
    )  # fmt: skip
    if table.kind != "BASE TABLE":
        problems.append("it is no table")
    elif table.engine.lower() != "innodb":
        problems.append(
            f"its engine {table.engine} cannot roll back, and a batch that fails would leave rows in it: run ALTER "
            f"TABLE {name} ENGINE = InnoDB"
        )
    return problems + _other_indexes(schema, table, key)


def _other_indexes(schema: pa.Schema, table: Table, key: frozenset[str]) -> list[str]:
    """ON DUPLICATE KEY does not say which index is meant: a second one that rows can violate would be taken for it."""
    if not key:
        return []
    given = {name.lower() for name in schema.names}
    counters = {column.name.lower() for column in table.columns if column.is_counter} - given
    others = [columns for columns in table.unique if columns != key and not columns & counters]
    return [
        f"it has another unique index, on {', '.join(sorted(column or '(an expression)' for column in columns))}, and "
        "MySQL cannot say which of the two a row may violate: let the table have one, besides an AUTO_INCREMENT column"
        for columns in others
    ]


# Types.

_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64, "float": 25, "double": 54}
_INTEGER_TYPES: Final = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_FLOATS: Final = {"float": "float", "double": "double"}
_MICROSECONDS: Final = 6


def _is_number(column: TableColumn) -> bool:
    return column.base_type in {*_BITS, "decimal"}


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def creation_type(kind: pa.DataType, *, is_sum: bool = False, is_key: bool = False) -> str | None:
    """The SQL type of a new table's column; None for what has none.

    Args:
        kind: the DataFrame's type.
        is_sum: the column will be added to for ever, so it gets room to grow.
        is_key: the column is in an index, which takes no LONGTEXT.
    """
    kind = _value_type(kind)
    if pa.types.is_integer(kind):
        bits = 64 if is_sum else int(kind.bit_width)
        return f"{_INTEGER_TYPES[bits]} unsigned" if pa.types.is_unsigned_integer(kind) else _INTEGER_TYPES[bits]
    if pa.types.is_decimal(kind):
        precision = _DECIMAL_DIGITS_MAX if is_sum else kind.precision
        fits = kind.precision <= _DECIMAL_DIGITS_MAX and 0 <= kind.scale <= _DECIMAL_SCALE_MAX
        return f"decimal({precision},{kind.scale})" if fits else None
    if pa.types.is_floating(kind):
        return "double" if is_sum and str(kind) in _FLOATS else _FLOATS.get(str(kind))
    return next((sql_type for fits, sql_type in _plain_types(kind, is_key=is_key) if fits), None)


def _plain_types(kind: pa.DataType, *, is_key: bool) -> Iterator[tuple[bool, str]]:
    yield pa.types.is_boolean(kind), "boolean"
    yield is_text(kind), f"varchar({_KEY_LENGTH})" if is_key else "longtext"
    yield is_bytes(kind), f"varbinary({_KEY_LENGTH})" if is_key else "longblob"
    yield pa.types.is_date32(kind), "date"
    # TIMESTAMP ends in 2038.
    yield pa.types.is_timestamp(kind) and kind.unit != "ns", f"datetime({_MICROSECONDS})"


def takes(field: pa.Field, column: TableColumn) -> bool:
    """Whether the values of a column go into the table's unchanged, or are refused by the server."""
    kind, base = _value_type(field.type), column.base_type
    if base in _FLOATS and "(" in column.type_sql:
        # FLOAT(7,2) and DOUBLE(7,2) round without a word.
        return False
    if is_json(field):
        return base in ("json", "longtext")
    if pa.types.is_integer(kind):
        return _takes_integer(int(kind.bit_width), column)
    if pa.types.is_decimal(kind):
        return base == "decimal" and _holds(column, int(kind.precision - kind.scale), int(kind.scale))
    if pa.types.is_timestamp(kind):
        # A DATETIME has no zone; what is in one is UTC here. A TIMESTAMP is an instant.
        fits = base == "datetime" or (base == "timestamp" and bool(kind.tz))
        return fits and str(kind.unit) != "ns" and column.scale == _MICROSECONDS
    return base in _PLAIN.get(_plain_kind(kind), ())


def _takes_integer(bits: int, column: TableColumn) -> bool:
    """A negative number for an unsigned column is the server's to refuse: that no type says."""
    if column.base_type == "decimal":
        return _holds(column, len(str(2 ** (bits - 1))), 0)
    return bits <= _BITS.get(column.base_type, 0)


def _holds(column: TableColumn, digits: int, scale: int) -> bool:
    """Whether a DECIMAL holds this many digits before and behind the point."""
    return scale <= column.scale and digits <= column.precision - column.scale


_PLAIN: Final = {
    "bool": {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"},
    "float": {"float", "double"},
    "double": {"double"},
    "text": {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "json", "uuid"},
    "bytes": {"varbinary", "tinyblob", "blob", "mediumblob", "longblob"},
    "date32[day]": {"date"},
}


def _plain_kind(kind: pa.DataType) -> str:
    if is_text(kind):
        return "text"
    return "bytes" if is_bytes(kind) else str(kind)


def definitions(schema: pa.Schema, types: Sequence[str], key: Collection[str], *, collation: str) -> tuple[str, ...]:
    """The columns of a new table, whose texts compare byte by byte, and its unique index.

    Args:
        schema: the DataFrame's.
        types: of the columns, as SQL.
        key: the mode's.
        collation: of texts.
    """
    columns = [
        f"{quoted(field.name)} {kind}"
        + (f" CHARACTER SET utf8mb4 COLLATE {collation}" if is_text(_value_type(field.type)) and kind != "json" else "")
        + (" NOT NULL" if field.name in key else "")
        for field, kind in zip(schema, types, strict=True)
    ]
    return (*columns, *[f"UNIQUE ({', '.join(map(quoted, key))})"] * bool(key))
