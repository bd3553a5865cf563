"""Kernels that encode rows as the records of batches, and write the batches' headers.

:func:`encode_records` writes records behind space for a batch header, :func:`write_headers` writes the headers;
compression, where it is wanted, lies in between. The bytes are those of :mod:`directkafka.kafka.records.record_batch`
and :mod:`directkafka.kafka.records.record`, which read them. A batch's first record gives its base timestamp.

No bound is checked here: the caller has made room (:func:`directkafka.kafka.records.record_columns.room_needed`), and
its rows are of Arrow's making.

Sources: Kafka's ``MemoryRecordsBuilder.java``, ``DefaultRecord.writeTo``, ``DefaultRecordBatch.writeHeader``.
"""

# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from directkafka.kafka.kernels.c_functions import crc32c
from directkafka.kafka.kernels.compile import (
    BYTES_IN,
    BYTES_OUT,
    INT32S,
    INT64,
    INT64S,
    TABLE,
    copy,
    helper,
    kernel,
    unwrapped,
)
from directkafka.kafka.records.record_batch import HEADER_SIZE

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int32s = np.ndarray[Any, np.dtype[np.int32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Bit of a batch's attributes.
TRANSACTIONAL = 1 << 4

#: What a record takes besides its bytes, at most: length, attributes, two deltas, two lengths, the headers' number.
RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5
#: What a header takes besides its bytes, at most: two lengths.
HEADER_OVERHEAD_MAX = 5 + 5


class BinaryColumn(NamedTuple):
    """A column of byte strings: where each starts in ``data``, and its length, -1 for null."""

    data: Bytes
    starts: Int64s
    lengths: Int64s


class Rows(NamedTuple):
    """What :func:`encode_records` reads.

    Attributes:
        keys, values: one per row.
        timestamps_ms: since 1970, not negative.
        targets: the number of each row's target.
        first_headers, header_counts: each row's headers, as a range of ``header_keys`` and ``header_values``.
    """

    keys: BinaryColumn
    values: BinaryColumn
    timestamps_ms: Int64s
    targets: Int32s
    first_headers: Int64s
    header_counts: Int64s
    header_keys: BinaryColumn
    header_values: BinaryColumn


class Limits(NamedTuple):
    """Most bytes of a batch with its header: of one that has several records, and of one that has a single one."""

    batch: int
    single: int


class EncodedSpan(NamedTuple):
    """One batch that was laid out, a row of a table: ``[start, end)`` with the room for its header in front."""

    target: int
    start: int
    end: int
    records: int
    base_timestamp_ms: int
    max_timestamp_ms: int


class HeaderFields(NamedTuple):
    """What is the same in the headers of all batches: ``attributes`` as the format has them."""

    attributes: int
    producer_id: int
    epoch: int
    crc32c: int


@helper
def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63)


@helper
def _varint_size(number: int) -> int:
    rest = _zigzag(number)
    size = 1
    # A negative rest has its highest bit set; the shift must bring in zeros.
    while rest & ~0x7F:
        rest = (rest >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@helper
def _put_varint(out: Any, at: int, number: int) -> int:
    rest = _zigzag(number)
    while rest & ~0x7F:
        out[at] = rest & 0x7F | 0x80
        rest = (rest >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    out[at] = rest
    return at + 1


@helper
def _span_size(length: int) -> int:
    return _varint_size(length) + max(length, 0)


@helper
def _put_span(out: Any, at: int, spans: BinaryColumn, row: int) -> int:
    length = spans.lengths[row]
    return int(copy(out, _put_varint(out, at, length), spans.data, spans.starts[row], length))


@helper
def _headers_size(rows: Rows, row: int) -> int:
    count, first = rows.header_counts[row], rows.first_headers[row]
    size = _varint_size(count)
    for header in range(first, first + count):
        size += _span_size(rows.header_keys.lengths[header]) + _span_size(rows.header_values.lengths[header])
    return size


@helper
def _put_record(
    out: Any, at: int, rows: Rows, row: int, body_size: int, timestamp_delta: int, offset_delta: int
) -> int:
    at = _put_varint(out, at, body_size)
    out[at] = 0
    at = _put_varint(out, at + 1, timestamp_delta)
    at = _put_varint(out, at, offset_delta)
    at = _put_span(out, at, rows.keys, row)
    at = _put_span(out, at, rows.values, row)
    count, first = rows.header_counts[row], rows.first_headers[row]
    at = _put_varint(out, at, count)
    for header in range(first, first + count):
        at = _put_span(out, at, rows.header_keys, header)
        at = _put_span(out, at, rows.header_values, header)
    return at


@helper
def _spans_pointers(spans: BinaryColumn) -> BinaryColumn:
    return BinaryColumn(unwrapped(spans.data), unwrapped(spans.starts), unwrapped(spans.lengths))


@helper
def _pointers(rows: Rows) -> Rows:
    return Rows(
        _spans_pointers(rows.keys),
        _spans_pointers(rows.values),
        unwrapped(rows.timestamps_ms),
        unwrapped(rows.targets),
        unwrapped(rows.first_headers),
        unwrapped(rows.header_counts),
        _spans_pointers(rows.header_keys),
        _spans_pointers(rows.header_values),
    )


_tuple_type: Any = types.NamedTuple
_uniform_tuple_type: Any = types.NamedUniTuple
_SPANS_TYPE = _tuple_type([BYTES_IN, INT64S, INT64S], BinaryColumn)
_ROWS_TYPE = _tuple_type([_SPANS_TYPE, _SPANS_TYPE, INT64S, INT32S, INT64S, INT64S, _SPANS_TYPE, _SPANS_TYPE], Rows)
_LIMITS_TYPE = _uniform_tuple_type(INT64, len(Limits._fields), Limits)
_HEADER_FIELDS_TYPE = _uniform_tuple_type(INT64, len(HeaderFields._fields), HeaderFields)


@kernel(types.void(INT32S, INT64S, INT64S))
def order_by_target(targets: Int32s, next_places: Int64s, order: Int64s) -> None:
    """Numbers of the rows, by target, and within a target as they came.

    Args:
        targets: the target's number, of each row.
        next_places: one place more than targets, zeros; overwritten.
        order: out, as many as rows.
    """
    for row in range(targets.shape[0]):
        next_places[targets[row] + 1] += 1
    for target in range(1, next_places.shape[0]):
        next_places[target] += next_places[target - 1]
    for row in range(targets.shape[0]):
        target = targets[row]
        order[next_places[target]] = row
        next_places[target] += 1


@kernel(INT64(_ROWS_TYPE, INT64S, _LIMITS_TYPE, BYTES_OUT, TABLE, INT64S))
def encode_records(rows: Rows, order: Int64s, limits: Limits, out: Bytes, batches: Table, refused: Int64s) -> int:
    """Write records, row after row, and begin a batch where a target begins or the batch before is full.

    Args:
        rows: what to write.
        order: numbers of the rows, those of one target without a gap.
        limits: sizes of batches.
        out: out, with room for the records and as many batch headers as there are rows.
        batches: out, columns as in :class:`EncodedSpan`, with room for as many as there are rows.
        refused: out, number and size of a row that is larger than the limit; left alone where there is none.

    Returns:
        The number of batches, or -1 when a row was refused; the output then means nothing.
    """
    source, data = _pointers(rows), unwrapped(out)
    count = records = at = 0
    start = base = 0
    target = -1
    for position in range(order.shape[0]):
        row = order[position]
        timestamp = source.timestamps_ms[row]
        fields_size = (
            1 + _span_size(source.keys.lengths[row]) + _span_size(source.values.lengths[row])
            + _headers_size(source, row)
        )  # fmt: skip
        body_size = fields_size + _varint_size(timestamp - base) + _varint_size(records)
        size = _varint_size(body_size) + body_size
        if records == 0 or source.targets[row] != target or at - start + size > limits.batch:
            body_size = fields_size + 2
            size = _varint_size(body_size) + body_size
            if HEADER_SIZE + size > limits.single:
                refused[0], refused[1] = row, HEADER_SIZE + size
                return -1
            target, start, base, records = source.targets[row], at, timestamp, 0
            batches[count, 0], batches[count, 1] = target, start
            batches[count, 4], batches[count, 5] = base, base
            at += HEADER_SIZE
            count += 1
        at = _put_record(data, at, source, row, body_size, timestamp - base, records)
        records += 1
        batches[count - 1, 2], batches[count - 1, 3] = at, records
        batches[count - 1, 5] = max(batches[count - 1, 5], timestamp)
    return count


@helper
def _put_int16(out: Any, at: int, number: int) -> None:
    out[at] = (number >> 8) & 0xFF
    out[at + 1] = number & 0xFF


@helper
def _put_int32(out: Any, at: int, number: int) -> None:
    _put_int16(out, at, number >> 16)
    _put_int16(out, at + 2, number)


@helper
def _put_int64(out: Any, at: int, number: int) -> None:
    _put_int32(out, at, number >> 32)
    _put_int32(out, at + 4, number)


@kernel(types.void(BYTES_OUT, TABLE, INT64S, _HEADER_FIELDS_TYPE))
def write_headers(out: Bytes, batches: Table, sequences: Int64s, by: HeaderFields) -> None:
    """Write the batches' headers.

    Args:
        out: in and out, the batches' bytes.
        batches: where they are, columns as in :class:`EncodedSpan`.
        sequences: the sequence number of each batch's first record, or -1.
        by: the rest.
    """
    data = unwrapped(out)
    for number in range(batches.shape[0]):
        start, end, records = batches[number, 1], batches[number, 2], batches[number, 3]
        _put_int64(data, start, 0)
        _put_int32(data, start + 8, end - start - 12)
        _put_int32(data, start + 12, -1)
        data[start + 16] = 2
        _put_int16(data, start + 21, by.attributes)
        _put_int32(data, start + 23, records - 1)
        _put_int64(data, start + 27, batches[number, 4])
        _put_int64(data, start + 35, batches[number, 5])
        _put_int64(data, start + 43, by.producer_id)
        _put_int16(data, start + 51, by.epoch)
        _put_int32(data, start + 53, sequences[number])
        _put_int32(data, start + 57, records)
        _put_int32(data, start + 17, crc32c(by.crc32c, data, start + 21, end))
