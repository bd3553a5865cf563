"""Characters of JSON in kernels: spaces, and strings with their escapes, from UTF-8 to UTF-8."""

# ruff: noqa: PLR0911, PLR0912, PLR1714, SIM109, C901 - as numba compiles it best
from __future__ import annotations

from typing import Final

from directkafka.kafka.kernels.addresses import SCANNED, load8, scan, scan_and_copy, store8, trailing_zeros
from directkafka.kafka.kernels.compile import helper

# In place of a position.
LEFT: Final = -1
NO_ROOM: Final = -2

#: Texts with more bytes, and with names of more bytes, may have strings and names that Jackson refuses.
TEXT_LENGTH_MAX: Final = 20_000_000
NAME_LENGTH_MAX: Final = 50_000

QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C
COMMA: Final = 0x2C
COLON: Final = 0x3A
MINUS: Final = 0x2D
PLUS: Final = 0x2B
POINT: Final = 0x2E
ZERO: Final = 0x30
NINE: Final = 0x39
OPEN_OBJECT: Final = 0x7B
CLOSE_OBJECT: Final = 0x7D
OPEN_ARRAY: Final = 0x5B
CLOSE_ARRAY: Final = 0x5D

SMALL_F: Final = 0x66

#: The words as they lie in memory, read as little-endian numbers: ``null``, ``true``, ``alse``.
NULL: Final = int.from_bytes(b"null", "little")
TRUE: Final = int.from_bytes(b"true", "little")
ALSE: Final = int.from_bytes(b"alse", "little")


@helper
def skip_space(at: int, end: int) -> int:
    """The position of the next byte that is no space, or the end."""
    while at < end:
        byte = load8(at)
        if byte > 0x20 or not (byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09):
            break
        at += 1
    return at


@helper
def hex(at: int) -> int:
    """The number that four hexadecimal digits stand for; negative where they are none."""
    value = 0
    for index in range(4):
        byte = load8(at + index)
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= byte <= 0x46:
            digit = byte - 0x37
        elif 0x61 <= byte <= 0x66:
            digit = byte - 0x57
        else:
            return -1
        value = (value << 4) | digit
    return value


@helper
def _put_character(to: int, code: int) -> int:
    """A character as UTF-8; the number of its bytes. Half of a surrogate pair is a question mark, as in Java."""
    if code < 0x80:
        store8(to, code)
        return 1
    if code < 0x800:
        store8(to, 0xC0 | (code >> 6))
        store8(to + 1, 0x80 | (code & 0x3F))
        return 2
    if 0xD800 <= code <= 0xDFFF:
        store8(to, 0x3F)
        return 1
    if code < 0x10000:
        store8(to, 0xE0 | (code >> 12))
        store8(to + 1, 0x80 | ((code >> 6) & 0x3F))
        store8(to + 2, 0x80 | (code & 0x3F))
        return 3
    store8(to, 0xF0 | (code >> 18))
    store8(to + 1, 0x80 | ((code >> 12) & 0x3F))
    store8(to + 2, 0x80 | ((code >> 6) & 0x3F))
    store8(to + 3, 0x80 | (code & 0x3F))
    return 4


@helper
def _unescape(at: int, to: int) -> tuple[int, int]:
    """What an escape stands for, whose backslash is at ``at``: the position behind it, and bytes written."""
    letter = load8(at + 1)
    code = -1
    if letter == 0x6E:
        code = 0x0A
    elif letter == QUOTE or letter == BACKSLASH or letter == 0x2F or letter == 0x27:
        code = letter
    elif letter == 0x74:
        code = 0x09
    elif letter == 0x72:
        code = 0x0D
    elif letter == 0x62:
        code = 0x08
    elif letter == 0x66:
        code = 0x0C
    if code >= 0:
        store8(to, code)
        return at + 2, 1
    if letter != 0x75:
        return LEFT, 0
    code = hex(at + 2)
    if code < 0:
        return LEFT, 0
    at += 6
    if 0xD800 <= code <= 0xDBFF and load8(at) == BACKSLASH and load8(at + 1) == 0x75:
        low = hex(at + 2)
        if 0xDC00 <= low <= 0xDFFF:
            return at + 6, _put_character(to, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
    return at, _put_character(to, code)


@helper
def utf8_length(at: int) -> int:
    """Bytes of the character of several bytes that begins here; 0 where it is malformed (RFC 3629)."""
    first, second = load8(at), load8(at + 1)
    if (second & 0xC0) != 0x80:
        return 0
    if 0xC2 <= first <= 0xDF:
        return 2
    if (load8(at + 2) & 0xC0) != 0x80:
        return 0
    if 0xE0 <= first <= 0xEF:
        if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
            return 0
        return 3
    if (load8(at + 3) & 0xC0) != 0x80:
        return 0
    if 0xF0 <= first <= 0xF4 and not (first == 0xF0 and second < 0x90) and not (first == 0xF4 and second > 0x8F):
        return 4
    return 0


@helper
def copy_string(at: int, end: int, to: int, room: int) -> tuple[int, int]:
    """A string's characters, whose opening quote is passed: the position behind its other one, and bytes written."""
    written = 0
    while True:
        if written + SCANNED > room:
            return NO_ROOM, 0
        special = scan_and_copy(to + written, at)
        if special == 0:
            at += SCANNED
            written += SCANNED
            if at >= end:
                return LEFT, 0
            continue
        plain = trailing_zeros(special)
        at += plain
        written += plain
        if at >= end:
            return LEFT, 0
        byte = load8(at)
        if byte == QUOTE:
            return at + 1, written
        if written + SCANNED > room:
            return NO_ROOM, 0
        if byte == BACKSLASH:
            at, size = _unescape(at, to + written)
            if at < 0:
                return LEFT, 0
            written += size
        elif byte >= 0x80:
            size = utf8_length(at)
            if size == 0:
                return LEFT, 0
            for index in range(size):
                store8(to + written + index, load8(at + index))
            at += size
            written += size
        else:
            return LEFT, 0
        if at >= end:
            return LEFT, 0


@helper
def plain_end(at: int, end: int) -> int:
    """The position of a string's next byte that is not a plain character of ASCII, or the end."""
    while at < end:
        special = scan(at)
        if special != 0:
            at += trailing_zeros(special)
            return at if at < end else end
        at += SCANNED
    return end


@helper
def skip_string(at: int, end: int) -> int:
    """The position behind a string whose opening quote is passed."""
    while True:
        at = plain_end(at, end)
        if at >= end:
            break
        byte = load8(at)
        if byte == QUOTE:
            return at + 1
        if byte == BACKSLASH:
            letter = load8(at + 1)
            if letter == 0x75:
                if hex(at + 2) < 0:
                    break
                at += 6
            elif (
                letter == QUOTE
                or letter == BACKSLASH
                or letter == 0x2F
                or letter == 0x27
                or letter == 0x6E
                or letter == 0x74
                or letter == 0x72
                or letter == 0x62
                or letter == 0x66
            ):
                at += 2
            else:
                break
        elif byte >= 0x80:
            # What is malformed is one character to Java, or some: none of them ends the string.
            at += 1
        else:
            break
    return LEFT
