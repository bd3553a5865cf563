"""A TOML file as text and as values: what is wrong with it before its names are looked at, and on which line a name is.

``${NAME}`` in a text is taken from the environment. ``$${NAME}`` is the text ``${NAME}``: of dollars before a brace two
stand for one, as in Docker Compose. Dollars elsewhere are left alone.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from directkafka.errors import OptionError
from directkafka.options.spec import Mistakes
from directkafka.options.texts import fault_of_text

__all__ = ["TomlFile", "read_file", "substituted"]

#: Deeper than any name of a pipeline file, and far from what Python's own stack takes.
_DEPTH_MAX: Final = 32

_VARIABLE: Final = re.compile(r"(\$+)\{([A-Za-z_][A-Za-z0-9_]*)\}")

_NAME: Final = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_NAMES: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_NAMES})\s*\]")
_KEY: Final = re.compile(rf"\s*({_NAMES})\s*=")
_MULTILINE: Final = re.compile(r"\"\"\"|'''")


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlFile:
    """A file that has been read.

    Attributes:
        path: where it is.
        content: its values.
        lines: the line of each table and name, by place.
    """

    path: Path
    content: Mapping[str, Any]
    lines: Mapping[tuple[str, ...], int]

    def where(self, *place: str) -> str:
        """File and line of a name, or of the table that it is missing in; the file alone where no line is known."""
        line = next((self.lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in self.lines), None)
        return str(self.path) if line is None else f"{self.path}, line {line}"


def read_file(path: str | Path) -> TomlFile:
    """Read a file.

    Raises:
        OptionError: it is not there, is no text, or no TOML.
    """
    shown = str(path)
    if fault := fault_of_text(shown):
        raise OptionError(option="file", reason=f"the name {fault}", where="the call")
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = tomllib.loads(text)
        _check_depth(content, shown)
    except OSError as error:
        raise OptionError(option=shown, reason=f"the file cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise OptionError(option=shown, reason=f"the file is not UTF-8 text: byte {error.start}") from error
    except ValueError as error:
        # tomllib's own, or Python's for a number of too many digits.
        raise OptionError(option=shown, reason=f"the file is not TOML: {error}") from error
    except RecursionError:
        raise OptionError(option=shown, reason="the file is nested too deep") from None
    return TomlFile(path=Path(path), content=content, lines=dict(_lines(text)))


def _check_depth(content: Any, path: str) -> None:
    """Refuse what no pipeline file has: names with dots nest without a bound, and are not read by recursion."""
    level = [content]
    for _ in range(_DEPTH_MAX):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [one for some in inner for one in some]
    if level:
        raise OptionError(option=path, reason=f"the file is nested deeper than {_DEPTH_MAX} tables")


def substituted(file: TomlFile, environment: Mapping[str, str], mistakes: Mistakes) -> dict[str, Any]:
    """The content with ``${NAME}`` replaced.

    Args:
        file: the file.
        environment: the values.
        mistakes: gets the names that the environment lacks, and texts that no name or path could be.
    """

    def walked(value: Any, place: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {name: walked(one, (*place, name)) for name, one in value.items()}
        if isinstance(value, list):
            return [walked(one, (*place, str(number))) for number, one in enumerate(value)]
        return text_of(value, place) if isinstance(value, str) else value

    def text_of(text: str, place: tuple[str, ...]) -> str:
        option, where = ".".join(place), file.where(*place)
        names = [name for dollars, name in _VARIABLE.findall(text) if len(dollars) % 2]
        for name in dict.fromkeys(one for one in names if one not in environment):
            reason = f"the environment variable {name} is not set; export it or write the value here"
            mistakes.add(OptionError(option=option, where=where, reason=reason))
        found = _VARIABLE.sub(lambda one: _value(one, environment), text)
        if fault := fault_of_text(found):
            mistakes.add(OptionError(option=option, where=where, reason=fault))
        return found

    return {name: walked(one, (name,)) for name, one in file.content.items()}


def _value(found: re.Match[str], environment: Mapping[str, str]) -> str:
    dollars, name = len(found[1]), found[2]
    literal = "$" * (dollars // 2)
    return literal + (environment.get(name, found[0]) if dollars % 2 else f"{{{name}}}")


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The line of each table and name. Of a multi-line text nothing is taken for one."""
    table: tuple[str, ...] = ()
    counts: Counter[tuple[str, ...]] = Counter()
    open_by = ""
    for number, line in enumerate(text.splitlines(), start=1):
        is_inside = bool(open_by)
        for mark in _MULTILINE.findall(line):
            open_by = "" if open_by == mark else open_by or mark
        if is_inside:
            continue
        if header := _HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] += 1
                table = (*table, str(counts[table] - 1))
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *_parts(key[1])), number


def _parts(names: str) -> tuple[str, ...]:
    return tuple(one[1:-1] if one[0] in "\"'" else one for one in re.findall(_NAME, names))
