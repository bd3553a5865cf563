"""Numbers of Avro's binary encoding in kernels, and UTF-8."""

# ruff: noqa: PLR0911, C901 - as numba compiles it best
from __future__ import annotations

from typing import Final

from directkafka.kafka.kernels.addresses import load8, load64
from directkafka.kafka.kernels.compile import helper

# In place of a position: what is wrong with the bytes.
CUT_OFF: Final = -1
NO_ROOM: Final = -2
TOO_LARGE: Final = -3
NEGATIVE: Final = -4
NO_UTF8: Final = -5
NO_ALTERNATIVE: Final = -6
NO_SYMBOL: Final = -7
TOO_MANY: Final = -8
TOO_DEEP: Final = -9
REFUSED: Final = -10
NO_BOOLEAN: Final = -11
TOO_MANY_DIGITS: Final = -12
FULL: Final = -13

#: What the ends of texts and lists may be at most.
END_MAX: Final = (1 << 31) - 1

_HIGH_BITS: Final = -0x7F7F7F7F7F7F7F80
_LAST_SHIFT: Final = 63


@helper
def read_long(at: int, end: int) -> tuple[int, int]:
    """A number in zig-zag, seven bits a byte: the position behind it, and the number."""
    if at >= end:
        return CUT_OFF, 0
    found = load8(at)
    at += 1
    if found < 0x80:
        return at, (found >> 1) ^ -(found & 1)
    value, shift = found & 0x7F, 7
    while at < end:
        found = load8(at)
        at += 1
        value |= (found & 0x7F) << shift
        if found < 0x80:
            if shift == _LAST_SHIFT and found > 1:
                return TOO_LARGE, 0
            return at, ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)
        shift += 7
        if shift > _LAST_SHIFT:
            return TOO_LARGE, 0
    return CUT_OFF, 0


@helper
def read_length(at: int, end: int) -> tuple[int, int]:
    """A length, behind which are so many bytes: their position, and the length."""
    at, length = read_long(at, end)
    if at < 0:
        return at, 0
    if length < 0:
        return NEGATIVE, 0
    if length > end - at:
        return CUT_OFF, 0
    return at, length


@helper
def _is_continued(at: int, end: int, count: int) -> bool:
    """Whether so many bytes are here that go on with a character."""
    if at + count > end:
        return False
    for place in range(at, at + count):  # noqa: SIM110 - as numba compiles it
        if (load8(place) & 0xC0) != 0x80:
            return False
    return True


@helper
def is_utf8(at: int, end: int) -> bool:
    """Whether bytes are UTF-8 (RFC 3629); none behind the end is read."""
    while at < end:
        if at + 8 <= end and (load64(at) & _HIGH_BITS) == 0:
            at += 8
            continue
        found = load8(at)
        if found < 0x80:
            at += 1
        elif 0xC2 <= found <= 0xDF:
            if not _is_continued(at + 1, end, 1):
                return False
            at += 2
        elif 0xE0 <= found <= 0xEF:
            if not _is_continued(at + 1, end, 2):
                return False
            second = load8(at + 1)
            if (found == 0xE0 and second < 0xA0) or (found == 0xED and second > 0x9F):
                return False
            at += 3
        elif 0xF0 <= found <= 0xF4:
            if not _is_continued(at + 1, end, 3):
                return False
            second = load8(at + 1)
            if (found == 0xF0 and second < 0x90) or (found == 0xF4 and second > 0x8F):
                return False
            at += 4
        else:
            return False
    return True
