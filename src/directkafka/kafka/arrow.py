"""The columns of Kafka records as Arrow: their schema, their buffers, and record batches of them.

Buffers are allocated by Arrow and filled by the kernels, so that nothing is copied in between. The schema is equal
to what PySpark makes of Spark's ``kafka`` source (``to_arrow_schema`` with ``timezone="UTC"``); a test compares
the two, for this package does not import pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from directkafka.kafka.record_columns import HeaderColumns, RecordColumns, Totals

__all__ = [
    "HEADERS_TYPE",
    "BinaryBuffers",
    "HeaderBuffers",
    "RecordBuffers",
    "constant_column",
    "row_slices",
    "schema",
]

Int32s = np.ndarray[Any, np.dtype[np.int32]]

_HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", _HEADER_TYPE))
_TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")

_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
    ]
)
_SCHEMA_WITH_HEADERS = _SCHEMA.append(pa.field("headers", HEADERS_TYPE))


def schema(*, include_headers: bool) -> pa.Schema:
    """The schema of decoded records, with or without the ``headers`` column."""
    return _SCHEMA_WITH_HEADERS if include_headers else _SCHEMA


@lru_cache(maxsize=64)
def constant_column(value: str | int, arrow_type: pa.DataType, rows: int) -> pa.Array:
    """A column of one value, kept so that the batches of a partition share it as slices."""
    return pa.repeat(pa.scalar(value, arrow_type), rows)


class _Numbers:
    """The values of a fixed-width column: an Arrow buffer and a writable view over it."""

    def __init__(self, count: int, dtype: type[np.generic]) -> None:
        self.buffer = pa.allocate_buffer(count * np.dtype(dtype).itemsize)
        self.view = np.frombuffer(self.buffer, dtype)

    def array(self, arrow_type: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(arrow_type, self.view.size, [None, self.buffer], null_count=0)


class _Validity:
    """An Arrow bitmap with all bits set; a kernel clears those of nulls."""

    def __init__(self, count: int) -> None:
        self.buffer = pa.allocate_buffer((count + 7) // 8)
        self.view = np.frombuffer(self.buffer, np.uint8)
        self.view.fill(255)

    def buffer_unless(self, nulls: int) -> pa.Buffer | None:
        return self.buffer if nulls else None


class BinaryBuffers:
    """A column of byte strings: ``ends`` (Arrow offsets, one more than rows), ``data``, ``validity``."""

    def __init__(self, rows: int, data_bytes: int) -> None:
        self._rows = rows
        self._ends = _Numbers(rows + 1, np.int32)
        self._data = _Numbers(data_bytes, np.uint8)
        self._validity = _Validity(rows)
        self.ends = self._ends.view
        self.data = self._data.view
        self.validity = self._validity.view

    def array(self, arrow_type: pa.DataType, nulls: int) -> pa.Array:
        """The column; ``nulls`` is the number of cleared bits."""
        buffers = [self._validity.buffer_unless(nulls), self._ends.buffer, self._data.buffer]
        return pa.Array.from_buffers(arrow_type, self._rows, buffers, null_count=nulls)


class RecordBuffers:
    """What ``copy_records`` fills, for the rows and bytes that were measured."""

    def __init__(self, totals: Totals) -> None:
        rows = totals.rows
        self.keys = BinaryBuffers(rows, totals.key_bytes)
        self.values = BinaryBuffers(rows, totals.value_bytes)
        self._offsets = _Numbers(rows, np.int64)
        self._timestamps = _Numbers(rows, np.int64)
        self._timestamp_types = _Numbers(rows, np.int32)
        self.nulls = np.zeros(2, np.int64)
        self.columns = RecordColumns(
            self._offsets.view,
            self._timestamps.view,
            self._timestamp_types.view,
            self.keys.ends,
            self.keys.data,
            self.keys.validity,
            self.values.ends,
            self.values.data,
            self.values.validity,
        )

    def key_and_value(self) -> tuple[pa.Array, pa.Array]:
        """The first two columns."""
        key_nulls, value_nulls = self.nulls.tolist()
        return self.keys.array(pa.binary(), key_nulls), self.values.array(pa.binary(), value_nulls)

    def offset_and_timestamps(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The columns ``offset``, ``timestamp`` and ``timestampType``."""
        return (
            self._offsets.array(pa.int64()),
            self._timestamps.array(_TIMESTAMP_TYPE),
            self._timestamp_types.array(pa.int32()),
        )


class HeaderBuffers:
    """What ``copy_headers`` fills: per row a list of (key, value), null where a record has no header."""

    def __init__(self, totals: Totals) -> None:
        self._rows = totals.rows
        self._list_ends = _Numbers(totals.rows + 1, np.int32)
        self._list_validity = _Validity(totals.rows)
        self._keys = BinaryBuffers(totals.headers, totals.header_key_bytes)
        self._values = BinaryBuffers(totals.headers, totals.header_value_bytes)
        self.nulls = np.zeros(2, np.int64)
        self.columns = HeaderColumns(
            self._list_ends.view,
            self._list_validity.view,
            self._keys.ends,
            self._keys.data,
            self._values.ends,
            self._values.data,
            self._values.validity,
        )

    def array(self) -> pa.Array:
        """The ``headers`` column."""
        list_nulls, value_nulls = self.nulls.tolist()
        keys = _as_text(self._keys.array(pa.binary(), 0))
        pairs = pa.StructArray.from_arrays(
            [keys, self._values.array(pa.binary(), value_nulls)], fields=list(_HEADER_TYPE)
        )
        buffers = [self._list_validity.buffer_unless(list_nulls), self._list_ends.buffer]
        return pa.Array.from_buffers(HEADERS_TYPE, self._rows, buffers, null_count=list_nulls, children=[pairs])


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys as strings. What is not UTF-8 is replaced by U+FFFD, as Java's consumer does."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        # One odd producer must not stop a pipeline; only a batch that has such a key takes this slow way.
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def row_slices(key_ends: Int32s, value_ends: Int32s, rows_max: int, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Cut rows into ``(first, count)`` so that each part keeps both limits, or is a single row.

    Args:
        key_ends, value_ends: Arrow offsets of the two columns, from 0.
        rows_max: most rows of a part.
        bytes_max: most bytes of keys and values of a part.
    """
    rows = key_ends.size - 1
    if rows <= rows_max and int(key_ends[-1]) + int(value_ends[-1]) <= bytes_max:
        yield 0, rows
        return
    ends = key_ends.astype(np.int64) + value_ends
    first = 0
    while first < rows:
        by_bytes = int(np.searchsorted(ends, ends[first] + bytes_max, side="right")) - 1
        last = max(first + 1, min(by_bytes, first + rows_max))
        yield first, min(last, rows) - first
        first = last
