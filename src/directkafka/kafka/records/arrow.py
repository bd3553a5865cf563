"""The columns of Kafka records as Arrow: their schema, their buffers, and record batches of them.

Buffers are allocated by Arrow and filled by the kernels, so that nothing is copied in between. The schema is equal
to what PySpark makes of Spark's ``kafka`` source (``to_arrow_schema`` with ``timezone="UTC"``); a test compares
the two, for this package does not import pyspark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from directkafka.kafka.records.record_columns import Capacity, HeaderColumns, RecordColumns, WriteCursor

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


def ends_of(binary: pa.Array) -> Int32s:
    """The Arrow offsets of a column of byte strings that is no slice."""
    return np.frombuffer(binary.buffers()[1], np.int32, len(binary) + 1)


#: A column of 16,384 rows of the longest topic name there can be, 249 bytes, has 4 MB.
_CONSTANT_COLUMNS_KEPT = 8


@lru_cache(maxsize=_CONSTANT_COLUMNS_KEPT)
def constant_column(value: str | int, arrow_type: pa.DataType, rows: int) -> pa.Array:
    """A column of one value, kept so that the batches of a partition share it as slices.

    Args:
        value: text for a string column, or a number for an int32 column.
        arrow_type: that of the column.
        rows: how many.
    """
    # Not pa.repeat: to make a scalar of a Python object imports pandas where that is installed, a quarter second.
    if isinstance(value, str):
        data = value.encode()
        ends = np.arange(rows + 1, dtype=np.int32) * len(data)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data * rows)]
    else:
        buffers = [None, pa.py_buffer(np.full(rows, value, np.int32))]
    return pa.Array.from_buffers(arrow_type, rows, buffers, null_count=0)


@cache
def _memory_pool() -> pa.MemoryPool:
    """Where columns are allocated: mimalloc, Arrow's default, holds on to 45 MB of columns that were freed."""
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ or "jemalloc" not in pa.supported_memory_backends():
        return pa.default_memory_pool()
    return pa.jemalloc_memory_pool()


class _Numbers:
    """The values of a fixed-width column: an Arrow buffer and a writable view over it."""

    def __init__(self, room: int, dtype: type[np.generic]) -> None:
        size = room * np.dtype(dtype).itemsize
        self._buffer = pa.allocate_buffer(size, memory_pool=_memory_pool(), resizable=True)
        self._dtype = np.dtype(dtype)
        self.view = np.frombuffer(self._buffer, dtype)

    def buffer(self, count: int) -> pa.Buffer:
        """The first values as a buffer, once; the view and its copies must not be used any more.

        What is left over goes with the buffer, up to as much as is used; there is no copy of what is large.
        """
        size = count * self._dtype.itemsize
        del self.view
        if size <= self._buffer.size // 2:
            self._buffer.resize(size)
        return self._buffer

    def array(self, arrow_type: pa.DataType, count: int) -> pa.Array:
        return pa.Array.from_buffers(arrow_type, count, [None, self.buffer(count)], null_count=0)


class _Validity:
    """An Arrow bitmap with all bits set; a kernel clears those of nulls."""

    def __init__(self, room: int) -> None:
        self._bits = _Numbers((room + 7) // 8, np.uint8)
        self.view = self._bits.view
        self.view.fill(255)

    def buffer(self, count: int, nulls: int) -> pa.Buffer | None:
        """None when there are no nulls."""
        del self.view
        return self._bits.buffer((count + 7) // 8) if nulls else None


class _Binary:
    """A column of byte strings: ``ends`` (Arrow offsets, one more than rows), ``data``, ``validity``."""

    def __init__(self, rows: int, data_bytes: int) -> None:
        self._ends = _Numbers(rows + 1, np.int32)
        self._data = _Numbers(data_bytes, np.uint8)
        self._validity = _Validity(rows)
        self.ends = self._ends.view
        self.data = self._data.view
        self.validity = self._validity.view
        self.ends[0] = 0

    def array(self, rows: int, data_bytes: int, nulls: int) -> pa.Array:
        """The column; ``nulls`` is the number of cleared bits."""
        del self.ends, self.data, self.validity
        buffers = [self._validity.buffer(rows, nulls), self._ends.buffer(rows + 1), self._data.buffer(data_bytes)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count=nulls)


class RecordBuffers:
    """Room for the columns of records, which ``decode_run`` fills."""

    def __init__(self, room: Capacity) -> None:
        self._keys = _Binary(room.rows, room.record_bytes)
        self._values = _Binary(room.rows, room.record_bytes)
        self._offsets = _Numbers(room.rows, np.int64)
        self._timestamps = _Numbers(room.rows, np.int64)
        self._timestamp_types = _Numbers(room.rows, np.int32)
        self.columns = RecordColumns(
            self._offsets.view,
            self._timestamps.view,
            self._timestamp_types.view,
            self._keys.ends,
            self._keys.data,
            self._keys.validity,
            self._values.ends,
            self._values.data,
            self._values.validity,
        )

    def arrays(self, filled: WriteCursor) -> list[pa.Array]:
        """The columns ``key``, ``value``, ``offset``, ``timestamp`` and ``timestampType``; to be called once."""
        del self.columns
        rows = filled.rows
        return [
            self._keys.array(rows, filled.key_bytes, filled.null_keys),
            self._values.array(rows, filled.value_bytes, filled.null_values),
            self._offsets.array(pa.int64(), rows),
            self._timestamps.array(_TIMESTAMP_TYPE, rows),
            self._timestamp_types.array(pa.int32(), rows),
        ]


class HeaderBuffers:
    """Room for the headers, likewise: per row a list of (key, value), null where a record has no header."""

    def __init__(self, room: Capacity) -> None:
        self._list_ends = _Numbers(room.rows + 1, np.int32)
        self._list_validity = _Validity(room.rows)
        self._keys = _Binary(room.headers, room.header_bytes)
        self._values = _Binary(room.headers, room.header_bytes)
        self._list_ends.view[0] = 0
        self.columns = HeaderColumns(
            self._list_ends.view,
            self._list_validity.view,
            self._keys.ends,
            self._keys.data,
            self._values.ends,
            self._values.data,
            self._values.validity,
        )

    def array(self, filled: WriteCursor) -> pa.Array:
        """The ``headers`` column; to be called once."""
        del self.columns
        keys = _as_text(self._keys.array(filled.headers, filled.header_key_bytes, 0))
        values = self._values.array(filled.headers, filled.header_value_bytes, filled.null_header_values)
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER_TYPE))
        nulls = filled.rows_without_headers
        buffers = [self._list_validity.buffer(filled.rows, nulls), self._list_ends.buffer(filled.rows + 1)]
        return pa.Array.from_buffers(HEADERS_TYPE, filled.rows, buffers, null_count=nulls, children=[pairs])


#: What the kernel is given where headers are not wanted.
NO_HEADERS = HeaderBuffers(Capacity(0, 0, 0, 0)).columns


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys as strings. What is not UTF-8 is replaced by U+FFFD, as Java's consumer does."""
    # Not a cast, which imports pyarrow.compute: 12 MB in every worker.
    text = pa.Array.from_buffers(pa.string(), len(keys), keys.buffers(), null_count=0)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        # One odd producer must not stop a pipeline; only a batch that has such a key takes this slow way.
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    return text


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
