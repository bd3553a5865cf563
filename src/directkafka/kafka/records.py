"""Records inside batches, as compiled kernels: check and measure first, then copy into column buffers.

A record, after decompression (varints are zigzag; length -1 is null, which a header's key cannot be)::

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    | key length varint, key | value length varint, value
    | number of headers varint | each: key length varint, key, value length varint, value

:func:`measure` checks every record of a group of batches against hostile bytes and says how many bytes the columns
need; :func:`copy_records` and :func:`copy_headers` walk the very same bytes with the very same reader and fill
buffers of exactly that size. Nothing of a batch is emitted before all of it is checked.

Ignored: a record's own attributes (no bit of them is in use). Gaps between offset deltas are normal (compaction).

Sources: https://kafka.apache.org/documentation/#record, KIP-82 (headers), Kafka's ``DefaultRecord.java``.
"""

# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments
from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from directkafka.kafka.kernel import BYTES_IN, INT64, INT64S, copy, helper, kernel, unwrapped
from directkafka.kafka.record_batch import Batch
from directkafka.kafka.record_columns import (
    HEADER_COLUMNS_TYPE,
    RECORD_COLUMNS_TYPE,
    SOURCE_TYPE,
    HeaderColumns,
    Member,
    RecordColumns,
    Source,
    Totals,
    Wanted,
)
from directkafka.kafka.record_fault import Fault, report

__all__ = ["control_record_type", "copy_headers", "copy_records", "measure"]

Int64s = np.ndarray[Any, np.dtype[np.int64]]

#: A record has at least length, attributes, two deltas, two lengths and a header count of one byte each.
_RECORD_SIZE_MIN = 7
#: A header has at least the two lengths.
_HEADER_SIZE_MIN = 2

#: A control record's key: version int16, type int16.
_CONTROL_KEY_SIZE = 4

_LOG_APPEND_TIME = 1 << 3
_INT64_MAX = 9223372036854775807
_TIMESTAMP_MS_MAX = _INT64_MAX // 1000


_ROWS, _KEY_BYTES, _VALUE_BYTES, _HEADERS, _HEADER_KEY_BYTES, _HEADER_VALUE_BYTES = range(len(Totals._fields))


@helper
def _varint(data: Any, position: int, end: int, bits: int, fault: Any) -> tuple[int, int]:
    """A zigzag varint of at most ``bits`` bits (32: 5 bytes, 64: 10): its value and the position after it, or -1."""
    value = shift = 0
    at = position
    while at < end and shift < bits:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift + 7 > bits and byte >> (bits - shift) != 0:
                break
            return ((value >> 1) & _INT64_MAX) ^ -(value & 1), at
        shift += 7
    return 0, report(fault, Fault.VARINT, position, end - position, bits)


@helper
def _span(data: Any, position: int, end: int, null_allowed: bool, code: int, fault: Any) -> tuple[int, int, int]:
    """A length and as many bytes: length (-1 for null), where they start, and the position after them, or -1."""
    length, start = _varint(data, position, end, 32, fault)
    after = start + max(length, 0)
    if start < 0:
        after = -1
    elif length < -1 or after > end or (length == -1 and not null_allowed):
        after = report(fault, code, position, length, end - start)
    return length, start, after


@helper
def _record_bounds(data: Any, position: int, end: int, fault: Any) -> tuple[int, int]:
    """Where the body of the record at ``position`` starts and ends; the end is -1 on a fault."""
    length, start = _varint(data, position, end, 32, fault)
    if start < 0:
        return start, -1
    if length < _RECORD_SIZE_MIN - 1 or length > end - start:
        return start, report(fault, Fault.RECORD_LENGTH, position, length, end - start)
    return start, start + length


