"""The kernel that writes rows of columns in Avro's binary encoding: it runs a program for each row (:mod:`..encoding`).

It reads Arrow's buffers by address, through a table with a line for each column, and tells the row and the instruction
where a value has no encoding. When the room is used up, it says with which row to go on.
"""

# ruff: noqa: PLR0912, PLR0915, C901 - as numba compiles it best
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

#: Lists in one another.
SCOPES_MAX: Final = 52
#: Bytes that any instruction but :data:`BYTES` writes at most.
_ROOM: Final = 32
_DECIMAL_BYTES: Final = 16

#: Where the kernel tells how it ended: bytes written, what is wrong, the instruction.
WRITTEN: Final = 0
PROBLEM: Final = 1
INSTRUCTION: Final = 2
RESULT_FIELDS: Final = 3


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


@kernel(INT64(INT64, INT64S, INT64S, INT64, INT64, INT64, INT64, INT64, INT64S, INT64S, INT64S))
def write_records(  # noqa: PLR0917
    prefix: Any,
    lines: Any,
    column_table: Any,
    prefix_length: Any,
    row: Any,
    rows: Any,
    out: Any,
    room: Any,
    ends: Any,
    scopes: Any,
    result: Any,
) -> Any:
    """Write rows, each behind a prefix; of a null one nothing.

    Args:
        prefix: address of what stands before each row, ``prefix_length`` bytes.
        lines: the program.
        column_table: the columns.
        prefix_length: see there.
        row: the first row to write; ``rows``: the number behind the last one.
        rows: see there.
        out: address of ``room`` bytes; what is before ``ends[row]`` stays.
        room: see there.
        ends: receives the end of each row, one behind its number.
        scopes: room for the rows that are written in lists, and where these end.
        result: receives how it ended.

    Returns:
        The row to go on with: ``rows`` when all are written.
    """
    program, columns, at_rows = unwrapped(lines), unwrapped(column_table), unwrapped(scopes)
    while row < rows:
        at, limit = out + ends[row], out + room
        result[PROBLEM] = NOT_FOUND
        if not _is_valid(columns, 0, row):
            ends[row + 1] = ends[row]
            row += 1
            continue
        if at + prefix_length + _ROOM > limit:
            return row
        if prefix_length > 0:
            copy(at, prefix, prefix_length)
            at += prefix_length
        at_rows[0] = row
        line = 0
        while True:
            base = line * FIELDS
            operation, column = program[base + OPERATION], program[base + COLUMN]
            here = at_rows[2 * program[base + SCOPE]]
            if at + _ROOM > limit:
                return row
            if operation == END:
                break
            if operation == NULLABLE:
                if not _is_valid(columns, column, here):
                    at = _put_number(at, program[base + FIRST])
                    line = program[base + SECOND]
                    continue
            elif operation == REQUIRED:
                if not _is_valid(columns, column, here):
                    result[PROBLEM] = IS_NULL
            elif operation == NUMBER:
                value = _number(columns, column, here)
                if program[base + FIRST] == 32 and (value > 0x7FFFFFFF or value < -0x80000000):
                    result[PROBLEM] = TOO_LARGE
                at = _put_number(at, value)
            elif operation == BOOLEAN:
                bit = columns[column * COLUMN_FIELDS + FIRST_ROW] + here
                store8(at, (load8(columns[column * COLUMN_FIELDS + VALUES] + (bit >> 3)) >> (bit & 7)) & 1)
                at += 1
            elif operation == PLAIN:
                width = program[base + FIRST]
                source = columns[column * COLUMN_FIELDS + VALUES]
                source += (columns[column * COLUMN_FIELDS + FIRST_ROW] + here) * width
                if width == 8:
                    store64(at, load64(source))
                else:
                    store32(at, load32(source))
                at += width
            elif operation == BYTES:
                start = _end_of(columns, column, here)
                length = _end_of(columns, column, here + 1) - start
                wanted = program[base + FIRST]
                if wanted < 0:
                    at = _put_number(at, length)
                elif wanted != length:
                    result[PROBLEM] = OTHER_LENGTH
                if at + length + _ROOM > limit:
                    return row
                if length > 0:
                    copy(at, columns[column * COLUMN_FIELDS + VALUES] + start, length)
                at += length
            elif operation == DECIMAL:
                source = columns[column * COLUMN_FIELDS + VALUES]
                source += (columns[column * COLUMN_FIELDS + FIRST_ROW] + here) * _DECIMAL_BYTES
                length = _decimal_size(source)
                wanted = program[base + FIRST]
                if wanted < 0:
                    at = _put_number(at, length)
                    wanted = length
                elif length > wanted:
                    result[PROBLEM] = TOO_LARGE
                if at + wanted + _ROOM > limit:
                    return row
                filling = 255 * (load8(source + _DECIMAL_BYTES - 1) >> 7)
                for place in range(wanted):
                    digit = wanted - 1 - place
                    store8(at + place, load8(source + digit) if digit < _DECIMAL_BYTES else filling)
                at += wanted
            elif operation == SYMBOL:
                value = _number(columns, column, here)
                if value < 0:
                    result[PROBLEM] = NO_SYMBOL
                at = _put_number(at, value)
            elif operation == LIST:
                start, end = _end_of(columns, column, here), _end_of(columns, column, here + 1)
                if end == start:
                    store8(at, 0)
                    at += 1
                    line = program[base + FIRST]
                    continue
                at = _put_number(at, end - start)
                at_rows[2 * program[base + SECOND]] = start
                at_rows[2 * program[base + SECOND] + 1] = end
            elif operation == NEXT_ELEMENT:
                scope = 2 * program[base + SECOND]
                at_rows[scope] += 1
                if at_rows[scope] < at_rows[scope + 1]:
                    line = program[base + FIRST]
                    continue
                store8(at, 0)
                at += 1
            elif operation == UNION:
                chosen, count = -1, 0
                for alternative in range(program[base + FIRST]):
                    if _is_valid(columns, program[base + (alternative + 1) * FIELDS + COLUMN], here):
                        chosen = line + alternative + 1
                        count += 1
                if count == 1:
                    at = _put_number(at, program[chosen * FIELDS + SECOND])
                    line = program[chosen * FIELDS + FIRST]
                    continue
                result[PROBLEM] = NO_ALTERNATIVE
            elif operation == BRANCH:
                at = _put_number(at, program[base + FIRST])
            elif operation == JUMP:
                line = program[base + FIRST]
                continue
            if result[PROBLEM] != NOT_FOUND:
                result[INSTRUCTION] = line
                return row
            line += 1
        ends[row + 1] = at - out
        row += 1
    result[WRITTEN] = ends[rows]
    return row
