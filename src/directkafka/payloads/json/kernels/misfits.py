"""Values of another type than their field's, in kernels: such a field is null, and what is behind it is read.

Only what is surely no value of the field's type is passed over here. Quoted numbers and words, dates and times in rare
forms, base64 and the like are left.
"""

# ruff: noqa: PLR1714, SIM109 - as numba compiles it best
from __future__ import annotations

from directkafka.kafka.kernels.addresses import load8, load32
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.json.kernels.characters import (
    ALSE,
    BACKSLASH,
    LEFT,
    MINUS,
    PLUS,
    QUOTE,
    SMALL_F,
    TRUE,
    skip_string,
)
from directkafka.payloads.json.kernels.numbers import read_number
from directkafka.payloads.kernels.nodes import (
    BINARY,
    BOOL,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    LOCAL_TIMESTAMP,
    STRING,
    TIMESTAMP,
)


@helper
def misfit_end(kind: int, at: int, end: int) -> int:
    """The position behind a value that is neither object nor array nor null, if it is surely none of the field's type.

    Args:
        kind: of the field, as which the value was tried to be read.
        at: the position of the value.
        end: of the text.
    """
    if kind == STRING:
        return LEFT
    byte = load8(at)
    if byte == QUOTE:
        return _text_end(kind, at + 1, end)
    if load32(at) == TRUE:
        return LEFT if kind == BOOL else at + 4
    if byte == SMALL_F and load32(at + 1) == ALSE:
        return LEFT if kind == BOOL else at + 5
    at, _value, _power, _negative, real, _holds_all = read_number(at, end)
    if kind == DOUBLE or kind == FLOAT or kind == DECIMAL or (kind == TIMESTAMP and not real):
        return LEFT
    return at


@helper
def _text_end(kind: int, at: int, end: int) -> int:
    """The position behind a string, whose quote is passed, if it is surely no value of the type."""
    first = load8(at)
    if kind == BINARY:
        return LEFT
    if kind == DATE or kind == TIMESTAMP or kind == LOCAL_TIMESTAMP or kind == DECIMAL:
        return at + 1 if first == QUOTE else LEFT
    # NaN, and the words and signs of what is infinite; an escape may be the first letter of one.
    is_word = first == 0x4E or first == 0x49 or first == PLUS or first == MINUS or first == BACKSLASH
    if (kind == DOUBLE or kind == FLOAT) and is_word:
        return LEFT
    return skip_string(at, end)
