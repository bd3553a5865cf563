"""The kernel that writes rows of columns in Avro's binary encoding: it runs a program for each row (:mod:`..encoding`).

It reads Arrow's buffers by address, through a table with a line for each column, and tells the row and the instruction
where a value has no encoding. When the room is used up, it says with which row to go on.
"""

# ruff: noqa: PLR0911, PLR0912, PLR0917, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import copy, load8, load32, load64, store8, store32, store64
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
from directkafka.payloads.kernels.values import is_utf8

# Fields of an instruction: what is done; with which column; in which scope its row is; and two more numbers.
OPERATION: Final = 0
COLUMN: Final = 1
SCOPE: Final = 2
FIRST: Final = 3
SECOND: Final = 4
FIELDS: Final = 5

# Operations. The row is written.
END: Final = 0
#: If the value is null, branch FIRST is written, and the program goes on at SECOND.
NULLABLE: Final = 1
#: A value that must not be null.
REQUIRED: Final = 2
BOOLEAN: Final = 3
#: A whole number, of at most FIRST bits; a moment of microseconds that is written in SECOND times as many parts.
NUMBER: Final = 4
#: FIRST bytes as they lie in the column.
PLAIN: Final = 5
#: Bytes with their length before them; or, if FIRST is not below 0, just so many bytes.
BYTES: Final = 6
#: The same for a decimal of 16 bytes, the lowest first.
DECIMAL: Final = 7
#: The number of a symbol; below 0 it is none.
SYMBOL: Final = 8
#: A list or a map with its elements in scope SECOND; without any, go on at FIRST.
LIST: Final = 9
#: An element is written; the next one begins at FIRST, in scope SECOND.
NEXT_ELEMENT: Final = 10
#: A union: behind this are FIRST lines with the columns of its alternatives, where to go on for each in FIRST, and the
#: branch in SECOND.
UNION: Final = 11
JUMP: Final = 12
#: A line of :data:`UNION`.
ALTERNATIVE: Final = 13
#: The number FIRST is written: a branch of a union.
BRANCH: Final = 14
#: A number without a sign, in four bytes, the lowest first.
UNSIGNED: Final = 15
#: As :data:`BYTES`, of what must be UTF-8.
TEXT: Final = 16

# What is wrong with a value.
IS_NULL: Final = 1
TOO_LARGE: Final = 2
OTHER_LENGTH: Final = 3
NO_SYMBOL: Final = 4
NO_ALTERNATIVE: Final = 5
NO_UTF8: Final = 6
NOT_FOUND: Final = 0
#: In place of a position: there is no room.
NO_ROOM: Final = -1

LONG_MAX: Final = (1 << 63) - 1
#: Lists in one another.
SCOPES_MAX: Final = 52
#: Bytes that any instruction but :data:`BYTES` writes at most.
_ROOM: Final = 32
_DECIMAL_BYTES: Final = 16

#: Where the kernel tells what is wrong, and at which instruction.
PROBLEM: Final = 0
INSTRUCTION: Final = 1
RESULT_FIELDS: Final = 2


@helper
def _decimal_size(at: int) -> int:
    """The fewest bytes that a decimal's number takes, with its sign."""
    sign = load8(at + _DECIMAL_BYTES - 1) >> 7
    size = _DECIMAL_BYTES
    while size > 1 and load8(at + size - 1) == 255 * sign and load8(at + size - 2) >> 7 == sign:
        size -= 1
    return size


@helper
def _put_bytes(columns: Any, column: int, row: int, wanted: int, at: int, limit: int) -> tuple[int, int]:
    """A text or bytes: the position behind it, or -1 where there is no room; and what is wrong with it."""
    start = end_of(columns, column, row)
    length = end_of(columns, column, row + 1) - start
    if wanted < 0:
        at = put_varint(at, zigzag(length))
    elif wanted != length:
        return at, OTHER_LENGTH
    if at + length + _ROOM > limit:
        return NO_ROOM, NOT_FOUND
    if length > 0:
        copy(at, columns[column * COLUMN_FIELDS + VALUES] + start, length)
    return at + length, NOT_FOUND


@helper
def _put_decimal(columns: Any, column: int, row: int, wanted: int, at: int, limit: int) -> tuple[int, int]:
    """A decimal's number, the highest byte first; as :func:`_put_bytes`."""
    source = address_of(columns, column, row, _DECIMAL_BYTES)
    length = _decimal_size(source)
    if wanted < 0:
        at = put_varint(at, zigzag(length))
        wanted = length
    elif length > wanted:
        return at, TOO_LARGE
    if at + wanted + _ROOM > limit:
        return NO_ROOM, NOT_FOUND
    filling = 255 * (load8(source + _DECIMAL_BYTES - 1) >> 7)
    for index in range(wanted):
        digit = wanted - 1 - index
        store8(at + index, load8(source + digit) if digit < _DECIMAL_BYTES else filling)
    return at + wanted, NOT_FOUND


@helper
def _put_plain(columns: Any, column: int, row: int, width: int, at: int) -> int:
    """Four or eight bytes as they lie there; the position behind them."""
    source = address_of(columns, column, row, width)
    if width == 8:
        store64(at, load64(source))
    else:
        store32(at, load32(source))
    return at + width