@helper
def _read_record(data: Any, start: int, end: int, fault: Any) -> tuple[int, int, int, int, int, int, int, int]:
    """The fields of the record whose body is ``[start, end)``.

    Returns:
        Timestamp delta, offset delta, key length and start, value length and start, number of headers, and the
        position after that number, which is -1 on a fault.
    """
    # The attributes byte at `start` has no bit in use.
    timestamp_delta, at = _varint(data, start + 1, end, 64, fault)
    offset_delta = key_length = key_start = value_length = value_start = headers = 0
    if at >= 0:
        offset_delta, at = _varint(data, at, end, 32, fault)
    if at >= 0:
        key_length, key_start, at = _span(data, at, end, True, Fault.KEY_LENGTH, fault)
    if at >= 0:
        value_length, value_start, at = _span(data, at, end, True, Fault.VALUE_LENGTH, fault)
    if at >= 0:
        counted_at = at
        headers, at = _varint(data, at, end, 32, fault)
        if at >= 0 and not 0 <= headers <= (end - at) // _HEADER_SIZE_MIN:
            at = report(fault, Fault.HEADER_COUNT, counted_at, headers, end - at)
    return timestamp_delta, offset_delta, key_length, key_start, value_length, value_start, headers, at


@helper
def _batch(batches: Any, row: int) -> Batch:
    return Batch(
        batches[row, 0], batches[row, 1], batches[row, 2], batches[row, 3], batches[row, 4],
        batches[row, 5], batches[row, 6], batches[row, 7], batches[row, 8], batches[row, 9],
    )  # fmt: skip


@helper
def _member(group: Any, row: int) -> Member:
    return Member(group[row, 0], group[row, 1], group[row, 2], group[row, 3])


@helper
def _timestamp_us(batch: Batch, timestamp_delta: int) -> tuple[int, bool]:
    """A record's timestamp in microseconds, and whether it fits; in milliseconds when it does not."""
    timestamp = batch.base_timestamp + timestamp_delta
    wrapped = ((batch.base_timestamp ^ timestamp) & (timestamp_delta ^ timestamp)) < 0
    if batch.attributes & _LOG_APPEND_TIME:
        timestamp = batch.max_timestamp
        wrapped = False
    if wrapped or not -_TIMESTAMP_MS_MAX <= timestamp <= _TIMESTAMP_MS_MAX:
        return timestamp, False
    return timestamp * 1000, True


@helper
def _measure_headers(data: Any, position: int, end: int, count: int, fault: Any) -> tuple[int, int, int]:
    """Check a record's headers: bytes of their keys, of their values, and the position after them, or -1."""
    key_bytes = value_bytes = 0
    at = position
    for _ in range(count):
        key_length, _key, at = _span(data, at, end, False, Fault.HEADER_KEY_LENGTH, fault)
        if at < 0:
            break
        value_length, _value, at = _span(data, at, end, True, Fault.HEADER_VALUE_LENGTH, fault)
        if at < 0:
            break
        key_bytes += key_length
        value_bytes += max(value_length, 0)
    return key_bytes, value_bytes, at


@helper
def _measure_record(
    data: Any, batch: Batch, body: int, end: int, wanted: Wanted, totals: Any, fault: Any
) -> tuple[int, int]:
    """Check one record, add its sizes when it is wanted: its offset delta and the position after it, or -1."""
    timestamp_delta, delta, key_length, _key, value_length, _value, headers, at = _read_record(data, body, end, fault)
    header_key_bytes = header_value_bytes = 0
    if at >= 0 and wanted.headers:
        header_key_bytes, header_value_bytes, at = _measure_headers(data, at, end, headers, fault)
    if at < 0:
        return delta, -1
    if at != end and (wanted.headers or headers == 0):
        return delta, report(fault, Fault.RECORD_TAIL, at, end - at, 0)
    offset = batch.base_offset + delta
    if wanted.lower <= offset < wanted.upper:
        timestamp, fits = _timestamp_us(batch, timestamp_delta)
        if not fits:
            return delta, report(fault, Fault.TIMESTAMP, body, timestamp, offset)
        totals[_ROWS] += 1
        totals[_KEY_BYTES] += max(key_length, 0)
        totals[_VALUE_BYTES] += max(value_length, 0)
        totals[_HEADERS] += headers
        totals[_HEADER_KEY_BYTES] += header_key_bytes
        totals[_HEADER_VALUE_BYTES] += header_value_bytes
    return delta, end


