"""Records inside batches, as a compiled kernel: each is checked against hostile bytes and copied into columns.

A batch in which something is wrong, or for which there is no room, leaves the columns filled as far as they were
before it. What a single batch needs to the byte is found by reading it without copying.

Gaps between offset deltas are normal (compaction). Sources: see :mod:`directkafka.kafka.records.record`.
"""

# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments
from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from directkafka.kafka.kernels.compile import INT64, INT64S, copy, helper, kernel, unwrapped
from directkafka.kafka.records.record import (
    RECORD_SIZE_MIN,
    Corruption,
    Fields,
    read_record,
    record_bounds,
    report,
    span,
)
from directkafka.kafka.records.record_batch import Batch, batch_at
from directkafka.kafka.records.record_columns import (
    HEADER_COLUMNS_TYPE,
    RECORD_COLUMNS_TYPE,
    ROOM_TYPE,
    SOURCE_TYPE,
    BatchSlice,
    Capacity,
    HeaderColumns,
    OffsetWindow,
    RecordColumns,
    Source,
    Target,
    WriteCursor,
)

Int64s = np.ndarray[Any, np.dtype[np.int64]]

_LOG_APPEND_TIME = 1 << 3
_TIMESTAMP_MS_MAX = 9223372036854775807 // 1000
#: In place of a position: the columns are full. A corruption is -1.
_NO_ROOM = -2


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
def _set_null(validity: Any, row: int) -> None:
    """Clear a row's bit; bits are set when the buffer is made, for nulls are rarer than values."""
    validity[row >> 3] &= ~(1 << (row & 7))


@helper
def _copy_span(
    ends: Any, copied: Any, validity: Any, row: int, filled: int, data: Any, start: int, length: int
) -> None:
    """Append the bytes of one row, null when the length is -1."""
    ends[row + 1] = copy(copied, filled, data, start, length)
    if length < 0:
        _set_null(validity, row)


@helper
def _decode_headers(
    data: Any, start: int, end: int, count: int, to: Target, filled: WriteCursor, copying: bool, corruption: Any
) -> tuple[int, int, int, int, int]:
    """Check a record's headers, and append them.

    Returns:
        Headers, bytes of their keys, bytes of their values and null values as then filled, and the position after
        the last header, or a negative number.
    """
    header, key_at, value_at = filled.headers, filled.header_key_bytes, filled.header_value_bytes
    nulls, columns = filled.null_header_values, to.headers
    at = start
    for _ in range(count):
        key_length, key, at = span(data, at, end, False, Corruption.HEADER_KEY_LENGTH, corruption)
        if at < 0:
            break
        length, value, at = span(data, at, end, True, Corruption.HEADER_VALUE_LENGTH, corruption)
        if at < 0:
            break
        key_end, value_end = key_at + key_length, value_at + max(length, 0)
        if copying:
            if header == to.room.headers or max(key_end, value_end) > to.room.header_bytes:
                at = _NO_ROOM
                break
            columns.key_ends[header + 1] = copy(columns.key_bytes, key_at, data, key, key_length)
            _copy_span(
                columns.value_ends, columns.value_bytes, columns.value_validity, header, value_at, data, value, length
            )
        header += 1
        key_at, value_at = key_end, value_end
        nulls += length < 0
    return header, key_at, value_at, nulls, at


@helper
def _copy_record(
    data: Any, batch: Batch, record: Fields, timestamp: int, header: int, to: Target, filled: WriteCursor, headers: bool
) -> None:
    """Write one row; its headers are written, ``header`` is how many there are now."""
    row, columns = filled.rows, to.records
    columns.offsets[row] = batch.base_offset + record.offset_delta
    columns.timestamps[row] = timestamp
    columns.timestamp_types[row] = (batch.attributes & _LOG_APPEND_TIME) >> 3
    ends, copied, validity = columns.key_ends, columns.key_bytes, columns.key_validity
    _copy_span(ends, copied, validity, row, filled.key_bytes, data, record.key, record.key_length)
    ends, copied, validity = columns.value_ends, columns.value_bytes, columns.value_validity
    _copy_span(ends, copied, validity, row, filled.value_bytes, data, record.value, record.value_length)
    if headers:
        to.headers.list_ends[row + 1] = header
        if record.headers == 0:
            _set_null(to.headers.list_validity, row)


