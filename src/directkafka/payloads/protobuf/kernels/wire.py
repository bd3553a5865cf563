"""The wire format of Protocol Buffers in kernels: numbers of variable length, and what is passed over."""

# ruff: noqa: PLR0917 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.kernels.values import CUT_OFF, read_varint

# In place of a position: what is wrong with the bytes, beside what :mod:`directkafka.payloads.kernels.values` tells.
NO_NUMBER: Final = -20
WRONG_TYPE: Final = -21
NO_GROUP: Final = -22
TOO_DEEP: Final = -23
NO_TIME: Final = -24

# Wire types.
VARINT: Final = 0
EIGHT_BYTES: Final = 1
LENGTH: Final = 2
GROUP_BEGIN: Final = 3
GROUP_END: Final = 4
FOUR_BYTES: Final = 5

_TAG_MAX: Final = (1 << 32) - 1
_TAG_BYTES_MAX: Final = 5
#: Groups in one another that are passed over.
GROUPS_MAX: Final = 100


@helper
def read_tag(at: int, end: int) -> tuple[int, int, int]:
    """The position behind a tag, the field's number, and its wire type; a tag has five bytes at most."""
    behind, tag = read_varint(at, end)
    if behind < 0:
        return behind, 0, 0
    if tag < 8 or tag > _TAG_MAX or behind - at > _TAG_BYTES_MAX:
        return NO_NUMBER, 0, 0
    return behind, tag >> 3, tag & 7


@helper
def read_length(at: int, end: int) -> tuple[int, int]:
    """A length, behind which are so many bytes: their position, and the length."""
    at, length = read_varint(at, end)
    if at >= 0 and (length < 0 or length > end - at):
        return CUT_OFF, 0
    return at, length


@helper
def _skip_value(kind: int, at: int, end: int) -> int:
    """The position behind a value that is no group."""
    if kind == VARINT:
        at, _ = read_varint(at, end)
        return at
    if kind == LENGTH:
        at, length = read_length(at, end)
        return at if at < 0 else at + length
    if kind == EIGHT_BYTES or kind == FOUR_BYTES:  # noqa: PLR1714, SIM109 - as numba compiles it
        size = 8 if kind == EIGHT_BYTES else 4
        return at + size if size <= end - at else CUT_OFF
    return WRONG_TYPE


@helper
def skip(number: int, kind: int, at: int, end: int, numbers: Any, first: int) -> int:
    """The position behind a field that nobody knows.

    Args:
        number, kind: its number and wire type.
        at, end: the position behind its tag, and of what is read.
        numbers: room from place ``first`` for the numbers of :data:`GROUPS_MAX` groups in one another.
    """
    if kind != GROUP_BEGIN:
        return _skip_value(kind, at, end) if kind != GROUP_END else NO_GROUP
    depth = 1
    numbers[first] = number
    while depth > 0:
        at, number, kind = read_tag(at, end)
        if at < 0:
            return at
        if kind == GROUP_BEGIN:
            if depth == GROUPS_MAX:
                return TOO_DEEP
            numbers[first + depth] = number
            depth += 1
        elif kind == GROUP_END:
            depth -= 1
            if number != numbers[first + depth]:
                return NO_GROUP
        else:
            at = _skip_value(kind, at, end)
            if at < 0:
                return at
    return at