@helper
def _measure_batch(data: Any, batch: Batch, start: int, end: int, wanted: Wanted, totals: Any, fault: Any) -> int:
    """Check all records of one batch and add the sizes of the wanted ones; -1 on a fault."""
    if not 0 <= batch.record_count <= (end - start) // _RECORD_SIZE_MIN:
        return report(fault, Fault.RECORD_COUNT, start, batch.record_count, end - start)
    last_delta = batch.last_offset - batch.base_offset
    previous_delta = -1
    at = start
    for record in range(batch.record_count):
        fault[4] = record
        body, body_end = _record_bounds(data, at, end, fault)
        if body_end < 0:
            return -1
        delta, after = _measure_record(data, batch, body, body_end, wanted, totals, fault)
        if after < 0:
            return -1
        if not previous_delta < delta <= last_delta:
            return report(fault, Fault.OFFSET_DELTA, at, delta, last_delta)
        previous_delta = delta
        at = after
    return at if at == end else report(fault, Fault.BATCH_TAIL, at, end - at, batch.record_count)


@kernel(types.boolean(SOURCE_TYPE, INT64S, INT64S))
def measure(source: Source, totals: Int64s, fault: Int64s) -> bool:
    """Check every record of a group of batches and count what the wanted ones need.

    Args:
        source: the bytes, the batches and the wanted offsets.
        totals: out, columns as in :class:`Totals`, zeros on entry.
        fault: out, see :mod:`directkafka.kafka.record_fault`.

    Returns:
        Whether all is well; if not, ``fault`` says what is wrong.
    """
    batches, group, wanted = source.batches, source.group, source.wanted
    records, scratch = unwrapped(source.records), unwrapped(source.scratch)
    sums, problem = unwrapped(totals), unwrapped(fault)
    for row in range(group.shape[0]):
        member = _member(group, row)
        batch = _batch(batches, member.index_row)
        data = scratch if member.in_scratch else records
        if _measure_batch(data, batch, member.start, member.end, wanted, sums, problem) < 0:
            fault[1] -= member.start
            fault[5] = row
            return False
    return True


@helper
def _set_null(validity: Any, row: int) -> int:
    """Clear a row's bit; bits are set when the buffer is made, for nulls are rarer than values."""
    validity[row >> 3] &= ~(1 << (row & 7))
    return 1


@kernel(types.void(SOURCE_TYPE, RECORD_COLUMNS_TYPE, INT64S, INT64S))
def copy_records(source: Source, columns: RecordColumns, nulls: Int64s, fault: Int64s) -> None:
    """Fill the columns of the wanted records of a group that :func:`measure` has accepted.

    Args:
        source: as given to :func:`measure`.
        columns: out, of exactly the measured sizes; bitmaps with all bits set on entry.
        nulls: out, the numbers of null keys and null values; zeros on entry.
        fault: an array for the reader to report in; stays as it is.
    """
    batches, group, wanted = source.batches, source.group, source.wanted
    records, scratch, problem = unwrapped(source.records), unwrapped(source.scratch), unwrapped(fault)
    offsets, timestamps, timestamp_types = columns.offsets, columns.timestamps, columns.timestamp_types
    key_ends, keys, key_validity = columns.key_ends, unwrapped(columns.key_bytes), columns.key_validity
    value_ends, values, value_validity = columns.value_ends, unwrapped(columns.value_bytes), columns.value_validity
    row = key_at = value_at = 0
    key_ends[0] = value_ends[0] = 0
    for number in range(group.shape[0]):
        member = _member(group, number)
        batch = _batch(batches, member.index_row)
        data = scratch if member.in_scratch else records
        after = member.start
        for _ in range(batch.record_count):
            body, after = _record_bounds(data, after, member.end, problem)
            timestamp_delta, delta, key_length, key_start, value_length, value_start, _n, _at = _read_record(
                data, body, after, problem
            )
            if not wanted.lower <= batch.base_offset + delta < wanted.upper:
                continue
            offsets[row] = batch.base_offset + delta
            timestamps[row] = _timestamp_us(batch, timestamp_delta)[0]
            timestamp_types[row] = (batch.attributes & _LOG_APPEND_TIME) >> 3
            key_at = copy(keys, key_at, data, key_start, key_length)
            value_at = copy(values, value_at, data, value_start, value_length)
            if key_length < 0:
                nulls[0] += _set_null(key_validity, row)
            if value_length < 0:
                nulls[1] += _set_null(value_validity, row)
            row += 1
            key_ends[row] = key_at
            value_ends[row] = value_at


