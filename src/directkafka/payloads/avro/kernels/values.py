"""Values of Avro's binary encoding in kernels: each into its column.

Every function gives the position behind the value, or what is wrong with it (:mod:`.numbers`).
"""

# ruff: noqa: PLR0917, PLR1714, SIM109 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

import numpy as np

from directkafka.kafka.kernels.addresses import (
    copy,
    load8,
    load32,
    load_float,
    store8,
    store32,
    store64,
    store_double,
    store_float,
)
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.avro.kernels.numbers import (
    NO_BOOLEAN,
    TOO_MANY_DIGITS,
    read_length,
    read_long,
)
from directkafka.payloads.avro.program import (
    BYTES,
    DOUBLE,
    FLOAT_TO_DOUBLE,
    INT,
    INT_TO_FLOAT,
    LONG,
    MOMENT,
    TEXT,
)
from directkafka.payloads.kernels.nodes import BYTES_MAX, ENDS, NEXT, VALIDITY, VALUES, of_node, set_valid
from directkafka.payloads.kernels.values import CUT_OFF, END_MAX, FULL, NO_ROOM, NO_UTF8, TOO_LARGE, is_utf8, put_bytes

_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
_LONG_MIN: Final = -(1 << 63)
_EXACT_MAX: Final = 1 << 53
_STICKY: Final = 0x800
_DECIMAL_BYTES: Final = 16


def _words(number: int) -> tuple[int, int]:
    """The halves of 128 bits, as signed numbers."""
    low = number & ((1 << 64) - 1)
    return number >> 64, low - (1 << 64) if low >> 63 else low


#: Of each number of digits, the first number that has more: its halves.
_BOUNDS_HIGH: Final = np.array([_words(10**digits)[0] for digits in range(39)], np.int64)
_BOUNDS_LOW: Final = np.array([_words(10**digits)[1] for digits in range(39)], np.int64)


@helper
def read_boolean(values: int, row: int, at: int, end: int) -> int:
    """One byte."""
    if at >= end:
        return CUT_OFF
    value = load8(at)
    if value > 1:
        return NO_BOOLEAN
    byte, bit = values + (row >> 3), 1 << (row & 7)
    store8(byte, load8(byte) | bit if value else load8(byte) & ~bit)
    return at + 1


@helper
def _nearest_float(number: int) -> float:
    """A number that a float is made of by one rounding: what a double does not hold is kept in one bit."""
    if -_EXACT_MAX <= number <= _EXACT_MAX:
        return float(number)
    rest = number & (_STICKY - 1)
    return float((number & ~(_STICKY - 1)) | (_STICKY if rest else 0))


@helper
def read_number(operation: int, values: int, row: int, at: int, end: int, factor: int, divisor: int) -> int:
    """An int or a long, as what the column has."""
    at, number = read_long(at, end)
    if at < 0:
        return at
    if operation == LONG:
        store64(values + 8 * row, number)
    elif operation == INT:
        if number < _INT_MIN or number > _INT_MAX:
            return TOO_LARGE
        store32(values + 4 * row, number)
    elif operation == MOMENT:
        moment = number * factor // divisor
        if divisor == 1 and moment // factor != number:
            return TOO_LARGE
        store64(values + 8 * row, moment)
    elif operation == INT_TO_FLOAT:
        store_float(values + 4 * row, _nearest_float(number))
    else:
        store_double(values + 8 * row, float(number))
    return at


@helper
def read_real(operation: int, values: int, row: int, at: int, end: int) -> int:
    """A float or a double, as what the column has."""
    size = 8 if operation == DOUBLE else 4
    if at + size > end:
        return CUT_OFF
    if operation == FLOAT_TO_DOUBLE:
        store_double(values + 8 * row, load_float(at))
    else:
        copy(values + size * row, at, size)
    return at + size


@helper
def read_bytes(nodes: Any, operation: int, node: int, row: int, at: int, end: int, size: int) -> int:
    """A text or bytes behind their length, or so many bytes."""
    length = size
    if operation == TEXT or operation == BYTES:
        at, length = read_length(at, end)
        if at < 0:
            return at
        if operation == TEXT and not is_utf8(at, at + length):
            return NO_UTF8
    elif at + length > end:
        return CUT_OFF
    problem = put_bytes(nodes, node, row, at, length)
    return problem if problem < 0 else at + length


@helper
def _is_below(high: int, low: int, digits: int) -> bool:
    """Whether 128 bits without a sign are a number of so many digits."""
    bound = _BOUNDS_HIGH[digits]
    if high != bound:
        return high < bound
    return (low ^ _LONG_MIN) < (_BOUNDS_LOW[digits] ^ _LONG_MIN)


@helper
def read_decimal(values: int, row: int, at: int, length: int, digits: int) -> int:
    """The two's complement of a decimal's digits, the highest byte first."""
    if length == 0:
        return CUT_OFF
    behind = at + length
    high = low = -(load8(at) >> 7)
    sign = high & 0xFF
    while behind - at > _DECIMAL_BYTES:
        if load8(at) != sign:
            return TOO_MANY_DIGITS
        at += 1
    while at < behind:
        high = (high << 8) | ((low >> 56) & 0xFF)
        low = (low << 8) | load8(at)
        at += 1
    if (high < 0) != (sign != 0):
        return TOO_MANY_DIGITS
    above, below = high, low
    if high < 0:
        below = -low
        above = ~high + (1 if low == 0 else 0)
    if above < 0 or not _is_below(above, below, digits):
        return TOO_MANY_DIGITS
    store64(values + 16 * row, low)
    store64(values + 16 * row + 8, high)
    return behind


@helper
def read_duration(nodes: Any, node: int, row: int, at: int, end: int) -> int:
    """Three unsigned numbers of four bytes, the lowest byte first, into the columns below."""
    if at + 12 > end:
        return CUT_OFF
    below = node + 1
    for _ in range(3):
        store64(of_node(nodes, below, VALUES) + 8 * row, load32(at) & 0xFFFFFFFF)
        set_valid(of_node(nodes, below, VALIDITY), row)
        below = of_node(nodes, below, NEXT)
        at += 4
    return at


@helper
def read_uuid(nodes: Any, node: int, row: int, at: int, end: int) -> int:
    """A UUID's 16 bytes, as its 36 characters."""
    if at + 16 > end:
        return CUT_OFF
    ends = of_node(nodes, node, ENDS) + 4 * row
    start = load32(ends)
    if start + 36 > of_node(nodes, node, BYTES_MAX):
        return NO_ROOM if start + 36 <= END_MAX else FULL
    to = of_node(nodes, node, VALUES) + start
    for index in range(16):
        if index in (4, 6, 8, 10):
            store8(to, 0x2D)
            to += 1
        byte = load8(at + index)
        for digit in (byte >> 4, byte & 15):
            store8(to, digit + (0x30 if digit < 10 else 0x57))
            to += 1
    store32(ends + 4, start + 36)
    return at + 16
