"""The columns of a table of files, and what of a DataFrame fits into them. Pure.

Every rule that types can decide is decided on the driver, before a row is written; all problems are told at once.
A table's columns only ever grow: a file that was written earlier reads as null where it lacks one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import pyarrow as pa

from directkafka.payloads.json.texts import can_be_json
from directkafka.sinks.files.log_state import TableState

Format = Literal["parquet", "json", "text"]
SchemaPolicy = Literal["fail", "add-columns"]

_Test = Callable[[pa.DataType], Any]

#: Types that Parquet holds and that both Arrow and Spark read back as they were.
_PARQUET_TYPES: Final[tuple[_Test, ...]] = (
    pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_decimal128,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_date32,
    pa.types.is_timestamp,
)  # fmt: skip

_ADVICE: Final = {
    "parquet": "cast it in the transform, for example to a string",
    "json": "make a string of it, for example with base64 or to_json",
}


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as a table keeps them: nullable at every depth, for later files may lack what earlier ones have."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def storage_problems(schema: pa.Schema, format: Format) -> list[str]:
    """What keeps the DataFrame's columns out of files of this format, one sentence each."""
    if format == "text":
        fits = len(schema) == 1 and pa.types.is_string(schema.field(0).type)
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        return [] if fits else [f"text files take one column of strings, not [{columns}]"]
    holds = can_be_json if format == "json" else _can_be_parquet
    problems = [
        f"column {field.name!r} of type {field.type} does not go into {format} files unchanged: {_ADVICE[format]}"
        for field in schema
        if not holds(field.type)
    ]
    return problems + _doubled_names(schema)


def grown_columns(
    schema: pa.Schema, before: TableState | None, *, format: Format, policy: SchemaPolicy
) -> tuple[TableState, list[str]]:
    """The table's columns once the DataFrame's rows can go into it, and what keeps them out."""
    wanted = plain_schema(schema)
    if before is None:
        return TableState(format=format, schema=wanted), []
    if before.format != format:
        return before, [f"its files are {before.format}, not {format}"]
    known = {field.name: field.type for field in before.schema}
    problems = [
        f"column {field.name!r} of type {field.type} does not go into {known[field.name]} unchanged: cast it in the "
        "transform"
        for field in wanted
        if field.name in known and known[field.name] != field.type
    ]
    new = [field for field in wanted if field.name not in known]
    grown = pa.schema([*before.schema, *new])
    if policy == "fail":
        problems += [_missing(field, known) for field in new]
    else:
        problems += _doubled_names(grown)
    return TableState(format=format, schema=grown), problems


def _missing(field: pa.Field, known: dict[str, pa.DataType]) -> str:
    like = [name for name in known if name.lower() == field.name.lower()]
    hint = f" (it has {like[0]!r}: rename the DataFrame's)" if like else ""
    return f"the table has no column {field.name!r} of type {field.type}{hint}"


def _doubled_names(schema: pa.Schema) -> list[str]:
    """Spark takes names that differ in case alone for one."""
    seen: dict[str, str] = {}
    problems = []
    for name in schema.names:
        if name.lower() in seen:
            problems.append(f"columns {seen[name.lower()]!r} and {name!r} have one name, as Spark reads it")
        seen.setdefault(name.lower(), name)
    return problems


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _can_be_parquet(kind: pa.DataType) -> bool:
    children = list(_children(kind))
    return all(map(_can_be_parquet, children)) if children else any(test(kind) for test in _PARQUET_TYPES)


def _children(kind: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_struct(kind):
        yield from (field.type for field in kind)
    elif pa.types.is_map(kind):
        yield from (kind.key_type, kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield kind.value_type
