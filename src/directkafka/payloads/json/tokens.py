"""Tokens of a JSON text, one after the other, as Spark's own parser sees them: what the kernel leaves is read by these.

``from_json`` reads with Jackson's ``ReaderBasedJsonParser`` (jackson-core 2.21), and goes on after some errors. Which
fields of a malformed text it can read therefore depends on where that parser stands after an error. So this is the same
machine, with the same state:

- With the name of a field, the first token of its value is read as well, and kept. An error in it is raised when the
  name is asked for, and the name is current then.
- A string value is not read before it is used, or passed over by the next token.
- A comma is expected before all values of a scope but the first that was asked for, be it read or not.

Of the parser's options, single quotes and the words ``NaN``, ``INF`` and ``Infinity`` are on, as in Spark.
"""

from __future__ import annotations

import re
import string
import unicodedata
from enum import Enum
from typing import Final

from directkafka.payloads.json import MalformedJsonError
from directkafka.payloads.json.base64_groups import END, PADDING, digit_of, read_groups

DEPTH_MAX: Final = 1000
STRING_LENGTH_MAX: Final = 20_000_000
NUMBER_LENGTH_MAX: Final = 1000
NAME_LENGTH_MAX: Final = 50_000

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DIGITS: Final = re.compile(r"[0-9]*")
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "/": "/", "\\": "\\", "'": "'"}
_HEX: Final = re.compile(r"[0-9A-Fa-f]{4}")
_PARTS_OF_WORDS: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Nd", "Pc", "Sc", "Mn", "Mc", "Cf"})
_IGNORABLE: Final = frozenset(map(chr, [*range(9), *range(14, 28), *range(127, 160)]))
_WORD_LENGTH_MAX: Final = 256
_NOT_PLAIN: Final = {
    '"': re.compile(r'["\\\x00-\x1f]'),
    "'": re.compile(r"['\\\x00-\x1f]"),
}


class Token(Enum):
    """What stands at the parser's place."""

    OBJECT_START = "{"
    OBJECT_END = "}"
    ARRAY_START = "["
    ARRAY_END = "]"
    NAME = "a field's name"
    STRING = "a string"
    INTEGER = "an integer"
    REAL = "a number"
    TRUE = "true"
    FALSE = "false"
    NULL = "null"


_STARTS: Final = {Token.OBJECT_START: "{", Token.ARRAY_START: "["}
_FIRST: Final = {'"': Token.STRING, "'": Token.STRING, "{": Token.OBJECT_START, "[": Token.ARRAY_START}
_LITERALS: Final = {"t": ("true", Token.TRUE), "f": ("false", Token.FALSE), "n": ("null", Token.NULL)}


class _Scope:
    """The text itself, an object, or an array."""

    __slots__ = ("index", "kind", "name")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = -1
        self.name: str | None = None


