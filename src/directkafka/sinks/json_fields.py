"""Nested columns that a store keeps as JSON: Spark writes the texts, a mark in the schema says what they are."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

__all__ = ["is_json", "with_json"]

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
