"""Columns of Arrow arrays as kernels read them that write records: a table with a line for each, by address.

The arrays must be kept as long as the kernel runs, and every offset that it is given lies in them.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from directkafka.kafka.kernels.addresses import load8, load32, load64, store8
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.arrow_types import is_text

# Fields of a column: addresses of values, of the ends of texts and lists, of the validity bitmap (0: nothing is null);
# the number of the first row in them; bytes of a value; bytes of an end.
VALUES: Final = 0
ENDS: Final = 1
VALIDITY: Final = 2
FIRST_ROW: Final = 3
WIDTH: Final = 4
END_WIDTH: Final = 5
COLUMN_FIELDS: Final = 6


def column_line(made: pa.Array, original: pa.Array) -> list[int]:
    """A line of the table.

    Args:
        made: what the kernel reads.
        original: what says which rows are null; it begins with the same row of its buffers.
    """
    buffers = [None if buffer is None else buffer.address for buffer in made.buffers()]
    validity = original.buffers()[0] if original.null_count else None
    kind, values, ends, width, end_width = made.type, 0, 0, 0, 0
    if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_large_list(kind):
        ends, end_width = buffers[1] or 0, 8 if pa.types.is_large_list(kind) else 4
    elif is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        ends, end_width, values = buffers[1] or 0, 8 if is_large else 4, buffers[2] or 0
    elif not pa.types.is_struct(kind):
        values, width = buffers[1] or 0, max(1, kind.bit_width // 8)
    return [values, ends, 0 if validity is None else validity.address, made.offset, width, end_width]


@helper
def is_valid(columns: Any, column: int, row: int) -> bool:
    """Whether a column's row is not null."""
    validity = columns[column * COLUMN_FIELDS + VALIDITY]
    if validity == 0:
        return True
    bit = columns[column * COLUMN_FIELDS + FIRST_ROW] + row
    return bool((load8(validity + (bit >> 3)) >> (bit & 7)) & 1)


@helper
def address_of(columns: Any, column: int, row: int, width: int) -> int:
    """Where a column's row of ``width`` bytes lies."""
    base = column * COLUMN_FIELDS
    address: int = columns[base + VALUES] + (columns[base + FIRST_ROW] + row) * width
    return address


@helper
def bit_of(columns: Any, column: int, row: int) -> int:
    """A truth value, which is a bit."""
    bit = columns[column * COLUMN_FIELDS + FIRST_ROW] + row
    value: int = (load8(columns[column * COLUMN_FIELDS + VALUES] + (bit >> 3)) >> (bit & 7)) & 1
    return value


@helper
def number_of(columns: Any, column: int, row: int) -> int:
    """A whole number of 1, 4 or 8 bytes."""
    width = columns[column * COLUMN_FIELDS + WIDTH]
    at = address_of(columns, column, row, width)
    number: int = load64(at) if width == 8 else load32(at)
    return number


@helper
def end_of(columns: Any, column: int, row: int) -> int:
    """Where the text or the list before a row ends."""
    width = columns[column * COLUMN_FIELDS + END_WIDTH]
    at = columns[column * COLUMN_FIELDS + ENDS] + (columns[column * COLUMN_FIELDS + FIRST_ROW] + row) * width
    end: int = load64(at) if width == 8 else load32(at)
    return end


@helper
def put_varint(at: int, value: int) -> int:
    """The 64 bits of a number, seven a byte; the position behind them."""
    while value & ~0x7F:
        store8(at, (value & 0x7F) | 0x80)
        at += 1
        value = (value >> 7) & 0x01FFFFFFFFFFFFFF
    store8(at, value)
    return at + 1


@helper
def zigzag(value: int) -> int:
    """A number with its sign in the lowest bit."""
    return (value << 1) ^ (value >> 63)
