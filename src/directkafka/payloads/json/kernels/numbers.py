"""Numbers of JSON in kernels: digits to integers and powers of ten, and these to doubles, rounded to the nearest."""

# ruff: noqa: PLR0917, PLR1714, SIM109, SIM102, C901 - as numba compiles it best
from __future__ import annotations

from typing import Final

import numpy as np

from directkafka.kafka.kernels.addresses import bits_of, double_of, leading_zeros, load8, multiply_high
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.json.kernels.characters import LEFT, MINUS, NINE, PLUS, POINT, ZERO

#: More digits may leave 64 bits.
DIGITS_MAX: Final = 18
#: Below it, a double has every integer.
EXACT_MAX: Final = 1 << 53
#: The powers of ten that a double has exactly.
POWERS: Final = np.array([float(10**power) for power in range(23)])
TENS: Final = np.array([10**power for power in range(19)], dtype=np.int64)

NUMBER_LENGTH_MAX: Final = 1000
#: The least float that has all its bits.
FLOAT_MIN: Final = 1.1754943508222875e-38

#: Every double gives back 15 digits.
_JAVA_DIGITS_END: Final = 10**15
#: Java writes a number with so many digits before the point without an exponent.
_JAVA_WHOLE_DIGITS_MAX: Final = 7

_POWER_MIN: Final = -342
_POWER_MAX: Final = 308
_HIDDEN_BIT: Final = np.uint64(1 << 52)
_MANTISSA: Final = np.uint64((1 << 52) - 1)
#: The low bits of a product that does not say yet how it is to be rounded.
_UNDECIDED: Final = np.uint64(0x1FF)


def _five(power: int) -> int:
    """The first 128 bits of a power of five; of its inverse they are rounded up."""
    number = 5 ** abs(power)
    length = number.bit_length()
    if power >= 0:
        return number << 128 - length if length <= 128 else number >> length - 128
    inverse = (1 << length + 127) // number + 1
    return inverse >> inverse.bit_length() - 128


_FIVES: Final = np.array(
    [[_five(power) >> 64, _five(power) & (1 << 64) - 1] for power in range(_POWER_MIN, _POWER_MAX + 1)], np.uint64
)


@helper
def read_digits(at: int, end: int, value: int) -> tuple[int, int]:
    """The number that digits behind those of a value stand for, while they are few, and the position behind them."""
    while at < end:
        digit = load8(at) - ZERO
        if digit < 0 or digit > 9:
            break
        value = value * 10 + digit
        at += 1
    return value, at


@helper
def _significant(start: int, count: int) -> int:
    """How many of a number's digits there are from the first one on that is not 0."""
    at = start
    while count > 0:
        byte = load8(at)
        if byte != ZERO and byte != POINT:
            break
        count -= byte == ZERO
        at += 1
    return count


@helper
def read_number(at: int, end: int) -> tuple[int, int, int, int, int, bool]:
    """A number, of any length.

    Returns:
        The position behind it, its digits as one integer, a power of ten, whether it is negative, whether it is real,
        and whether the integer holds all digits.
    """
    negative = 0
    if load8(at) == MINUS:
        negative = 1
        at += 1
    start = at
    value, at = read_digits(at, end, 0)
    length = count = at - start
    if count == 0 or at >= end or (count > 1 and load8(start) == ZERO):
        return LEFT, 0, 0, 0, 0, False
    power, real = 0, 0
    byte = load8(at)
    if byte == POINT:
        real = 1
        first = at + 1
        value, at = read_digits(first, end, value)
        if at == first or at >= end:
            return LEFT, 0, 0, 0, 0, False
        power = first - at
        count += at - first
        length = count
        byte = load8(at)
    if byte == 0x65 or byte == 0x45:
        real = 1
        at += 1
        sign = load8(at)
        if sign == MINUS or sign == PLUS:
            at += 1
        first = at
        exponent, at = read_digits(at, end, 0)
        if at == first or at - first > 4 or at >= end:
            return LEFT, 0, 0, 0, 0, False
        power += -exponent if sign == MINUS else exponent
        length += at - first
    holds_all = count <= DIGITS_MAX or _significant(start, count) <= DIGITS_MAX
    if length > NUMBER_LENGTH_MAX:
        return LEFT, 0, 0, 0, 0, False
    return at, value, power, negative, real, holds_all


