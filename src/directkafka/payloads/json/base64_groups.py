"""Base64 in a JSON text, as Jackson reads it: RFC 4648 with padding; spaces may stand between groups, not inside."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from typing import Final

from directkafka.payloads.json import MalformedJsonError

_DIGITS: Final = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
PADDING: Final = -1
END: Final = -2


def read_groups(digit: Callable[[int], int], push_back: Callable[[], None] = lambda: None) -> bytes:
    """The bytes of groups of four digits.

    Args:
        digit: gives the next digit's six bits, :data:`PADDING` or :data:`END`; called with its number in the group.
        push_back: called when the end came inside of a group.

    Raises:
        MalformedJsonError: it is no base64.
    """
    decoded = bytearray()
    while (first := digit(0)) != END:
        group = [first, digit(1)]
        if END in group or PADDING in group:
            raise MalformedJsonError("no base64")
        group.append(digit(2))
        if group[2] != END:
            group.append(digit(3))
        if END in group:
            push_back()
            raise MalformedJsonError("base64 without its padding")
        if group[2] == PADDING != group[3]:
            raise MalformedJsonError("no base64")
        size = 3 - group.count(PADDING)
        bits = sum((value if value >= 0 else 0) << 6 * (3 - number) for number, value in enumerate(group))
        decoded += bits.to_bytes(3, "big")[:size]
    return bytes(decoded)


def digit_of(character: str, index: int, more: Iterator[str] | None = None) -> int:
    """A base64 digit's six bits, or what stands in its place; ``more`` is what follows where spaces are passed."""
    while more is not None and index == 0 and character <= " ":
        character = next(more, '"')
    if character == "=":
        return PADDING
    if character == '"':
        return END
    value = _DIGITS.find(character)
    if value < 0:
        raise MalformedJsonError("no base64")
    return value
