"""pydantic's findings in the words of a pipeline file. Values are never repeated: they may be secrets."""

from __future__ import annotations

import difflib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from directkafka.errors import OptionError
from directkafka.pipeline.sink_sections import OUTPUT, TYPE
from directkafka.pipeline.toml_file import TomlFile
from directkafka.sinks.config import problems, reason_of
from directkafka.sinks.registry import sink_type

__all__ = ["option_errors", "sink_errors"]

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
    found = error.errors(include_url=False, include_input=False)
    told: set[str] = set()
    for one in _unknown_first(found, lambda one: _known_at(one["loc"], models)):
        error_of_place = _option_error(one, content, file, models)
        # Of the alternatives of a union each has its own finding.
        if error_of_place.option not in told:
            told.add(error_of_place.option)
            yield error_of_place


def sink_errors(section: Mapping[str, Any], file: TomlFile, *place: str) -> Iterator[OptionError]:
    """One error for each name of a sink's section that is wrong.

    Args:
        section: what the file has.
        file: for the lines.
        place: where the section stands in the file.
    """

    def wrong(reason: str, *inner: object) -> OptionError:
        names = (*place, *map(str, inner))
        return OptionError(option=".".join(names), where=file.where(*names), reason=reason)

    if not isinstance(section.get(TYPE, ""), str):
        yield wrong(f"Input should be a valid string, {_found(section[TYPE])}", TYPE)
        return
    try:
        sink: Any = sink_type(section.get(TYPE))
    except OptionError as error:
        yield wrong(error.reason, TYPE)
        return
    if not isinstance(section.get(OUTPUT, ""), str):
        yield wrong(f"Input should be a valid string, {_found(section[OUTPUT])}", OUTPUT)
    rest = {name: value for name, value in section.items() if name not in (TYPE, OUTPUT)}
    known = {sink.SECTION_NAMES.get(name, name): name for name in sink.__pydantic_fields__}
    try:
        arguments = sink.arguments(rest)
    except ValueError as error:
        yield wrong(str(error))
        return
    names = [TYPE, OUTPUT, *known]
    for one in _unknown_first(problems(sink, arguments), lambda _: names):
        argument, *inner = one["loc"]
        name = sink.SECTION_NAMES.get(argument, argument)
        if one["type"] == "unexpected_keyword_argument":
            yield wrong(_no_such_name(name, names), name)
        elif one["type"] == "missing":
            yield wrong("this name is missing", name)
        else:
            reason = reason_of(one, sink.__pydantic_fields__[argument])
            value = functools.reduce(operator.getitem, inner, arguments[argument])
            is_of_type = one["type"].endswith("_type") or one["type"] == "sequence_str"
            yield wrong(f"{reason}, {_found(value)}" if is_of_type else reason, name, *inner)


def _unknown_first(
    found: Sequence[ErrorDetails], known: Callable[[ErrorDetails], Sequence[str]]
) -> Iterator[ErrorDetails]:
    """A misspelt name is found twice, as unknown and as missing: only the first of the two is told, which says more."""
    meant: set[tuple[int | str, ...]] = set()
    for one in found:
        if one["type"] in _UNKNOWN:
            meant.update((*one["loc"][:-1], name) for name in _nearest(str(one["loc"][-1]), known(one)))
            yield one
    yield from (
        one for one in found if one["type"] not in _UNKNOWN and not (one["type"] == "missing" and one["loc"] in meant)
    )


_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def _nearest(name: str, known: Sequence[str]) -> list[str]:
    return difflib.get_close_matches(name, known, n=1)


def _no_such_name(name: str, known: Sequence[str]) -> str:
    near = _nearest(name, known)
    return f"no such name; did you mean {near[0]!r}" if near else f"no such name; known are {', '.join(known)}"


def _option_error(one: ErrorDetails, content: Mapping[str, Any], file: TomlFile, models: _Models) -> OptionError:
    place, value = _place(one["loc"], content)
    if one["type"] == "missing":
        place = (*place, str(one["loc"][-1]))
    option, where = ".".join(place) or "file", file.where(*place)
    if one["type"] == "extra_forbidden":
        return OptionError(option=option, where=where, reason=_no_such_name(place[-1], _known_at(one["loc"], models)))
    if one["type"] == "missing":
        return OptionError(option=option, where=where, reason=f"{_kind(one['loc'])} is missing")
    reason = str(one["msg"]).removeprefix("Value error, ")
    if place and place[0] in ("source", "spark") and len(place) > 1 and isinstance(value, Mapping):
        reason = f'a name with dots needs quotes: write "{".".join((place[-1], *_dotted(value)))}" = ...'
    elif place == ("sink",) and isinstance(value, Mapping):
        reason = "write [[sink]], in two brackets: there may be several"
    elif one["type"].endswith("_type"):
        reason += f", {_found(value)}"
    return OptionError(option=option, where=where, reason=reason)


def _found(value: object) -> str:
    return f"found {_TOML_TYPES.get(type(value), type(value).__name__)}"


_TOML_TYPES = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    dict: "a table",
    list: "an array",
}


def _place(location: tuple[int | str, ...], content: Any) -> tuple[tuple[str, ...], Any]:
    """The part of pydantic's location that stands in the file, and what stands there.

    Behind it pydantic names the alternatives of a union, which mean nothing to a reader, or what is missing.
    """
    place: list[str] = []
    for part in location:
        try:
            content = content[part]
        except (KeyError, TypeError, IndexError):
            break
        place.append(str(part))
    return tuple(place), content


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
