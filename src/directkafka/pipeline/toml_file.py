"""A TOML file as text and as values: what is wrong with it before its names are looked at, and on which line a name is.

``${NAME}`` in a text is taken from the environment, ``${file:PATH:KEY}`` and ``${dir:PATH:KEY}`` from files whose paths
begin at the pipeline file. ``$${NAME}`` is the text ``${NAME}``: of dollars before a brace two stand for one, as in
Docker Compose. Dollars elsewhere are left alone.
"""

from __future__ import annotations

import difflib
import functools
import operator
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from directkafka.errors import OptionError
from directkafka.options.config_providers import CONFIG_PROVIDERS, REFERENCE_PATTERN, ValueNotProvidedError, value_at
from directkafka.options.spec import Mistakes
from directkafka.options.texts import fault_of_text
from directkafka.sinks.config import problems, reason_of
from directkafka.sinks.registry import sink_type
from directkafka.sinks.routing import Routing

#: Names of a section that are not the sink's.
TYPE, OUTPUT = "type", "from"
#: Names in place of the one table of a sink: which column names it, and which may be named.
TABLE_FROM, TABLES = "table_from", "tables"
_TABLE = "table"

#: Deeper than any name of a pipeline file, and far from what Python's own stack takes.
_DEPTH_MAX: Final = 32

_VARIABLE: Final = re.compile(rf"(\$+)\{{([A-Za-z_][A-Za-z0-9_]*|{REFERENCE_PATTERN})\}}")

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

    def where(self, *location: str) -> str:
        """File and line of a name, or of the table that it is missing in; the file alone where no line is known."""
        line = next(
            (self.lines[location[:end]] for end in range(len(location), 0, -1) if location[:end] in self.lines), None
        )
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
        tables = [table.values() if isinstance(table, dict) else table for table in level]
        level = [value for values in tables for value in values if isinstance(value, dict | list)]
    if level:
        raise OptionError(option=path, reason=f"the file is nested deeper than {_DEPTH_MAX} tables")


