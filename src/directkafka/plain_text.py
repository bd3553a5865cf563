"""Text of unknown origin, made fit for a terminal and a log: what cannot be seen is spelt out, what is long is cut.

A record's value reaches people in an error, a log line, a reason of a dead letter. There it must be read, and do
nothing: an escape sequence would move the cursor or set the window's title, a bidi character would turn a path around,
a line break would start a line that looks like one of ours. This is the only place that says what is shown instead.
"""

from __future__ import annotations

import logging
from typing import Final

#: Longest line, and longest text, in characters before what cannot be seen is spelt out.
LINE_CHARACTERS_MAX: Final = 4_000
TEXT_CHARACTERS_MAX: Final = 20_000

#: What stands before each line of a message but the first, so that none of them looks like a message of its own.
_INDENT: Final = "    "


def one_line(text: str) -> str:
    """The text on one line: line breaks are spelt out too.

    Args:
        text: anything, lone surrogates included.
    """
    return _spelt_out(cut(text, LINE_CHARACTERS_MAX))


def message(text: str) -> str:
    """The text with its own lines, those behind the first indented.

    Args:
        text: anything, lone surrogates included.
    """
    lines = cut(text, TEXT_CHARACTERS_MAX).replace("\r\n", "\n").split("\n")
    return f"\n{_INDENT}".join(map(one_line, lines))


def cut(text: str, characters_max: int) -> str:
    """The beginning and the end of a text that is longer than so many characters, and how long it is.

    The end stays because messages end with what to do.
    """
    if len(text) <= characters_max:
        return text
    end = characters_max // 4
    return f"{text[: characters_max - end]} ... (cut, {len(text):,} characters) ... {text[-end:]}"


def _spelt_out(text: str) -> str:
    # The rule of Python's repr: controls, formats (bidi marks among them), lone surrogates, separators other than the
    # blank, and what Unicode has not given out. A tab does no harm, and Java's traces are full of them.
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\t" else _escape(character) for character in text
    )


def _escape(character: str) -> str:
    # Not repr: that has quotes around it.
    return character.encode("unicode_escape").decode("ascii")


class PlainFormatter(logging.Formatter):
    """Log lines with time, level and name, as :func:`message` shows them, tracebacks included."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and what follows it indented."""
        return message(super().format(record))
