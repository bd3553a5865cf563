"""Values that are neither objects nor arrays, in kernels: each into its column, by the type of its field."""

# ruff: noqa: PLR0917, PLR0911, PLR1714, SIM109, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import (
    SCANNED,
    load8,
    load32,
    store8,
    store16,
    store32,
    store64,
    store_double,
    store_float,
)
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.json.kernels.characters import (
    ALSE,
    LEFT,
    MINUS,
    NO_ROOM,
    NULL,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    SMALL_F,
    TRUE,
    ZERO,
    copy_string,
    skip_string,
)
from directkafka.payloads.json.kernels.copies import copy_scope
from directkafka.payloads.json.kernels.moments import read_date, read_timestamp
from directkafka.payloads.json.kernels.numbers import (
    DIGITS_MAX,
    EXACT_MAX,
    FLOAT_MIN,
    POWERS,
    TENS,
    is_tie,
    is_written_so,
    nearest_double,
    read_number,
)
from directkafka.payloads.kernels.nodes import (
    BINARY,
    BOOL,
    BOUND,
    BYTES_MAX,
    DATE,
    DECIMAL,
    DOUBLE,
    ENDS,
    FLOAT,
    INT16,
    INT32,
    INT64,
    KIND,
    LIST,
    LOCAL_TIMESTAMP,
    MAP,
    SCALE,
    STRING,
    STRUCT,
    TIMESTAMP,
    VALUES,
    of_node,
)

_LONG_MIN: Final = -(1 << 63)


@helper
def _read_text(nodes: Any, node: int, row: int, at: int, end: int) -> int:
    """A string, or what becomes a text of its own: words, numbers that are written as they came, and scopes."""
    values, ends, byte = of_node(nodes, node, VALUES), of_node(nodes, node, ENDS) + 4 * row, load8(at)
    start = load32(ends)
    if byte == QUOTE:
        at, length = copy_string(at + 1, end, values + start, of_node(nodes, node, BYTES_MAX) - start)
        if at >= 0:
            store32(ends + 4, start + length)
        return at
    if byte == OPEN_OBJECT or byte == OPEN_ARRAY:
        at, length = copy_scope(at, end, values + start, of_node(nodes, node, BYTES_MAX) - start)
        if at >= 0:
            store32(ends + 4, start + length)
        return at
    first = at
    if load32(at) == TRUE:
        at += 4
    elif byte == SMALL_F and load32(at + 1) == ALSE:
        at += 5
    else:
        at, value, power, negative, real, holds_all = read_number(at, end)
        if at < 0 or not is_written_so(first, at, value, power, negative, real, holds_all):
            return LEFT
    length = at - first
    if at > end:
        return LEFT
    if start + length + SCANNED > of_node(nodes, node, BYTES_MAX):
        return NO_ROOM
    for index in range(length):
        store8(values + start + index, load8(first + index))
    store32(ends + 4, start + length)
    return at


@helper
def _read_boolean(values: int, row: int, at: int) -> int:
    byte, bit = values + (row >> 3), 1 << (row & 7)
    if load32(at) == TRUE:
        store8(byte, load8(byte) | bit)
        return at + 4
    if load8(at) == SMALL_F and load32(at + 1) == ALSE:
        store8(byte, load8(byte) & ~bit)
        return at + 5
    return LEFT


@helper
def _read_seconds(values: int, row: int, at: int, end: int) -> int:
    """A timestamp as a number of seconds; too many of them overflow silently, as in Spark."""
    at, value, _power, negative, real, holds_all = read_number(at, end)
    if at < 0 or real or not holds_all:
        return LEFT
    store64(values + 8 * row, (-value if negative else value) * 1_000_000)
    return at


@helper
def _read_moment(values: int, kind: int, row: int, at: int, end: int, offset_us: int) -> int:
    if load8(at) != QUOTE:
        return _read_seconds(values, row, at, end) if kind == TIMESTAMP else LEFT
    if kind == DATE:
        at, days = read_date(at + 1, end)
        if at < 0 or load8(at) != QUOTE:
            return LEFT
        store32(values + 4 * row, days)
        return at + 1
    at, moment = read_timestamp(at + 1, end, offset_us, kind == LOCAL_TIMESTAMP)
    store64(values + 8 * row, moment)
    return at


