"""Texts as Java and Jackson have them: UTF-8 that is read, numbers that are written, and values that become texts."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from directkafka.payloads.json import MismatchError
from directkafka.payloads.json.tokens import Token, Tokens

NUMBER_WORDS: Final = {
    "NaN": float("nan"),
    "INF": float("inf"),
    "+INF": float("inf"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-INF": float("-inf"),
    "-Infinity": float("-inf"),
}

_QUOTED: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_TO_QUOTE: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')


def java_text(value: bytes) -> str:
    """UTF-8 as Java reads it: what is malformed becomes U+FFFD, a whole surrogate one of them."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), value).decode("utf-8", "replace")


#: Surrogates as three bytes; Java counts them as one character that is malformed.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def clean(text: str) -> str:
    """A text whose escaped surrogates make characters in pairs, and are question marks alone, as in Java's UTF-8."""
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return whole.encode("utf-8", "replace").decode()
    return text


def real_of(number: str) -> float:
    """The double that is nearest to a number which is no integer, or a word for one."""
    return NUMBER_WORDS[number] if number in NUMBER_WORDS else float(number)


def copied(tokens: Tokens) -> str:
    """What is no string, as the text that Jackson writes of it: without spaces, numbers as Java has them."""
    parts: list[str] = []
    depth, is_first = 0, True
    while True:
        at = tokens.current
        if at in (Token.OBJECT_END, Token.ARRAY_END):
            if depth == 0:
                raise MismatchError(f"{at.value!r} in place of a value")
            depth -= 1
            parts.append(at.value)
            is_first = False
        else:
            if at is not None and not is_first and parts[-1] != ":":
                parts.append(",")
            parts.append(_copied_token(tokens, at))
            is_first = at in (Token.OBJECT_START, Token.ARRAY_START)
            depth += is_first
            if at is Token.NAME:
                parts.append(":")
        if depth == 0 or at is None:
            return "".join(parts)
        tokens.next()


def _copied_token(tokens: Tokens, at: Token | None) -> str:
    match at:
        case None:
            return ""
        case Token.NAME:
            return _quote(tokens.name or "")
        case Token.STRING:
            return _quote(tokens.string())
        case Token.INTEGER:
            return str(int(tokens.number))
        case Token.REAL:
            return java_double(real_of(tokens.number))
        case _:
            return str(at.value)


def _quote(text: str) -> str:
    return '"' + _TO_QUOTE.sub(lambda match: _QUOTED.get(match[0]) or _escaped(match[0]), text) + '"'


def _escaped(character: str) -> str:
    """As Jackson writes controls, and what Java has two characters for: each of them by its number."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02X}{low:02X}" for high, low in zip(units[::2], units[1::2], strict=True))


def java_double(value: float) -> str:
    """A number as ``Double.toString`` writes it; what is not finite in quotes, as Jackson has it."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" * (value < 0)}Infinity"'
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if len(digits) == 1:
        # Java has two digits at least, and of these the nearest ones.
        sign, digits, exponent = Decimal(f"{value:.1e}").normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    if value == 0:
        shown = "0.0"
    elif 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            shown = "0." + "0" * -point + text
        else:
            text = text.ljust(point, "0")
            shown = f"{text[:point]}.{text[point:] or '0'}"
    else:
        shown = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return "-" * bool(sign) + shown
