"""The kernel that writes rows of columns in Avro's binary encoding: it runs a program for each row (:mod:`..encoding`).

It reads Arrow's buffers by address, through a table with a line for each column, and tells the row and the instruction
where a value has no encoding. When the room is used up, it says with which row to go on.
"""

# ruff: noqa: PLR0911, PLR0912, PLR0917, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import copy, load8, load32, load64, store8, store32, store64
from directkafka.kafka.kernels.compile import INT64, INT64S, helper, kernel, unwrapped

# Fields of a column: addresses of values, of the ends of texts and lists, of the validity bitmap (0: nothing is null);
# the number of the first row in them; bytes of a value; bytes of an end.
VALUES: Final = 0
ENDS: Final = 1
VALIDITY: Final = 2
FIRST_ROW: Final = 3
WIDTH: Final = 4
END_WIDTH: Final = 5
COLUMN_FIELDS: Final = 6

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
#: A whole number, of at most FIRST bits.
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

# What is wrong with a value.
IS_NULL: Final = 1
TOO_LARGE: Final = 2
OTHER_LENGTH: Final = 3
NO_SYMBOL: Final = 4
NO_ALTERNATIVE: Final = 5
NOT_FOUND: Final = 0
#: In place of a position: there is no room.
NO_ROOM: Final = -1

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
def _is_valid(columns: Any, column: int, row: int) -> bool:
    """Whether a column's row is not null."""
    validity = columns[column * COLUMN_FIELDS + VALIDITY]
    if validity == 0:
        return True
    bit = columns[column * COLUMN_FIELDS + FIRST_ROW] + row
    return bool((load8(validity + (bit >> 3)) >> (bit & 7)) & 1)


@helper
def _put_number(at: int, value: int) -> int:
    """A number in zig-zag, seven bits a byte; the position behind it."""
    rest = (value << 1) ^ (value >> 63)
    while rest & ~0x7F:
        store8(at, (rest & 0x7F) | 0x80)
        at += 1
        rest = (rest >> 7) & 0x01FFFFFFFFFFFFFF
    store8(at, rest)
    return at + 1


@helper
def _number(columns: Any, column: int, row: int) -> int:
    """A whole number of 1, 4 or 8 bytes."""
    width = columns[column * COLUMN_FIELDS + WIDTH]
    at = columns[column * COLUMN_FIELDS + VALUES] + (columns[column * COLUMN_FIELDS + FIRST_ROW] + row) * width
    found: int = load64(at) if width == 8 else load32(at)
    return found


@helper
def _end_of(columns: Any, column: int, row: int) -> int:
    """Where the text or the list before a row ends."""
    width = columns[column * COLUMN_FIELDS + END_WIDTH]
    at = columns[column * COLUMN_FIELDS + ENDS] + (columns[column * COLUMN_FIELDS + FIRST_ROW] + row) * width
    found: int = load64(at) if width == 8 else load32(at)
    return found


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
    start = _end_of(columns, column, row)
    length = _end_of(columns, column, row + 1) - start
    if wanted < 0:
        at = _put_number(at, length)
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
    source = columns[column * COLUMN_FIELDS + VALUES]
    source += (columns[column * COLUMN_FIELDS + FIRST_ROW] + row) * _DECIMAL_BYTES
    length = _decimal_size(source)
    if wanted < 0:
        at = _put_number(at, length)
        wanted = length
    elif length > wanted:
        return at, TOO_LARGE
    if at + wanted + _ROOM > limit:
        return NO_ROOM, NOT_FOUND
    filling = 255 * (load8(source + _DECIMAL_BYTES - 1) >> 7)
    for place in range(wanted):
        digit = wanted - 1 - place
        store8(at + place, load8(source + digit) if digit < _DECIMAL_BYTES else filling)
    return at + wanted, NOT_FOUND


@helper
def _put_plain(columns: Any, column: int, row: int, width: int, at: int) -> int:
    """Four or eight bytes as they lie there; the position behind them."""
    source = columns[column * COLUMN_FIELDS + VALUES]
    source += (columns[column * COLUMN_FIELDS + FIRST_ROW] + row) * width
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
    if operation == DECIMAL:
        return _put_decimal(columns, column, row, wanted, at, limit)
    if operation == PLAIN:
        return _put_plain(columns, column, row, wanted, at), NOT_FOUND
    if operation == BOOLEAN:
        bit = columns[column * COLUMN_FIELDS + FIRST_ROW] + row
        store8(at, (load8(columns[column * COLUMN_FIELDS + VALUES] + (bit >> 3)) >> (bit & 7)) & 1)
        return at + 1, NOT_FOUND
    value = _number(columns, column, row)
    if operation == SYMBOL and value < 0:
        return at, NO_SYMBOL
    if operation == NUMBER and wanted == 32 and (value > 0x7FFFFFFF or value < -0x80000000):
        return at, TOO_LARGE
    return _put_number(at, value), NOT_FOUND


@helper
def _alternative(columns: Any, program: Any, line: int, row: int) -> int:
    """The line of the one alternative of a union that is not null; 0: there is none, or there are several."""
    chosen, count = 0, 0
    for alternative in range(line + 1, line + 1 + program[line * FIELDS + FIRST]):
        if _is_valid(columns, program[alternative * FIELDS + COLUMN], row):
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
            if not _is_valid(columns, column, here):
                at, following = _put_number(at, first), program[base + SECOND]
        elif operation == REQUIRED:
            if not _is_valid(columns, column, here):
                problem = IS_NULL
        elif operation == LIST:
            start, end = _end_of(columns, column, here), _end_of(columns, column, here + 1)
            at = _put_number(at, end - start)
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
                at = _put_number(at, 0)
        elif operation == UNION:
            chosen = _alternative(columns, program, line, here)
            if chosen > 0:
                at, following = _put_number(at, program[chosen * FIELDS + SECOND]), program[chosen * FIELDS + FIRST]
            else:
                problem = NO_ALTERNATIVE
        elif operation == BRANCH:
            at = _put_number(at, first)
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
        if _is_valid(columns, 0, row):
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