@helper
def _put_real(values: int, kind: int, row: int, value: int, power: int, negative: int, real: int) -> bool:
    """A double or a float into its column; false where a float must be read from the digits again."""
    if power == 0:
        number = float(value)
    elif value < EXACT_MAX and -22 <= power <= 22:
        # Both are exact, and so the one operation is rounded rightly (Clinger 1990).
        number = float(value) / POWERS[-power] if power < 0 else float(value) * POWERS[power]
    else:
        number = nearest_double(value, power)
    if negative and (real or value):
        number = -number
    if kind == DOUBLE:
        store_double(values + 8 * row, number)
        return True
    # The double was rounded. Where it is half way between two floats, or these are near to 0, that may show.
    if power and (is_tie(number) or (value and abs(number) < FLOAT_MIN)):
        return False
    store_float(values + 4 * row, number)
    return True


@helper
def _put_decimal(nodes: Any, node: int, row: int, value: int, power: int, negative: int) -> bool:
    """A decimal of at most 18 digits into its column; false where it is none."""
    places = of_node(nodes, node, SCALE) + power
    if places < 0 or places > DIGITS_MAX:
        return False
    if places > 0:
        if value >= TENS[DIGITS_MAX - places]:
            return False
        value *= TENS[places]
    if value >= of_node(nodes, node, BOUND):
        return False
    if negative:
        value = -value
    to = of_node(nodes, node, VALUES) + 16 * row
    store64(to, value)
    store64(to + 8, value >> 63)
    return True


@helper
def _put_integer(values: int, kind: int, row: int, value: int) -> bool:
    """An integer into its column; false where it does not fit."""
    if kind == INT64:
        store64(values + 8 * row, value)
        return True
    if kind == INT32:
        if value < -2147483648 or value > 2147483647:
            return False
        store32(values + 4 * row, value)
        return True
    if kind == INT16:
        if value < -32768 or value > 32767:
            return False
        store16(values + 2 * row, value)
        return True
    # As in Java, whose bytes may be given without a sign.
    if value < -128 or value > 255:
        return False
    store8(values + row, value)
    return True


@helper
def read_scalar(nodes: Any, node: int, row: int, at: int, end: int, offset_us: int) -> int:
    """A value that is neither object nor array nor null, into its column; the position behind it."""
    kind, values = of_node(nodes, node, KIND), of_node(nodes, node, VALUES)
    if kind == STRING:
        return _read_text(nodes, node, row, at, end)
    if kind == BOOL:
        return _read_boolean(values, row, at)
    if kind == TIMESTAMP or kind == LOCAL_TIMESTAMP or kind == DATE:
        return _read_moment(values, kind, row, at, end, offset_us)
    if kind == BINARY or kind == STRUCT or kind == LIST or kind == MAP:
        return LEFT
    quoted = kind == DECIMAL and load8(at) == QUOTE
    first = at + 1 if quoted else at
    at, value, power, negative, real, holds_all = read_number(first, end)
    if at < 0:
        return LEFT
    if not holds_all:
        # 19 digits are below 2**64; from 2**63 on they are negative here.
        is_long = value >= 0 or (negative and value == _LONG_MIN)
        if kind != INT64 or real or at - first - negative > DIGITS_MAX + 1 or not is_long:
            return LEFT
        store64(values + 8 * row, -value if negative else value)
        return at
    if kind == DOUBLE or kind == FLOAT:
        fits = _put_real(values, kind, row, value, power, negative, real)
    elif kind == DECIMAL:
        fits = _put_decimal(nodes, node, row, value, power, negative)
        if quoted:
            fits = fits and load8(at) == QUOTE
            at += 1
    else:
        fits = not real and _put_integer(values, kind, row, -value if negative else value)
    return at if fits else LEFT


@helper
def skip_scalar(at: int, end: int) -> int:
    """The position behind a value that no field is declared for, and that is neither object nor array."""
    byte = load8(at)
    if byte == QUOTE:
        return skip_string(at + 1, end)
    if byte == 0x74:
        return at + 4 if load32(at) == TRUE else LEFT
    if byte == SMALL_F:
        return at + 5 if load32(at + 1) == ALSE else LEFT
    if byte == 0x6E:
        return at + 4 if load32(at) == NULL else LEFT
    if byte == MINUS or ZERO <= byte <= 0x39:
        at, _value, _power, _negative, _real, _holds_all = read_number(at, end)
        return at
    return LEFT