@helper
def _is_java_s_own(first: int, behind: int, digits: int, power: int) -> bool:
    """Whether a real number is written as ``Double.toString`` writes it.

    That is so for at most 15 digits, which every double gives back, without an exponent, from 0.001 to 10 million, and
    with no more zeros at its end than the one behind the point.

    Args:
        first, behind: the positions of its first character and behind its last one.
        digits: all of them as one integer.
        power: of ten.
    """
    if load8(first) == MINUS:
        first += 1
    # Where there is an exponent, this is not the point's place, or the digits behind it are followed by an e.
    point = behind - 1 + power
    if power >= 0 or power < -DIGITS_MAX or point <= first or load8(point) != POINT:
        return False
    for at in range(point + 1, behind):
        if load8(at) > NINE:  # the e
            return False
    if digits >= _JAVA_DIGITS_END or (load8(behind - 1) == ZERO and power != -1):
        return False
    if load8(first) != ZERO:
        return point - first <= _JAVA_WHOLE_DIGITS_MAX
    return digits == 0 or power > -4 or digits >= TENS[-3 - power]


@helper
def is_written_so(first: int, behind: int, digits: int, power: int, negative: int, real: int, holds_all: bool) -> bool:
    """Whether a number that becomes a text surely stays as it is: an integer but -0, or a real of Java's usual form."""
    if real:
        return holds_all and _is_java_s_own(first, behind, digits, power)
    return not (negative and digits == 0 and holds_all)


@helper
def nearest_double(value: int, power: int) -> float:
    """The double nearest to ``value * 10**power``, for a value above 0 that has all its digits.

    Source: D. Lemire, "Number Parsing at a Gigabyte per Second" (2021), whose proof covers 64 bits of digits.
    """
    if value == 0 or power < _POWER_MIN:
        return 0.0
    if power > _POWER_MAX:
        return np.inf
    shift = leading_zeros(value)
    digits = np.uint64(value) << np.uint64(shift)
    low, high = digits * _FIVES[power - _POWER_MIN, 0], multiply_high(digits, _FIVES[power - _POWER_MIN, 0])
    if high & _UNDECIDED == _UNDECIDED:
        more = multiply_high(digits, _FIVES[power - _POWER_MIN, 1])
        low = low + more
        if low < more:
            high = high + np.uint64(1)
    upper = high >> np.uint64(63)
    mantissa = high >> (upper + np.uint64(9))
    exponent = ((217_706 * power) >> 16) + 63 + np.int64(upper) - shift + 1023
    if exponent <= 0:
        if exponent < -62:
            return 0.0
        mantissa = mantissa >> np.uint64(1 - exponent)
        mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
        exponent = np.int64(0) if mantissa < _HIDDEN_BIT else np.int64(1)
        return double_of(np.int64(mantissa & _MANTISSA) | (exponent << 52))
    # A tie between two doubles goes to the even one; it can only be one for these powers.
    if low <= np.uint64(1) and -4 <= power <= 23 and mantissa & np.uint64(3) == np.uint64(1):
        if mantissa << (upper + np.uint64(9)) == high:
            mantissa = mantissa & ~np.uint64(1)
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >= _HIDDEN_BIT << np.uint64(1):
        mantissa = _HIDDEN_BIT
        exponent += 1
    if exponent >= 2047:
        return np.inf
    return double_of(np.int64(mantissa & _MANTISSA) | (np.int64(exponent) << 52))


@helper
def is_tie(number: float) -> bool:
    """Whether a double is half way between two floats."""
    return bits_of(number) & 0x1FFF_FFFF == 0x1000_0000
