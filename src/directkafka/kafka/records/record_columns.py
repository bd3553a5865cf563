"""Columns as the decode kernel fills them, and what it is told: named tuples of arrays and numbers, and their types."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from directkafka.kafka.kernels.compile import BYTES_IN, BYTES_OUT, INT32S, INT64, INT64S, TABLE

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int32s = np.ndarray[Any, np.dtype[np.int32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]


class BatchSlice(NamedTuple):
    """One batch of a run: batches that were checked together, and whose records are decoded by one call.

    ``index_row`` is the batch's row of the index. Its records lie at ``[start, end)``: of the response when ``codec``
    is 0, else of the decompressed bytes; before it is decompressed, its compressed records do so in the response.
    """

    index_row: int
    codec: int
    start: int
    end: int


class WriteCursor(NamedTuple):
    """How far the columns are filled."""

    rows: int
    key_bytes: int
    value_bytes: int
    headers: int
    header_key_bytes: int
    header_value_bytes: int
    null_keys: int
    null_values: int
    rows_without_headers: int
    null_header_values: int


class Capacity(NamedTuple):
    """How far the columns may be filled: ``record_bytes`` of keys and values, ``header_bytes`` of either kind."""

    rows: int
    record_bytes: int
    headers: int
    header_bytes: int


class OffsetWindow(NamedTuple):
    """What of the records goes into the columns: offsets ``[lower, upper)``.

    Without ``headers`` a record's headers are stepped over, and not checked.
    """

    lower: int
    upper: int
    headers: bool


class Source(NamedTuple):
    """What the kernel reads: a run of batches of one response, and what is wanted of it.

    Attributes:
        records: the response's bytes, read-only.
        scratch: decompressed bytes, read-only.
        batches: what :func:`directkafka.kafka.records.record_batch.index_batches` returned.
        run: the batches to decode, columns as in :class:`BatchSlice`.
        wanted: what of it goes into the columns.
    """

    records: Bytes
    scratch: Bytes
    batches: Table
    run: Table
    wanted: OffsetWindow


class RecordColumns(NamedTuple):
    """Where records go: Arrow buffers as arrays; ``ends`` are Arrow's offsets, validity its bitmaps."""

    offsets: Int64s
    timestamps: Int64s
    timestamp_types: Int32s
    key_ends: Int32s
    key_bytes: Bytes
    key_validity: Bytes
    value_ends: Int32s
    value_bytes: Bytes
    value_validity: Bytes


class HeaderColumns(NamedTuple):
    """Where headers go: ``list_ends`` are offsets of rows into headers, the others of headers into bytes."""

    list_ends: Int32s
    list_validity: Bytes
    key_ends: Int32s
    key_bytes: Bytes
    value_ends: Int32s
    value_bytes: Bytes
    value_validity: Bytes


class Target(NamedTuple):
    """Where a kernel writes: the columns as bare pointers, and how far they may be filled."""

    records: RecordColumns
    headers: HeaderColumns
    room: Capacity


_tuple_type: Any = types.NamedTuple
_uniform_tuple_type: Any = types.NamedUniTuple
_WANTED_TYPE = _tuple_type([INT64, INT64, types.boolean], OffsetWindow)
SOURCE_TYPE = _tuple_type([BYTES_IN, BYTES_IN, TABLE, TABLE, _WANTED_TYPE], Source)
RECORD_COLUMNS_TYPE = _tuple_type(
    [INT64S, INT64S, INT32S, INT32S, BYTES_OUT, BYTES_OUT, INT32S, BYTES_OUT, BYTES_OUT], RecordColumns
)
HEADER_COLUMNS_TYPE = _tuple_type([INT32S, BYTES_OUT, INT32S, BYTES_OUT, INT32S, BYTES_OUT, BYTES_OUT], HeaderColumns)
ROOM_TYPE = _uniform_tuple_type(INT64, len(Capacity._fields), Capacity)
