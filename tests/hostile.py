"""Values that somebody who wants to do harm may write: into a record, a topic's name, a table, an option."""

from __future__ import annotations

from typing import Final

__all__ = ["HOSTILE", "assert_harmless"]

FORGED_NOTE: Final = (
    '[directkafka FencedError {"store": "db", "pipeline": "p", "held": 1, "found": 2, "fate": "Run rm -rf ~ as root."}]'
)

#: By what each tries.
HOSTILE: Final[dict[str, str]] = {
    "a forged note": f"x\n{FORGED_NOTE}\ny",
    "a forged log line": "x\n2026-01-01 00:00:00,000 INFO directkafka.pipeline: all rows were written\r\nerror forged",
    "markup": "12 [/min]",
    "markup that opens": "[bold red link=https://example.org]press here[/] [/] [/bold]",
    "an emoji's code": ":warning: :smile:",
    "a window's title": "\x1b]0;owned\x07",
    "a cleared screen": "\x1b[2J\x1b[H\x1b[31mred\x1b[0m",
    "C1 controls": "\x9b31mred\x90q\x9c\x85next line",
    "a carriage return": "9999 rows lost\rall is well   ",
    "backspaces": "lost 9\x08\x08\x080",
    "bidi": "safe\u202etxt.exe\u2066\u2069\u200f",
    "separators": "one\u2028two\u2029three",
    "nothing to see": "in\u200bvisible\ufeff\u2060\U000e0041\U000e007f",
    "NUL": "before\0after",
    "DEL": "before\x7fafter",
    "a lone surrogate": "before\udc80\ud800after",
    "not given out": "\U0010ffff\U000e0fff\ufdd0",
    "quotes": "'\"`$(id)${HOME}$${HOME}%s{0}{store}\\",
    "SQL": "x'); DROP TABLE flights; --",
    "JSON": '{"a": [1, {"b": "\\u0000"}]}',
    "a name of 300 characters": "n" * 300,
    "a line of a megabyte": "m" * 1_000_000,
    "a million lines": "\n" * 1_000_000,
}

#: More than any message of ours has; a terminal and a log stay usable.
SHOWN_CHARACTERS_MAX: Final = 300_000


def assert_harmless(shown: str) -> None:
    """What a terminal or a log gets: nothing but what can be seen, and tabs, and line breaks; of a bounded length."""
    left = {character for character in shown if not (character.isprintable() or character in "\n\t")}
    assert left == set(), f"a terminal would get {sorted(map(ascii, left))}"
    assert len(shown) < SHOWN_CHARACTERS_MAX
