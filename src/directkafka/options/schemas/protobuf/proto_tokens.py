"""Tokens of ``.proto`` files: names, numbers, texts in quotes and signs, without blanks and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>\.?[0-9][A-Za-z0-9_.]*(?:(?<=[eE])[+-][0-9]+)?)
    | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<sign>[][{}<>();:,=.+-/])""",
    re.VERBOSE | re.DOTALL,
)
#: Of edition 2024, in front of a message or an enum.
_VISIBILITY: Final = frozenset({"export", "local"})


class Token(NamedTuple):
    """A word or a sign of a file.

    Attributes:
        kind: ``name``, ``number``, ``text`` or ``sign``; empty behind the last one.
        line: where it stands, from 1.
    """

    text: str
    kind: str
    line: int


def read_tokens(text: str) -> list[Token]:
    """The tokens of a file; the last one is empty.

    Raises:
        ValueError: it has something that no such file has; the message has the line.
    """
    return _without_visibility(list(_tokens(text)))


def _without_visibility(tokens: list[Token]) -> list[Token]:
    """Without what edition 2024 has in front of messages and enums, which says nothing about bytes."""
    return [
        token
        for token, following, brace in zip(tokens, [*tokens[1:], tokens[-1]], [*tokens[3:], *tokens[-3:]], strict=False)
        if not (token.text in _VISIBILITY and following.text in ("message", "enum") and brace.text == "{")
    ]


def _tokens(text: str) -> Iterator[Token]:
    at, line = 0, 1
    text = text.removeprefix("\ufeff")
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"the schema, line {line}: no .proto file has {text[at : at + 20]!r}")
        if match.lastgroup is not None:
            yield Token(match.group(), match.lastgroup, line)
        line += match.group().count("\n")
        at = match.end()
    yield Token("", "", line)
