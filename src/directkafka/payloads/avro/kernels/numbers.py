"""Numbers of Avro's binary encoding in kernels."""

from __future__ import annotations

from typing import Final

from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.kernels.values import CUT_OFF, read_varint

# In place of a position: what is wrong with the bytes, beside what :mod:`directkafka.payloads.kernels.values` tells.
NEGATIVE: Final = -4
NO_ALTERNATIVE: Final = -6
NO_SYMBOL: Final = -7
TOO_MANY: Final = -8
TOO_DEEP: Final = -9
REFUSED: Final = -10
NO_BOOLEAN: Final = -11
TOO_MANY_DIGITS: Final = -12


@helper
def read_long(at: int, end: int) -> tuple[int, int]:
    """A number in zig-zag, seven bits a byte: the position behind it, and the number."""
    at, value = read_varint(at, end)
    return at, ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)


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
