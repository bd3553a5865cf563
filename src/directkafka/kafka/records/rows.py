"""The rows of an Arrow batch as the encode kernel reads them: where each row's bytes start, and how long they are.

Only what stands for a row is made here, three numbers a column; the bytes stay where Arrow has them.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.errors import OptionError
from directkafka.kafka.records.encode_kernel import HEADER_OVERHEAD_MAX, RECORD_OVERHEAD_MAX, BinaryColumn, Rows
from directkafka.kafka.records.record_batch import HEADER_SIZE, readonly_bytes

Int32s = np.ndarray[Any, np.dtype[np.int32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]

_NOTHING: Final = readonly_bytes(b"")
_NO_SPANS: Final = BinaryColumn(_NOTHING, np.empty(0, np.int64), np.empty(0, np.int64))
#: Milliseconds and units of timestamps: what they are multiplied with and divided by.
_TO_MS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def read_rows(batch: pa.RecordBatch, targets: Int32s) -> Rows:
    """The columns ``key``, ``value``, ``timestamp`` and ``headers`` of a batch; all but ``value`` may be missing.

    Args:
        batch: columns as :meth:`directkafka.kafka.records.encoder.RecordEncoder.encode` takes them.
        targets: the target's number, of each row.

    Raises:
        OptionError: a column is missing or of another type.
    """
    count, names = batch.num_rows, batch.schema.names
    if "value" not in names:
        raise OptionError(option="value", reason="the rows have no such column, and a record's value comes from it")
    firsts, counts, keys, values = _headers(batch, count)
    return Rows(
        keys=spans_of(batch.column("key"), "key") if "key" in names else _nulls(count),
        values=spans_of(batch.column("value"), "value"),
        timestamps_ms=_timestamps(batch, count),
        targets=np.array(targets, np.int32),
        first_headers=firsts,
        header_counts=counts,
        header_keys=keys,
        header_values=values,
    )


def room_needed(rows: Rows) -> int:
    """Bytes that the records take at most, when each is in a batch of its own."""
    count = rows.targets.size
    used = sum(int(np.maximum(column.lengths, 0).sum()) for column in (rows.keys, rows.values))
    headers = int(rows.header_counts.sum())
    if headers:
        used += sum(int(np.maximum(column.lengths, 0).sum()) for column in (rows.header_keys, rows.header_values))
    return used + count * (HEADER_SIZE + RECORD_OVERHEAD_MAX) + headers * HEADER_OVERHEAD_MAX


def spans_of(array: pa.Array, name: str) -> BinaryColumn:
    """Starts and lengths of byte strings.

    Args:
        array: binary or string, large or not, or null.
        name: the column, for the error.

    Raises:
        OptionError: it is of another type.
    """
    if pa.types.is_null(array.type):
        return _nulls(len(array))
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    if not (wide or pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        raise OptionError(option=name, reason=f"the column must be binary or string, and is {array.type}")
    _, ends, data = array.buffers()
    bounds = _bounds(ends, np.int64 if wide else np.int32, array)
    lengths = np.diff(bounds)
    if array.null_count:
        lengths[~_valid(array)] = -1
    return BinaryColumn(readonly_bytes(data) if data is not None and data.size else _NOTHING, bounds[:-1], lengths)


def _bounds(buffer: pa.Buffer, dtype: type[np.generic], array: pa.Array) -> Int64s:
    if len(array) == 0:
        return np.zeros(1, np.int64)
    whole = np.frombuffer(buffer, dtype, array.offset + len(array) + 1)
    return whole[array.offset :].astype(np.int64)


def _valid(array: pa.Array) -> Booleans:
    # Not array.is_valid(), which imports pyarrow.compute: 12 MB in every worker.
    bits = np.unpackbits(
        np.frombuffer(array.buffers()[0], np.uint8), count=array.offset + len(array), bitorder="little"
    )
    return bits[array.offset :].astype(np.bool_)


def _nulls(count: int) -> BinaryColumn:
    return BinaryColumn(_NOTHING, np.zeros(count, np.int64), np.full(count, -1, np.int64))


def _timestamps(batch: pa.RecordBatch, count: int) -> Int64s:
    now_ms = time.time_ns() // 1_000_000
    if "timestamp" not in batch.schema.names or pa.types.is_null(batch.column("timestamp").type):
        return np.full(count, now_ms, np.int64)
    array = batch.column("timestamp")
    if pa.types.is_timestamp(array.type):
        times, by = _TO_MS[array.type.unit]
    elif pa.types.is_int64(array.type):
        times, by = 1, 1
    else:
        reason = f"the column must be a timestamp, or milliseconds as a 64-bit number, and is {array.type}"
        raise OptionError(option="timestamp", reason=reason)
    raw = np.frombuffer(array.buffers()[1], np.int64, array.offset + count)[array.offset :]
    timestamps: Int64s = raw * times // by
    if array.null_count:
        timestamps[~_valid(array)] = now_ms
    return timestamps


def _headers(batch: pa.RecordBatch, count: int) -> tuple[Int64s, Int64s, BinaryColumn, BinaryColumn]:
    """Each row's first header, how many it has, and all headers' keys and values."""
    none = np.zeros(count, np.int64)
    if "headers" not in batch.schema.names or pa.types.is_null(batch.column("headers").type):
        return none, none, _NO_SPANS, _NO_SPANS
    lists = batch.column("headers")
    _check_headers(lists.type)
    wide = pa.types.is_large_list(lists.type)
    bounds = _bounds(lists.buffers()[1], np.int64 if wide else np.int32, lists)
    counts = np.diff(bounds)
    if lists.null_count:
        counts[~_valid(lists)] = 0
    pairs = lists.values
    keys, values = (spans_of(pairs.field(name), f"headers.{name}") for name in ("key", "value"))
    if pairs.null_count:
        keys.lengths[~_valid(pairs)] = -1
    return bounds[:-1], counts, keys, values


def _check_headers(data_type: pa.DataType) -> None:
    is_list = pa.types.is_list(data_type) or pa.types.is_large_list(data_type)
    fields = (
        {field.name for field in data_type.value_type}
        if is_list and pa.types.is_struct(data_type.value_type)
        else set()
    )
    if fields == {"key", "value"}:
        return
    reason = f"the column must be array<struct<key: string, value: binary>>, and is {data_type}"
    raise OptionError(option="headers", reason=reason)
