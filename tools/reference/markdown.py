"""Markdown from docstrings, sentences and items, in lines of ``WIDTH`` columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

WIDTH = 110

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?([^`]+)`")
_SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields")
_ITEM = re.compile(r"^(\S.*?)(?: \(([^()]+)\))?:(?:\s+(.*))?$")


def markdown(docstring: str) -> Iterator[str]:
    """A docstring as Markdown: sections become lists, roles become code, ``::`` blocks become fences."""
    is_code = False
    for block in docstring.split("\n\n"):
        lines = block.splitlines()
        head = lines[0].strip() if lines else ""
        if is_code:
            yield "```text\n" + textwrap.dedent(block) + "\n```"
        elif head.rstrip(":") in _SECTIONS and head.endswith(":"):
            yield f"**{head.rstrip(':')}**"
            yield _section(lines[1:])
        elif head != "::":
            yield "\n".join(map(code, lines)) if head.startswith("- ") else filled(prose(block).replace("::", ":"))
        is_code = block.rstrip().endswith("::")


def _section(lines: list[str]) -> str:
    entries: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line)
    return items(_parted(item) for item in entries)


def _parted(item: str) -> tuple[str, str]:
    match = _ITEM.match(item)
    if match is None or " " in match[1].replace(", ", ","):
        return "", code(item)
    names = ", ".join(f"`{name}`" for name in match[1].split(", "))
    return names + (f" ({match[2]})" if match[2] else ""), code(match[3] or "")


def items(pairs: Iterable[tuple[str, str]]) -> str:
    """A list, of names with what is said of them."""
    lines = [f"{head}: {text}" if head and text else head or text for head, text in pairs]
    return "\n".join(
        textwrap.fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                      break_on_hyphens=False)
        for line in lines
    )  # fmt: skip


def filled(text: str) -> str:
    """A text in lines."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def prose(docstring: str) -> str:
    """A docstring on one line."""
    return code(" ".join(docstring.split()))


def code(text: str) -> str:
    """Roles and double backticks of a docstring as Markdown's code."""
    return _ROLE.sub(lambda match: f"`{match[1].rpartition('.')[2]}`", text).replace("``", "`")


def sentence(text: str) -> str:
    """A text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))
