"""Databases as stores: blocks of ``.sql`` files, names as users write them, classes of errors, nested columns as JSON.

A file is a list of blocks::

    -- name: read_entry
    -- The entry of one pipeline as last committed.
    SELECT ... ;

The statements are package data, not user input; names of tables and columns that vary are ``{placeholders}``
for :class:`psycopg.sql.SQL`, values are ``%(parameters)s``.

Nested columns that a store keeps as JSON: they come as texts, and a mark in the schema says what they are.

A member of a JSON object has a text for its name. Of a map's keys Spark makes it by Java's ``toString`` of what it
holds inside: right for texts, numbers and truth values; a date becomes a number of days, a timestamp one of
microseconds, bytes an address in memory, a struct the bits of its row. Such keys are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib import resources
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.errors import (
    DirectKafkaError,
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
)
from directkafka.payloads.arrow_types import is_text

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_blocks(package: str, file: str) -> dict[str, str]:
    """The blocks of a ``.sql`` file that lies in a package, by name.

    Args:
        package: dotted name of the package, for example ``directkafka.sinks.postgres``.
        file: the file's name.

    Raises:
        ValueError: a block has no description, no statement, or a name that is taken.
    """
    return parse_blocks((resources.files(package) / file).read_text(encoding="utf-8"), file)


def parse_blocks(text: str, file: str) -> dict[str, str]:
    """The blocks of one file's text, by name; comments and the last semicolon are left out."""
    parts = _NAME.split(text)
    blocks: dict[str, str] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = body.strip().splitlines()
        statement = "\n".join(line for line in lines if not line.startswith("--")).strip()
        if name in blocks or not statement or not lines[0].startswith("-- "):
            raise ValueError(f"{file}: block {name} needs its own name, a description, a statement")
        blocks[name] = statement.removesuffix(";")
    return blocks


def parse_name(text: str, *, parts_max: int = 2, fold: bool = True) -> tuple[str, ...]:
    """Split ``schema.table`` as SQL does.

    Args:
        text: the name; parts in double quotes stand as they are.
        parts_max: how many parts it may have.
        fold: whether other parts become lower case, as in Postgres.

    Raises:
        ValueError: empty parts, too many parts, an open quote.
    """
    parts: list[str] = []
    rest = text
    while True:
        part, rest = _next_part(rest, fold=fold)
        parts.append(part)
        if not rest:
            break
        if not rest.startswith(".") or len(parts) == parts_max:
            forms = "table" if parts_max == 1 else "table, schema.table"
            raise ValueError(f"{text!r} is not a table's name: write {forms} or quote it")
        rest = rest[1:]
    if not all(parts):
        raise ValueError(f"{text!r} is not a table's name: a part of it is empty")
    return tuple(parts)


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name for a column of our own that no column of a DataFrame has; case is ignored, as in SQLite and DuckDB."""
    known = {name.lower() for name in taken}
    while wanted in known:
        wanted += "_"
    return wanted


def lower(name: str) -> str:
    """A name as SQLite and DuckDB compare it: A to Z are a to z, and no other letters have a case."""
    return "".join(character.lower() if character.isascii() else character for character in name)


def _next_part(text: str, *, fold: bool) -> tuple[str, str]:
    if not text.startswith('"'):
        part, dot, rest = text.partition(".")
        return part.strip().lower() if fold else part.strip(), dot + rest
    position = 1
    while (end := text.find('"', position)) >= 0:
        if text[end + 1 : end + 2] != '"':
            return text[1:end].replace('""', '"'), text[end + 1 :]
        position = end + 2
    raise ValueError(f"{text!r} has an open quote")


#: ``unavailable`` may pass; ``access``: a right or an address; ``rows``: values it cannot hold; ``schema``: a table
#: or column that is not as expected; ``request``: anything else.
ErrorClass = Literal["unavailable", "access", "rows", "schema", "request"]


def error_for(
    error_class: ErrorClass, *, store: str, sink: str, cause: str, remedy: str = "", code: str = "none"
) -> DirectKafkaError:
    """The project's error for a class of errors.

    Args:
        error_class: what kind of error the database's is.
        store: the store's label.
        sink: the sink whose table the statement was about; empty for the ledger.
        cause: the database's words, without secrets.
        remedy: what to do about ``access``.
        code: the database's own code, for ``request``.
    """
    subject = sink or "the ledger"
    match error_class:
        case "unavailable":
            return StoreUnavailableError(store=store, cause=cause)
        case "access":
            return StoreAccessError(store=store, cause=cause, remedy=remedy)
        case "rows":
            return RowRejectedError(store=store, sink=subject, detail=cause)
        case "schema":
            return SchemaMismatchError(store=store, sink=subject, detail=cause)
        case "request":
            return StoreRequestError(store=store, code=code, cause=cause)


_MARK = {b"directkafka": b"json"}


def is_json(field: pa.Field) -> bool:
    """Whether a column of texts stands for a nested one."""
    return field.metadata is not None and field.metadata.get(b"directkafka") == b"json"


def with_json(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The schema once the named columns are JSON texts."""
    return pa.schema(
        [
            pa.field(field.name, pa.string(), field.nullable, _MARK) if field.name in names else field
            for field in schema
        ],
        schema.metadata,
    )


