"""The columns of Spark's ``kafka`` format and their types, which are fixed."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["record_columns", "record_schema"]

_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


def record_columns(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each column's name and type, as ``simpleString`` writes types."""
    return [(name, _TYPES[name]) for name in names]


def record_schema(names: Sequence[str]) -> str:
    """The same as DDL."""
    return ", ".join(" ".join(column) for column in record_columns(names))