@kernel(types.void(SOURCE_TYPE, HEADER_COLUMNS_TYPE, INT64S, INT64S))
def copy_headers(source: Source, columns: HeaderColumns, nulls: Int64s, fault: Int64s) -> None:
    """Fill the headers of the wanted records of a group that :func:`measure` has accepted with its headers.

    Args:
        source: as given to :func:`measure`.
        columns: out, of exactly the measured sizes; bitmaps with all bits set on entry.
        nulls: out, the numbers of rows without headers and of null values; zeros on entry.
        fault: an array for the reader to report in; stays as it is.
    """
    batches, group, wanted = source.batches, source.group, source.wanted
    records, scratch, problem = unwrapped(source.records), unwrapped(source.scratch), unwrapped(fault)
    list_ends, list_validity = columns.list_ends, columns.list_validity
    key_ends, keys = columns.key_ends, unwrapped(columns.key_bytes)
    value_ends, values, value_validity = columns.value_ends, unwrapped(columns.value_bytes), columns.value_validity
    row = item = key_at = value_at = 0
    list_ends[0] = key_ends[0] = value_ends[0] = 0
    for number in range(group.shape[0]):
        member = _member(group, number)
        batch = _batch(batches, member.index_row)
        data = scratch if member.in_scratch else records
        after = member.start
        for _ in range(batch.record_count):
            body, after = _record_bounds(data, after, member.end, problem)
            fields = _read_record(data, body, after, problem)
            if not wanted.lower <= batch.base_offset + fields[1] < wanted.upper:
                continue
            count, at = fields[6], fields[7]
            for _ in range(count):
                length, start, at = _span(data, at, after, False, Fault.HEADER_KEY_LENGTH, problem)
                key_at = copy(keys, key_at, data, start, length)
                length, start, at = _span(data, at, after, True, Fault.HEADER_VALUE_LENGTH, problem)
                value_at = copy(values, value_at, data, start, length)
                if length < 0:
                    nulls[1] += _set_null(value_validity, item)
                item += 1
                key_ends[item] = key_at
                value_ends[item] = value_at
            if count == 0:
                nulls[0] += _set_null(list_validity, row)
            row += 1
            list_ends[row] = item


@kernel(INT64(BYTES_IN, INT64, INT64, INT64S))
def control_record_type(data: Any, start: int, end: int, fault: Int64s) -> Any:
    """The type in the key of a control batch's first record (0 abort, 1 commit), or -1 where there is none."""
    body, body_end = _record_bounds(data, start, end, fault)
    if body_end < 0:
        return -1
    fields = _read_record(data, body, body_end, fault)
    key_length, key, after = fields[2], fields[3], fields[7]
    if after < 0 or key_length < _CONTROL_KEY_SIZE:
        return -1
    return data[key + 2] << 8 | data[key + 3]