def json_problems(schema: pa.Schema, names: Collection[str]) -> list[str]:
    """Maps inside the named columns whose keys have no form as texts, one sentence each."""
    return [
        f"column {name!r} is to be JSON, and the map at {path} has keys of type {kind}, which are no names of an "
        "object's members: make texts of them in the transform, for example with transform_keys"
        for name in names
        for path, kind in _odd_keys(schema.field(name).type, name)
    ]


def _odd_keys(kind: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
    """Each map with such keys: where it is, and their type."""
    if pa.types.is_map(kind):
        if not _is_name(kind.key_type):
            yield path, kind.key_type
        yield from _odd_keys(kind.item_type, f"{path}.value")
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _odd_keys(field.type, f"{path}.{field.name}")
    elif pa.types.is_nested(kind):
        for index in range(kind.num_fields):
            yield from _odd_keys(kind.field(index).type, f"{path}.element")


def _is_name(kind: pa.DataType) -> bool:
    tests = (
        is_text, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
    )  # fmt: skip
    return any(test(kind) for test in tests)


#: The first day of year 1, and the last one of year 9999, in days since 1970.
_DAYS: Final = (-719_162, 2_932_896)
_UNITS_OF_A_DAY: Final = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def outside_years(column: pa.Array) -> pa.Array:
    """Which dates or timestamps are outside the years 1 to 9999; null where the value is null."""
    kind = column.type
    units = 1 if pa.types.is_date32(kind) else _UNITS_OF_A_DAY[kind.unit]
    numbers = column.cast(pa.int32() if units == 1 else pa.int64()).cast(pa.int64())
    first, end = max(_DAYS[0] * units, -(2**63)), min((_DAYS[1] + 1) * units - 1, 2**63 - 1)
    return pc.or_(pc.less(numbers, first), pc.greater(numbers, end))


def check_years(name: str, column: pa.Array, *, store: str, sink: str) -> None:
    """Refuse a date or a timestamp outside the years 1 to 9999: its text would be another date, or none at all.

    Arrow's ``strftime`` keeps 16 bits of a year.

    Args:
        name: the column's name.
        column: of any type; only 32-bit dates and timestamps are checked.
        store, sink: for the message.

    Raises:
        RowRejectedError: names the first such value and its row.
    """
    kind = column.type
    if not (pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
        return
    outside = outside_years(column)
    if pc.any(outside).as_py():
        row = pc.index(outside, True).as_py()
        number = column.slice(row, 1).cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())[0].as_py()
        raise RowRejectedError(
            store=store,
            sink=sink,
            detail=f"column {name!r}: {number} ({kind}) is outside the years 1 to 9999 (row {row} of its chunk, "
            "counted from 0); perhaps a producer has sent microseconds as milliseconds",
        )