@helper
def _decode_record(
    data: Any,
    batch: Batch,
    start: int,
    end: int,
    wanted: OffsetWindow,
    to: Target,
    filled: WriteCursor,
    copying: bool,
    corruption: Any,
) -> tuple[WriteCursor, int, int]:
    """Check the record at ``start``, and append it when it is wanted.

    Returns:
        How far the columns are filled, the record's offset delta, and the position after it, or a negative number.
    """
    body, after = record_bounds(data, start, end, corruption)
    if after < 0:
        return filled, 0, after
    record = read_record(data, body, after, corruption)
    at, offset = record.end, batch.base_offset + record.offset_delta
    is_wanted = wanted.lower <= offset < wanted.upper
    header = header_key_at = header_value_at = header_nulls = 0
    if wanted.headers and at >= 0:
        header, header_key_at, header_value_at, header_nulls, at = _decode_headers(
            data, at, after, record.headers, to, filled, copying and is_wanted, corruption
        )
    if 0 <= at < after and (wanted.headers or record.headers == 0):
        at = report(corruption, Corruption.RECORD_TAIL, at, after - at, 0)
    if at < 0 or not is_wanted:
        return filled, record.offset_delta, at if at < 0 else after
    timestamp, fits = _timestamp_us(batch, record.timestamp_delta)
    if not fits:
        return filled, record.offset_delta, report(corruption, Corruption.TIMESTAMP, body, timestamp, offset)
    grown = WriteCursor(
        filled.rows + 1,
        filled.key_bytes + max(record.key_length, 0),
        filled.value_bytes + max(record.value_length, 0),
        header,
        header_key_at,
        header_value_at,
        filled.null_keys + (record.key_length < 0),
        filled.null_values + (record.value_length < 0),
        filled.rows_without_headers + (record.headers == 0),
        header_nulls,
    )
    if copying:
        if grown.rows > to.room.rows or grown.key_bytes + grown.value_bytes > to.room.record_bytes:
            return filled, record.offset_delta, _NO_ROOM
        _copy_record(data, batch, record, timestamp, header, to, filled, wanted.headers)
    return grown, record.offset_delta, after


@helper
def _decode_batch(
    data: Any,
    batch: Batch,
    start: int,
    end: int,
    wanted: OffsetWindow,
    to: Target,
    filled: WriteCursor,
    copying: bool,
    corruption: Any,
) -> tuple[WriteCursor, bool]:
    """Check a batch's records and append the wanted ones: how far the columns are filled, and whether all went well."""
    count = batch.record_count
    if not 0 <= count <= (end - start) // RECORD_SIZE_MIN:
        report(corruption, Corruption.RECORD_COUNT, start, count, end - start)
        return filled, False
    last_delta = batch.last_offset - batch.base_offset
    previous_delta = -1
    at = start
    for number in range(count):
        filled, delta, after = _decode_record(data, batch, at, end, wanted, to, filled, copying, corruption)
        if after >= 0 and not previous_delta < delta <= last_delta:
            after = report(corruption, Corruption.OFFSET_DELTA, at, delta, last_delta)
        if after < 0:
            corruption[4] = number
            return filled, False
        previous_delta = delta
        at = after
    if at != end:
        corruption[4] = max(count - 1, 0)
        report(corruption, Corruption.BATCH_TAIL, at, end - at, count)
    return filled, at == end


@helper
def _record_pointers(columns: RecordColumns) -> RecordColumns:
    return RecordColumns(
        unwrapped(columns.offsets),
        unwrapped(columns.timestamps),
        unwrapped(columns.timestamp_types),
        unwrapped(columns.key_ends),
        unwrapped(columns.key_bytes),
        unwrapped(columns.key_validity),
        unwrapped(columns.value_ends),
        unwrapped(columns.value_bytes),
        unwrapped(columns.value_validity),
    )


@helper
def _header_pointers(columns: HeaderColumns) -> HeaderColumns:
    return HeaderColumns(
        unwrapped(columns.list_ends),
        unwrapped(columns.list_validity),
        unwrapped(columns.key_ends),
        unwrapped(columns.key_bytes),
        unwrapped(columns.value_ends),
        unwrapped(columns.value_bytes),
        unwrapped(columns.value_validity),
    )


@kernel(INT64(SOURCE_TYPE, RECORD_COLUMNS_TYPE, HEADER_COLUMNS_TYPE, ROOM_TYPE, INT64, types.boolean, INT64S, INT64S))
def decode_run(
    source: Source,
    columns: RecordColumns,
    header_columns: HeaderColumns,
    room: Capacity,
    first: int,
    copying: bool,
    filled: Int64s,
    corruption: Int64s,
) -> int:
    """Decode the batches of a run, one after the other, while there is room and nothing is wrong.

    Args:
        source: the bytes, the batches and the wanted offsets.
        columns: out, with at least this much room; bitmaps with all bits set and ends beginning with 0 on entry.
        header_columns: out, likewise; left alone when headers are not wanted.
        room: how far the columns may be filled.
        first: the member of the run to begin with.
        copying: whether the columns are written. Without it one batch is read, to see what room it needs.
        filled: in and out, how far the columns are filled; a row as in :class:`WriteCursor`.
        corruption: out, see :mod:`directkafka.kafka.records.record`; zeros on entry.

    Returns:
        The member after the last one that was decoded. When that is not the run's end, it has a corruption, or, if
        there is none, no room; nothing of it counts as filled.
    """
    batches, run, wanted = source.batches, source.run, source.wanted
    records, scratch, problem = unwrapped(source.records), unwrapped(source.scratch), unwrapped(corruption)
    to = Target(_record_pointers(columns), _header_pointers(header_columns), room)
    so_far = WriteCursor(
        filled[0], filled[1], filled[2], filled[3], filled[4], filled[5], filled[6], filled[7], filled[8], filled[9]
    )  # fmt: skip
    number = first
    while number < run.shape[0]:
        member = BatchSlice(run[number, 0], run[number, 1], run[number, 2], run[number, 3])
        batch = batch_at(batches, member.index_row)
        data = scratch if member.codec else records
        after, well = _decode_batch(data, batch, member.start, member.end, wanted, to, so_far, copying, problem)
        if not well:
            corruption[1] -= member.start
            break
        so_far = after
        number += 1
        if not copying:
            break
    for column, count in enumerate(so_far):
        filled[column] = count
    return number