class Tokens:
    """The tokens of one text.

    Args:
        text: the text; surrogates stand alone where it has escapes for them.

    Attributes:
        current: the token at the parser's place; None before the first one, at the end, and after some errors.
        number: the text of the last number, or of a word that stands for one.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._scopes = [_Scope("")]
        self._value_of_name: Token | None = None
        self._is_unread = False
        self._string: str | None = None
        self.current: Token | None = None
        self.number = ""

    @property
    def name(self) -> str | None:
        """The name of the field that the current token belongs to."""
        scopes = self._scopes
        if self.current in _STARTS and len(scopes) > 1:
            return scopes[-2].name
        return scopes[-1].name

    def next(self) -> Token | None:
        """Go on to the next token.

        Raises:
            MalformedJsonError: there is none, and the text is not at its end.
        """
        if self.current is Token.NAME:
            return self._after_name()
        if self._is_unread:
            self._read_string()
        character = self._skip_space(at_end="")
        if character == "":
            if len(self._scopes) > 1:
                raise MalformedJsonError("the text ends too early")
            self.current = None
            return None
        if character in "}]":
            return self._close(character)
        scope = self._scopes[-1]
        scope.index += 1
        if scope.kind and scope.index > 0:
            if character != ",":
                raise MalformedJsonError(f"{character!r} in place of a comma")
            character = self._skip_space()
        if scope.kind != "{":
            self.current = self._begin(self._value(character))
            return self.current
        scope.name = self._name(character)
        self.current = Token.NAME
        if (colon := self._skip_space()) != ":":
            raise MalformedJsonError(f"{colon!r} in place of a colon")
        self._value_of_name = self._value(self._skip_space())
        return self.current

    def skip_children(self) -> None:
        """Go on to the end of the scope that begins here, if one does.

        Raises:
            MalformedJsonError: it does not end.
        """
        depth = 1
        if self.current not in _STARTS:
            return
        while depth:
            token = self.next()
            if token is None:
                if len(self._scopes) > 1:
                    raise MalformedJsonError("the text ends too early")
                return
            depth += (token in _STARTS) - (token in (Token.OBJECT_END, Token.ARRAY_END))

    def string(self) -> str:
        """The string at the parser's place.

        Raises:
            MalformedJsonError: it does not end, or has a control character or an unknown escape.
        """
        if self._is_unread:
            self._string = None
            self._string = self._read_string()
        if self._string is None:
            raise MalformedJsonError("a string that could not be read")
        return self._string

    def base64(self) -> bytes:
        """The bytes that the string at the parser's place stands for (RFC 4648 with padding; spaces between groups).

        Raises:
            MalformedJsonError: it is no base64; what is left of the string is passed over by the next token.
        """
        if self._is_unread:
            decoded = read_groups(self._base64_digit, self._push_back)
            self._is_unread = False
            return decoded
        digits = iter(self.string())
        return read_groups(lambda index: digit_of(next(digits, '"'), index, digits))

    def _push_back(self) -> None:
        """The quote that ends a string too early is seen again."""
        self._at -= 1

    def _base64_digit(self, index: int) -> int:
        while True:
            character = self._text[self._at : self._at + 1]
            if not character:
                raise MalformedJsonError("a string that does not end")
            self._at += 1
            if character != "\\":
                if character > " " or index:
                    return digit_of(character, index)
                continue
            character, self._at = self._escape_at(self._at)
            if character > " " or index:
                value = digit_of(character, index)
                if value == END or (value == PADDING and index < 2):
                    raise MalformedJsonError("no base64")
                return value

    def _after_name(self) -> Token | None:
        token, self._value_of_name = self._value_of_name, None
        self.current = token if token is None else self._begin(token)
        return self.current

    def _begin(self, token: Token) -> Token:
        """Enter the scope that a token begins."""
        if (kind := _STARTS.get(token)) is not None:
            self._scopes.append(_Scope(kind))
            if len(self._scopes) - 1 > DEPTH_MAX:
                raise MalformedJsonError(f"more than {DEPTH_MAX} scopes in one another")
        return token

    def _close(self, bracket: str) -> Token:
        if self._scopes[-1].kind != {"}": "{", "]": "["}[bracket]:
            raise MalformedJsonError(f"{bracket!r} ends what has not begun")
        self._scopes.pop()
        self.current = Token.OBJECT_END if bracket == "}" else Token.ARRAY_END
        return self.current

    def _skip_space(self, *, at_end: str | None = None) -> str:
        """The next character that is no space, which is passed."""
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        character = self._text[self._at : self._at + 1]
        if not character:
            if at_end is None:
                raise MalformedJsonError("the text ends too early")
            return at_end
        self._at += 1
        if character < " ":
            raise MalformedJsonError(f"a control character {character!r}")
        if character == "/":
            raise MalformedJsonError("a comment")
        return character

    def _name(self, character: str) -> str:
        if character not in _NOT_PLAIN:
            raise MalformedJsonError(f"{character!r} in place of a name")
        name = self._quoted(character)
        if len(name) > NAME_LENGTH_MAX:
            raise MalformedJsonError(f"a name of more than {NAME_LENGTH_MAX} characters")
        return name

    def _value(self, character: str) -> Token:
        self._string = None
        token = _FIRST.get(character)
        match character:
            case '"':
                self._is_unread = True
            case "'":
                self._string = self._quoted("'")
            case "{" | "[":
                pass
            case "t" | "f" | "n":
                word, token = _LITERALS[character]
                self._word(word)
            case "N" | "I":
                token = self._number_word("NaN" if character == "N" else "Infinity", 1)
            case "-" | "+":
                token = self._signed(character)
            case _ if _is_digit(character):
                self._at -= 1
                token = self._read_number("")
            case _:
                if _is_part_of_word(character) and not unicodedata.category(character).startswith(("N", "M", "C")):
                    raise self._unknown_word(character)
                raise MalformedJsonError(f"{character!r} in place of a value")
        assert token is not None, "each of the cases has one, or raises"
        return token

    def _signed(self, sign: str) -> Token:
        following = self._text[self._at : self._at + 1]
        if sign == "-" and _is_digit(following):
            return self._read_number("-")
        self._at += len(following)
        if following == "I":
            second = self._text[self._at : self._at + 1]
            self._at += len(second)
            if second in ("N", "n"):
                return self._number_word(f"{sign}{'INF' if second == 'N' else 'Infinity'}", 3)
        raise MalformedJsonError("a sign without a number")

    def _number_word(self, word: str, known: int) -> Token:
        self._word(word, known)
        self.number = word
        return Token.REAL

    def _word(self, word: str, known: int = 1) -> None:
        for number in range(known, len(word)):
            if self._text[self._at : self._at + 1] != word[number]:
                raise self._unknown_word(word[:number])
            self._at += 1
        following = self._text[self._at : self._at + 1]
        if following >= "0" and _is_part_of_word(following):
            raise self._unknown_word(word)

    def _unknown_word(self, begins: str) -> MalformedJsonError:
        """The error for a word that is none of JSON's; it is passed, up to a length."""
        end = self._at
        while end - self._at < _WORD_LENGTH_MAX - len(begins) and _is_part_of_word(self._text[end : end + 1]):
            end += 1
        word = begins + self._text[self._at : end]
        self._at = end
        return MalformedJsonError(f"the word {word[:40]!r}")

    def _read_number(self, sign: str) -> Token:
        """A number; the parser's place is at its first digit.

        Behind an error it is where Jackson's is: behind what was read, where the number begins with 0 or the text ends,
        else behind the first point or exponent.
        """
        start, text = self._at, self._text
        if text[start] == "0" and _is_digit(text[start + 1 : start + 2]):
            self._at += 1
            raise MalformedJsonError("a number that begins with 0")
        end = _DIGITS.match(text, start).end()  # type: ignore[union-attr]
        digits = end - start
        sure = end + 1
        token, problem = Token.INTEGER, ""
        if text[end : end + 1] == ".":
            fraction = _DIGITS.match(text, end + 1).end()  # type: ignore[union-attr]
            problem = "a point without digits behind it" * (fraction == end + 1)
            digits += fraction - end - 1
            end, token = fraction, Token.REAL
        if not problem and text[end : end + 1] in ("e", "E"):
            first = end + 1 + (text[end + 1 : end + 2] in ("+", "-") and end + 1 < len(text))
            exponent = _DIGITS.match(text, first).end()  # type: ignore[union-attr]
            problem = "an exponent without digits" * (exponent == first)
            digits += exponent - first
            end, token = exponent, Token.REAL
        if problem:
            self._at = min(end + 1, len(text)) if text[start] == "0" or end == len(text) else sure
            raise MalformedJsonError(problem)
        self._at = end
        if len(self._scopes) == 1 and end < len(text) and text[end] not in " \t\r\n":
            self._at += 1
            raise MalformedJsonError("a number that something follows")
        if digits > NUMBER_LENGTH_MAX:
            raise MalformedJsonError(f"a number of more than {NUMBER_LENGTH_MAX} digits")
        self.number = sign + text[start:end]
        return token

    def _read_string(self) -> str:
        # Whatever becomes of it, it is read once.
        self._is_unread = False
        return self._quoted('"')

    def _quoted(self, quote: str) -> str:
        """The characters up to a quote, which is passed."""
        parts, length, text = [], 0, self._text
        while True:
            special = _NOT_PLAIN[quote].search(text, self._at)
            end = special.start() if special else len(text)
            parts.append(text[self._at : end])
            length += end - self._at
            self._at = min(end + 1, len(text))
            if special is None:
                raise MalformedJsonError("a string that does not end")
            if length > STRING_LENGTH_MAX:
                raise MalformedJsonError(f"a string of more than {STRING_LENGTH_MAX} characters")
            character = special.group()
            if character == quote:
                return "".join(parts)
            if character != "\\":
                raise MalformedJsonError(f"a control character {character!r} in a string")
            escaped, self._at = self._escape_at(self._at)
            parts.append(escaped)

    def _escape_at(self, at: int) -> tuple[str, int]:
        """What an escape stands for whose backslash is passed, and the place behind it."""
        letter = self._text[at : at + 1]
        if (plain := _ESCAPES.get(letter)) is not None:
            return plain, at + 1
        if letter != "u":
            self._at = at + len(letter)
            raise MalformedJsonError(f"an unknown escape {letter!r}")
        digits = _HEX.match(self._text, at + 1)
        if digits is None:
            good = 0
            while good < 4 and re.match(r"[0-9A-Fa-f]", self._text[at + 1 + good : at + 2 + good]):
                good += 1
            self._at = min(at + 2 + good, len(self._text))
            raise MalformedJsonError("an escape without four hexadecimal digits")
        return chr(int(digits.group(), 16)), at + 5


def _is_digit(character: str) -> bool:
    return character != "" and character in string.digits


def _is_part_of_word(character: str) -> bool:
    """Whether Java takes a character for a part of an identifier."""
    if not character or character > "\uffff":
        return False
    return character.isalnum() or unicodedata.category(character) in _PARTS_OF_WORDS or character in _IGNORABLE