@helper
def _put_value(columns: Any, program: Any, base: int, row: int, at: int, limit: int) -> tuple[int, int]:
    """A value without others below it; as :func:`_put_bytes`."""
    operation, column, wanted = program[base + OPERATION], program[base + COLUMN], program[base + FIRST]
    if operation == BYTES:
        return _put_bytes(columns, column, row, wanted, at, limit)
    if operation == TEXT:
        behind, problem = _put_bytes(columns, column, row, wanted, at, limit)
        length = end_of(columns, column, row + 1) - end_of(columns, column, row)
        if behind >= 0 and not is_utf8(behind - length, behind):
            problem = NO_UTF8
        return behind, problem
    if operation == DECIMAL:
        return _put_decimal(columns, column, row, wanted, at, limit)
    if operation == PLAIN:
        return _put_plain(columns, column, row, wanted, at), NOT_FOUND
    if operation == BOOLEAN:
        store8(at, bit_of(columns, column, row))
        return at + 1, NOT_FOUND
    value = number_of(columns, column, row)
    if operation == UNSIGNED:
        store32(at, value)
        return at + 4, NOT_FOUND if 0 <= value <= 0xFFFFFFFF else TOO_LARGE
    if operation == SYMBOL and value < 0:
        return at, NO_SYMBOL
    if operation == NUMBER and wanted == 32 and (value > 0x7FFFFFFF or value < -0x80000000):
        return at, TOO_LARGE
    parts = program[base + SECOND]
    if operation == NUMBER and parts > 1:
        if value > LONG_MAX // parts or value < -(LONG_MAX // parts):
            return at, TOO_LARGE
        value *= parts
    return put_varint(at, zigzag(value)), NOT_FOUND


@helper
def _alternative(columns: Any, program: Any, line: int, row: int) -> int:
    """The line of the one alternative of a union that is not null; 0: there is none, or there are several."""
    chosen, count = 0, 0
    for alternative in range(line + 1, line + 1 + program[line * FIELDS + FIRST]):
        if is_valid(columns, program[alternative * FIELDS + COLUMN], row):
            chosen = alternative
            count += 1
    return chosen if count == 1 else 0


@helper
def _put_row(program: Any, columns: Any, at_rows: Any, at: int, limit: int) -> tuple[int, int, int]:
    """Run the program for a row: the position behind it, or -1 where there is no room; the last line; what is wrong."""
    line, problem = 0, NOT_FOUND
    while problem == NOT_FOUND:
        base = line * FIELDS
        operation, column, first = program[base + OPERATION], program[base + COLUMN], program[base + FIRST]
        if operation == END:
            break
        if at + _ROOM > limit:
            return NO_ROOM, line, NOT_FOUND
        here, following = at_rows[2 * program[base + SCOPE]], line + 1
        if operation == NULLABLE:
            if not is_valid(columns, column, here):
                at, following = put_varint(at, zigzag(first)), program[base + SECOND]
        elif operation == REQUIRED:
            if not is_valid(columns, column, here):
                problem = IS_NULL
        elif operation == LIST:
            start, end = end_of(columns, column, here), end_of(columns, column, here + 1)
            at = put_varint(at, zigzag(end - start))
            if end == start:
                following = first
            at_rows[2 * program[base + SECOND]] = start
            at_rows[2 * program[base + SECOND] + 1] = end
        elif operation == NEXT_ELEMENT:
            scope = 2 * program[base + SECOND]
            at_rows[scope] += 1
            if at_rows[scope] < at_rows[scope + 1]:
                following = first
            else:
                at = put_varint(at, zigzag(0))
        elif operation == UNION:
            chosen = _alternative(columns, program, line, here)
            if chosen > 0:
                at, following = (
                    put_varint(at, zigzag(program[chosen * FIELDS + SECOND])),
                    program[chosen * FIELDS + FIRST],
                )
            else:
                problem = NO_ALTERNATIVE
        elif operation == BRANCH:
            at = put_varint(at, zigzag(first))
        elif operation == JUMP:
            following = first
        else:
            at, problem = _put_value(columns, program, base, here, at, limit)
            if at < 0:
                return NO_ROOM, line, NOT_FOUND
        if problem == NOT_FOUND:
            line = following
    return at, line, problem


@kernel(INT64(INT64, INT64S, INT64S, INT64, INT64, INT64, INT64, INT64, INT64S, INT64S, INT64S))
def write_records(
    prefix: Any, lines: Any, column_table: Any, prefix_length: Any, row: Any, rows: Any, out: Any, room: Any,
    ends: Any, scopes: Any, result: Any,
) -> Any:  # fmt: skip
    """Write rows, each behind a prefix; of a null one nothing.

    Args:
        prefix: address of what stands before each row, ``prefix_length`` bytes.
        lines, column_table: the program, and the columns.
        row: the first row to write; ``rows``: the number behind the last one.
        out: address of ``room`` bytes; what is before ``ends[row]`` stays.
        ends: receives the end of each row, one behind its number.
        scopes: room for the rows that are written in lists, and where these end.
        result: receives what is wrong, and at which instruction.

    Returns:
        The row to go on with: ``rows`` when all are written.
    """
    program, columns, at_rows = unwrapped(lines), unwrapped(column_table), unwrapped(scopes)
    limit = out + room
    while row < rows:
        ends[row + 1] = ends[row]
        if is_valid(columns, 0, row):
            at = out + ends[row]
            if at + prefix_length + _ROOM > limit:
                return row
            copy(at, prefix, prefix_length)
            at_rows[0] = row
            at, line, problem = _put_row(program, columns, at_rows, at + prefix_length, limit)
            if at < 0 or problem != NOT_FOUND:
                result[PROBLEM], result[INSTRUCTION] = problem, line
                return row
            ends[row + 1] = at - out
        row += 1
    return row
