"""The kernel that writes messages of Protocol Buffers: the fields of each row, one after the other.

A message in a message is bytes by then, and has a column of its own (:mod:`..encoder`). Source of the encoding:
https://protobuf.dev/programming-guides/encoding/.
"""

# ruff: noqa: PLR0917 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import copy, load32, load64, store32, store64
from directkafka.kafka.kernels.compile import INT64, INT64S, helper, kernel, unwrapped
from directkafka.payloads.kernels.arrow_columns import (
    COLUMN_FIELDS,
    VALUES,
    address_of,
    bit_of,
    end_of,
    is_valid,
    number_of,
    put_varint,
    zigzag,
)

# Fields of a line, one for each field of the message: the field's number with its wire type; what is written; the
# column; the list or map that the column is below, or -1; whether the numbers of a list stand behind one length;
# whether a zero or an empty text is left out.
TAG: Final = 0
OPERATION: Final = 1
COLUMN: Final = 2
LIST: Final = 3
IS_PACKED: Final = 4
SKIPS_DEFAULT: Final = 5
FIELDS: Final = 6

VARINT: Final = 0
ZIGZAG: Final = 1
BOOL: Final = 2
FIXED32: Final = 3
FIXED64: Final = 4
#: Bytes behind their length: texts, and messages.
BYTES: Final = 5
#: A message between its tag and another one.
GROUP: Final = 6

#: Bytes that anything but :data:`BYTES` takes at most, with its tag.
_ROOM: Final = 32
NO_ROOM: Final = -1
#: In place of a row: the number of a field whose list or map has a null in it, behind :data:`RESULT`.
IS_NULL: Final = -2
#: The column of the rows themselves.
ROOT: Final = 0


@helper
def _value(columns: Any, operation: int, column: int, row: int) -> int:
    """A number as its 64 bits: those of a double, or of a float's 32; of bytes their length."""
    if operation >= BYTES:
        return end_of(columns, column, row + 1) - end_of(columns, column, row)
    if operation == BOOL:
        return bit_of(columns, column, row)
    if operation == FIXED64:
        wide: int = load64(address_of(columns, column, row, 8))
        return wide
    if operation == FIXED32:
        narrow: int = load32(address_of(columns, column, row, 4))
        return narrow
    value = number_of(columns, column, row)
    return zigzag(value) if operation == ZIGZAG else value


@helper
def _size(operation: int, value: int) -> int:
    """How many bytes a number takes."""
    if operation == FIXED32:
        return 4
    if operation == FIXED64:
        return 8
    size = 1
    while value & ~0x7F:
        value = (value >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@helper
def _put(columns: Any, lines: Any, base: int, row: int, at: int, limit: int) -> int:
    """A value without the tag before it; the position behind it, or that there is no room."""
    operation, column = lines[base + OPERATION], lines[base + COLUMN]
    value = _value(columns, operation, column, row)
    if operation == FIXED32:
        store32(at, value)
        return at + 4
    if operation == FIXED64:
        store64(at, value)
        return at + 8
    if operation != GROUP:
        at = put_varint(at, value)
    if operation < BYTES:
        return at
    if at + value + _ROOM > limit:
        return NO_ROOM
    if value > 0:
        copy(at, columns[column * COLUMN_FIELDS + VALUES] + end_of(columns, column, row), value)
    at += value
    return put_varint(at, lines[base + TAG] + 1) if operation == GROUP else at


@helper
def _put_list(columns: Any, lines: Any, base: int, row: int, at: int, limit: int) -> int:
    """The elements of a row's list; the position behind them, that there is no room, or a null among them."""
    operation, column, outer = lines[base + OPERATION], lines[base + COLUMN], lines[base + LIST]
    start, end = end_of(columns, outer, row), end_of(columns, outer, row + 1)
    size = 0
    for element in range(start, end):
        if not is_valid(columns, column, element):
            return IS_NULL
        if lines[base + IS_PACKED]:
            size += _size(operation, _value(columns, operation, column, element))
    if lines[base + IS_PACKED] and end > start:
        at = put_varint(put_varint(at, lines[base + TAG]), size)
    for element in range(start, end):
        if at + _ROOM > limit:
            return NO_ROOM
        if not lines[base + IS_PACKED]:
            at = put_varint(at, lines[base + TAG])
        at = _put(columns, lines, base, element, at, limit)
        if at < 0:
            return at
    return at


@helper
def _put_field(columns: Any, lines: Any, base: int, row: int, at: int, limit: int) -> int:
    """A field of a row; the position behind it, that there is no room, or a null in its list."""
    operation, column, outer = lines[base + OPERATION], lines[base + COLUMN], lines[base + LIST]
    if not is_valid(columns, outer if outer >= 0 else column, row):
        return at
    if outer >= 0:
        return _put_list(columns, lines, base, row, at, limit)
    if lines[base + SKIPS_DEFAULT] and _value(columns, operation, column, row) == 0:
        return at
    return _put(columns, lines, base, row, put_varint(at, lines[base + TAG]), limit)


@kernel(INT64(INT64, INT64, INT64S, INT64S, INT64, INT64, INT64, INT64, INT64S, INT64S))
def write_messages(
    prefix: Any,
    prefix_length: Any,
    field_lines: Any,
    column_table: Any,
    row: Any,
    rows: Any,
    out: Any,
    room: Any,
    ends: Any,
    result: Any,
) -> Any:
    """Write rows, each behind a prefix; of a null one nothing.

    Args:
        prefix: address of what stands before each row, ``prefix_length`` bytes.
        field_lines, column_table: the fields, and the columns; the first column is the rows themselves.
        row: the first row to write; ``rows``: the number behind the last one.
        out: address of ``room`` bytes; what is before ``ends[row]`` stays.
        ends: receives the end of each row, one behind its number.
        result: receives the line of a field whose list has a null in it, or -1.

    Returns:
        The row to go on with: ``rows`` when all are written.
    """
    lines, columns = unwrapped(field_lines), unwrapped(column_table)
    count, limit = len(field_lines), out + room
    result[0] = -1
    while row < rows:
        ends[row + 1] = ends[row]
        if is_valid(columns, ROOT, row):
            at = out + ends[row]
            if at + prefix_length + _ROOM > limit:
                return row
            copy(at, prefix, prefix_length)
            at += prefix_length
            for base in range(0, count, FIELDS):
                if at + _ROOM > limit:
                    return row
                at = _put_field(columns, lines, base, row, at, limit)
                if at < 0:
                    result[0] = base // FIELDS if at == IS_NULL else -1
                    return row
            ends[row + 1] = at - out
        row += 1
    return row