def substituted(
    file: TomlFile, environment: Mapping[str, str], mistakes: Mistakes, secrets: list[str]
) -> dict[str, Any]:
    """The content with ``${NAME}`` replaced.

    Args:
        file: the file.
        environment: the values.
        mistakes: gets the names that the environment lacks, and texts that no name or path could be.
        secrets: gets the values that stood in files.
    """

    def walked(value: Any, location: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            _refuse_providers(value, file, location, mistakes)
            return {name: walked(inner, (*location, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [walked(inner, (*location, str(number))) for number, inner in enumerate(value)]
        return text_of(value, location) if isinstance(value, str) else value

    def text_of(text: str, location: tuple[str, ...]) -> str:
        option, where = ".".join(location), file.where(*location)
        values: dict[str, str] = {}
        for name in dict.fromkeys(name for dollars, name in _VARIABLE.findall(text) if len(dollars) % 2):
            try:
                values[name] = _value(name, environment, file.path.parent)
                if name.startswith(("file:", "dir:")):
                    secrets.append(values[name])
            except ValueNotProvidedError as error:
                mistakes.add(OptionError(option=option, where=where, reason=str(error)))
        resolved_text = _VARIABLE.sub(lambda variable: _replaced(variable, values), text)
        if fault := fault_of_text(resolved_text):
            mistakes.add(OptionError(option=option, where=where, reason=fault))
        return resolved_text

    return {name: walked(value, (name,)) for name, value in file.content.items()}


def _refuse_providers(
    section: Mapping[str, Any], file: TomlFile, location: tuple[str, ...], mistakes: Mistakes
) -> None:
    """Places are replaced once: a value that looks like one must not be taken for a place by Kafka's own setting."""
    for name in section:
        if name.lower().removeprefix("kafka.") == CONFIG_PROVIDERS.name:
            reason = "has no place in a pipeline file, where ${file:...}, ${dir:...} and ${env:...} need no provider"
            option, where = ".".join((*location, name)), file.where(*location, name)
            mistakes.add(OptionError(option=option, where=where, reason=reason))


def _value(name: str, environment: Mapping[str, str], folder: Path) -> str:
    if ":" in name:
        return value_at(name, environment=environment, folder=folder)
    if name not in environment:
        reason = f"the environment variable {name} is not set; export it or write the value here"
        raise ValueNotProvidedError(reason)
    return environment[name]


def _replaced(match: re.Match[str], values: Mapping[str, str]) -> str:
    dollars, name = len(match[1]), match[2]
    literal = "$" * (dollars // 2)
    return literal + (values.get(name, match[0]) if dollars % 2 else f"{{{name}}}")


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
    return tuple(name[1:-1] if name[0] in "\"'" else name for name in re.findall(_NAME, names))


_Models = Mapping[str, type[BaseModel]]


def option_errors(
    error: ValidationError, content: Mapping[str, Any], file: TomlFile, models: _Models
) -> Iterator[OptionError]:
    """One error for each place of the file that is wrong.

    Args:
        error: what pydantic found.
        content: what it was given.
        file: for the lines.
        models: those of the sections by name; the empty one is the file's.
    """
    errors = error.errors(include_url=False, include_input=False)
    told: set[str] = set()
    for details in _unknown_first(errors, lambda details: _known_at(details["loc"], models)):
        error_of_location = _option_error(details, content, file, models)
        # Of the alternatives of a union each has its own finding.
        if error_of_location.option not in told:
            told.add(error_of_location.option)
            yield error_of_location


def own_names(*, is_routed: bool) -> tuple[str, ...]:
    """The names of a sink's section that are not the sink's arguments.

    Args:
        is_routed: whether a column says which table a row goes into.
    """
    return (TYPE, OUTPUT, TABLE_FROM, TABLES) if is_routed else (TYPE, OUTPUT)


def _routing_problems(section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with the names of a section whose rows say which table they go into."""
    try:
        Routing.parse(section.get(TABLE_FROM), section.get(TABLES))
    except OptionError as error:
        yield error.option, error.reason
    if _TABLE in section:
        yield _TABLE, f"the tables are named by {TABLE_FROM} and {TABLES}: keep one of both"


def sink_errors(
    section: Mapping[str, Any], file: TomlFile, *location: str, beside: Sequence[str] = ()
) -> Iterator[OptionError]:
    """One error for each name of a sink's section that is wrong.

    Args:
        section: what the file has.
        file: for the lines.
        location: where the section stands in the file.
        beside: names that it may have beside the sink's, and that are looked at elsewhere.
    """

    def wrong(reason: str, *inner: object) -> OptionError:
        names = (*location, *map(str, inner))
        return OptionError(option=".".join(names), where=file.where(*names), reason=reason)

    if not isinstance(section.get(TYPE, ""), str):
        yield wrong(f"Input should be a valid string, {_found_type(section[TYPE])}", TYPE)
        return
    try:
        sink: Any = sink_type(section.get(TYPE))
    except OptionError as error:
        yield wrong(error.reason, TYPE)
        return
    if not isinstance(section.get(OUTPUT, ""), str):
        yield wrong(f"Input should be a valid string, {_found_type(section[OUTPUT])}", OUTPUT)
    is_routed = _TABLE in sink.__pydantic_fields__ and not {TABLE_FROM, TABLES}.isdisjoint(section)
    yield from (wrong(reason, name) for name, reason in _routing_problems(section) if is_routed)
    rest = {name: value for name, value in section.items() if name not in own_names(is_routed=is_routed)}
    known = {sink.SECTION_NAMES.get(name, name): name for name in sink.__pydantic_fields__}
    try:
        arguments = sink.arguments(rest)
    except ValueError as error:
        yield wrong(str(error))
        return
    arguments = {_TABLE: "any", **arguments} if is_routed else arguments
    names = [TYPE, OUTPUT, *known, *[TABLE_FROM, TABLES] * (_TABLE in known), *beside]
    for details in _unknown_first(problems(sink, arguments), lambda _: names):
        argument, *inner = details["loc"]
        name = sink.SECTION_NAMES.get(argument, argument)
        if details["type"] == "unexpected_keyword_argument":
            yield wrong(_no_such_name(name, names), name)
        elif details["type"] == "missing":
            yield wrong("this name is missing", name)
        else:
            reason = reason_of(details, sink.__pydantic_fields__[argument])
            value = functools.reduce(operator.getitem, inner, arguments[argument])
            is_of_type = details["type"].endswith("_type") or details["type"] == "sequence_str"
            yield wrong(f"{reason}, {_found_type(value)}" if is_of_type else reason, name, *inner)


def _unknown_first(
    errors: Sequence[ErrorDetails], known: Callable[[ErrorDetails], Sequence[str]]
) -> Iterator[ErrorDetails]:
    """A misspelt name is found twice, as unknown and as missing: only the first of the two is told, which says more."""
    likely_names: set[tuple[int | str, ...]] = set()
    for details in errors:
        if details["type"] in _UNKNOWN:
            likely_names.update(
                (*details["loc"][:-1], name) for name in _nearest(str(details["loc"][-1]), known(details))
            )
            yield details
    yield from (
        details
        for details in errors
        if details["type"] not in _UNKNOWN and not (details["type"] == "missing" and details["loc"] in likely_names)
    )


_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    return difflib.get_close_matches(name, known, n=1)


def _no_such_name(name: str, known: Sequence[str]) -> str:
    near = _nearest(name, known)
    return f"no such name; did you mean {near[0]!r}" if near else f"no such name; known are {', '.join(known)}"


def _option_error(details: ErrorDetails, content: Mapping[str, Any], file: TomlFile, models: _Models) -> OptionError:
    location, value = _location_in_file(details["loc"], content)
    if details["type"] == "missing":
        location = (*location, str(details["loc"][-1]))
    option, where = ".".join(location) or "file", file.where(*location)
    if details["type"] == "extra_forbidden":
        return OptionError(
            option=option, where=where, reason=_no_such_name(location[-1], _known_at(details["loc"], models))
        )
    if details["type"] == "missing":
        return OptionError(option=option, where=where, reason=f"{_kind(details['loc'])} is missing")
    reason = str(details["msg"]).removeprefix("Value error, ")
    if location and location[0] in ("source", "spark") and len(location) > 1 and isinstance(value, Mapping):
        reason = f'a name with dots needs quotes: write "{".".join((location[-1], *_dotted(value)))}" = ...'
    elif location == ("sink",) and isinstance(value, Mapping):
        reason = "write [[sink]], in two brackets: there may be several"
    elif details["type"].endswith("_type"):
        reason += f", {_found_type(value)}"
    return OptionError(option=option, where=where, reason=reason)


def _found_type(value: object) -> str:
    return f"found {_TOML_TYPES.get(type(value), type(value).__name__)}"


_TOML_TYPES = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    dict: "a table",
    list: "an array",
}


def _location_in_file(location: tuple[int | str, ...], content: Any) -> tuple[tuple[str, ...], Any]:
    """The part of pydantic's location that stands in the file, and what stands there.

    Behind it pydantic names the alternatives of a union, which mean nothing to a reader, or what is missing.
    """
    location_in_file: list[str] = []
    for part in location:
        try:
            content = content[part]
        except (KeyError, TypeError, IndexError):
            break
        location_in_file.append(str(part))
    return tuple(location_in_file), content


def _kind(location: tuple[int | str, ...]) -> str:
    if len(location) > 1:
        return "this name"
    return "the section [[sink]]" if location == ("sink",) else f"the section [{location[0]}]"


def _dotted(value: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that an unquoted name with dots was taken apart into."""
    name, inner = next(iter(value.items()), ("...", None))
    return (name, *(_dotted(inner) if isinstance(inner, Mapping) else ()))


def _known_at(location: tuple[int | str, ...], models: _Models) -> list[str]:
    """The names that the section at a place of the file may have."""
    model = models[str(location[0]) if len(location) > 1 else ""]
    return [field.alias or name for name, field in model.model_fields.items()]
