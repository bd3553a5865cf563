"""The columns of Spark's ``kafka`` format, which are fixed."""

from __future__ import annotations

__all__ = ["record_columns", "record_schema"]

_COLUMNS = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
)
_HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def record_columns(*, include_headers: bool) -> list[tuple[str, str]]:
    """The columns of Spark's ``kafka`` format: each one's name and type, as ``simpleString`` writes types."""
    return [*_COLUMNS, *([_HEADERS] if include_headers else [])]


def record_schema(*, include_headers: bool) -> str:
    """The same as DDL."""
    return ", ".join(" ".join(column) for column in record_columns(include_headers=include_headers))
