"""Nested columns that a store keeps as JSON: Spark writes the texts, a mark in the schema says what they are.

A member of a JSON object has a text for its name. Of a map's keys Spark makes it by Java's ``toString`` of what it
holds inside: right for texts, numbers and truth values; a date becomes a number of days, a timestamp one of
microseconds, bytes an address in memory, a struct the bits of its row. Such keys are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

__all__ = ["is_json", "key_problems", "with_json"]

_MARK = {b"directkafka": b"json"}


def is_json(field: pa.Field) -> bool:
    """Whether a column of texts stands for a nested one."""
    return field.metadata is not None and field.metadata.get(b"directkafka") == b"json"


def with_json(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The schema once the named columns are JSON texts."""
    return pa.schema(
        [pa.field(one.name, pa.string(), one.nullable, _MARK) if one.name in names else one for one in schema],
        schema.metadata,
    )


def key_problems(schema: pa.Schema, names: Collection[str]) -> list[str]:
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
        pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_boolean,
        pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
    )  # fmt: skip
    return any(test(kind) for test in tests)
