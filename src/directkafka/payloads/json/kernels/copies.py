"""Objects and arrays that become texts, in kernels: where the schema has a STRING, Jackson writes what it has read.

It writes no spaces, and strings and numbers in its own way. What came written in that way is copied, other texts are
left.
"""

# ruff: noqa: PLR0912, PLR0915, C901, PLR1714, SIM109 - as numba compiles it best
from __future__ import annotations

from typing import Final

from directkafka.kafka.kernels.addresses import SCANNED, copy, load8, load32, store8
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.json.kernels.characters import (
    ALSE,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    LEFT,
    NAME_LENGTH_MAX,
    NO_ROOM,
    NULL,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    SMALL_F,
    TRUE,
    plain_end,
    skip_space,
    utf8_length,
)
from directkafka.payloads.json.kernels.numbers import is_written_so, read_number

#: What comes next in a scope: its first item or its end; a name; a value; a comma or its end.
_FIRST: Final = 0
_NAME: Final = 1
_VALUE: Final = 2
_BEHIND: Final = 3
#: Of scopes in each other; a bit of an integer says of each whether it is an object.
_DEPTH_MAX: Final = 60
#: Bytes of a character that Java has two of, and Jackson writes by their numbers.
_SURROGATE_PAIR: Final = 4


@helper
def _string_end(at: int, end: int) -> int:
    """The position behind a string, whose opening quote is passed, if it is written as it came."""
    while True:
        at = plain_end(at, end)
        if at >= end:
            break
        byte = load8(at)
        if byte == QUOTE:
            return at + 1
        size = utf8_length(at) if byte >= 0x80 else 0
        if size == 0 or size == _SURROGATE_PAIR:
            break
        at += size
    return LEFT


@helper
def _scalar_end(at: int, end: int) -> int:
    """The position behind a word, a string or a number, if it is written as it came."""
    byte = load8(at)
    if byte == QUOTE:
        return _string_end(at + 1, end)
    word = load32(at)
    if word == NULL or word == TRUE:
        return at + 4
    if byte == SMALL_F:
        return at + 5 if load32(at + 1) == ALSE else LEFT
    first = at
    at, value, power, negative, real, holds_all = read_number(at, end)
    return at if at >= 0 and is_written_so(first, at, value, power, negative, real, holds_all) else LEFT


@helper
def copy_scope(at: int, end: int, to: int, room: int) -> tuple[int, int]:
    """An object or an array, which begins here: the position behind it, and bytes written."""
    written, depth, objects, expected = 0, 0, 0, _VALUE
    while at < end:
        byte = load8(at)
        if byte <= 0x20:
            at = skip_space(at, end)
            if at >= end:
                break
            byte = load8(at)
        if written + SCANNED > room:
            return NO_ROOM, 0
        is_object = (objects >> depth) & 1
        if (expected == _BEHIND or expected == _FIRST) and byte == (CLOSE_OBJECT if is_object else CLOSE_ARRAY):
            store8(to + written, byte)
            written += 1
            at += 1
            depth -= 1
            if depth == 0:
                return at, written
            expected = _BEHIND
            continue
        if expected == _BEHIND:
            if byte != COMMA:
                break
            store8(to + written, COMMA)
            written += 1
            at += 1
            expected = _NAME if is_object else _VALUE
            continue
        is_name = expected == _NAME or (expected == _FIRST and is_object)
        if not is_name and (byte == OPEN_OBJECT or byte == OPEN_ARRAY):
            depth += 1
            if depth == _DEPTH_MAX:
                break
            if byte == OPEN_OBJECT:
                objects |= 1 << depth
            else:
                objects &= ~(1 << depth)
            store8(to + written, byte)
            written += 1
            at += 1
            expected = _FIRST
            continue
        if is_name and byte != QUOTE:
            break
        behind = _scalar_end(at, end)
        if behind < 0 or behind > end:
            break
        length = behind - at
        if is_name and length > NAME_LENGTH_MAX:
            break
        if written + length + SCANNED > room:
            return NO_ROOM, 0
        copy(to + written, at, length)
        written += length
        at = behind
        expected = _BEHIND
        if is_name:
            at = skip_space(at, end)
            if at >= end or load8(at) != COLON:
                break
            store8(to + written, COLON)
            written += 1
            at += 1
            expected = _VALUE
    return LEFT, 0
