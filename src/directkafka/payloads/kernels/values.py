"""Values of any format in kernels: numbers of variable length; texts and bytes into columns; what is UTF-8."""

# ruff: noqa: PLR0911, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import copy, load8, load32, load64, store32
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.kernels.nodes import BYTES_MAX, ENDS, VALUES, of_node

# In place of a position: what is wrong.
CUT_OFF: Final = -1
NO_ROOM: Final = -2
TOO_LARGE: Final = -3
NO_UTF8: Final = -5
FULL: Final = -13

#: What the ends of texts and lists may be at most.
END_MAX: Final = (1 << 31) - 1

_HIGH_BITS: Final = -0x7F7F7F7F7F7F7F80
_LAST_SHIFT: Final = 63


@helper
def read_varint(at: int, end: int) -> tuple[int, int]:
    """A number, seven bits a byte: the position behind it, and its 64 bits."""
    if at >= end:
        return CUT_OFF, 0
    byte = load8(at)
    at += 1
    if byte < 0x80:
        return at, byte
    value, shift = byte & 0x7F, 7
    while at < end:
        byte = load8(at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == _LAST_SHIFT and byte > 1:
                return TOO_LARGE, 0
            return at, value
        shift += 7
        if shift > _LAST_SHIFT:
            return TOO_LARGE, 0
    return CUT_OFF, 0


@helper
def put_bytes(nodes: Any, node: int, row: int, at: int, length: int) -> int:
    """Bytes, as those of a row; 0, or that there is no room."""
    ends = of_node(nodes, node, ENDS) + 4 * row
    start = load32(ends)
    if start + length > of_node(nodes, node, BYTES_MAX):
        return NO_ROOM if start + length <= END_MAX else FULL
    copy(of_node(nodes, node, VALUES) + start, at, length)
    store32(ends + 4, start + length)
    return 0


@helper
def _is_continued(at: int, end: int, count: int) -> bool:
    """Whether so many bytes are here that go on with a character."""
    if at + count > end:
        return False
    for position in range(at, at + count):  # noqa: SIM110 - as numba compiles it
        if (load8(position) & 0xC0) != 0x80:
            return False
    return True


@helper
def is_utf8(at: int, end: int) -> bool:
    """Whether bytes are UTF-8 (RFC 3629); none behind the end is read."""
    while at < end:
        if at + 8 <= end and (load64(at) & _HIGH_BITS) == 0:
            at += 8
            continue
        first = load8(at)
        if first < 0x80:
            at += 1
        elif 0xC2 <= first <= 0xDF:
            if not _is_continued(at + 1, end, 1):
                return False
            at += 2
        elif 0xE0 <= first <= 0xEF:
            if not _is_continued(at + 1, end, 2):
                return False
            second = load8(at + 1)
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
                return False
            at += 3
        elif 0xF0 <= first <= 0xF4:
            if not _is_continued(at + 1, end, 3):
                return False
            second = load8(at + 1)
            if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
                return False
            at += 4
        else:
            return False
    return True
