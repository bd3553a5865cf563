"""pydantic's findings in the words of a pipeline file. Values are never repeated: they may be secrets."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from directkafka.errors import OptionError
from directkafka.options.spec import shown
from directkafka.pipeline.sink_sections import SINK_SECTIONS, SinkSection
from directkafka.pipeline.toml_file import TomlFile

__all__ = ["option_errors"]

_Models = Mapping[str, type[BaseModel]]


def option_errors(
    error: ValidationError, content: Mapping[str, Any], file: TomlFile, models: _Models
) -> Iterator[OptionError]:
    """One error for each place of the file that is wrong.

    Args:
        error: what pydantic found.
        content: what it was given.
        file: for the lines.
        models: those of the sections by name; the empty one is the file's. A sink's is found by its type.
    """
    found = error.errors(include_url=False, include_input=False)
    # A misspelt name is found twice, as unknown and as missing; the first of the two says more.
    unknown = [one for one in found if one["type"] == "extra_forbidden"]
    told: set[str] = set()
    meant: set[tuple[int | str, ...]] = set()
    for one in (*unknown, *(one for one in found if one not in unknown)):
        if one["type"] == "missing" and one["loc"] in meant:
            continue
        error_of_place = _option_error(one, content, file, models)
        if one["type"] == "extra_forbidden" and (name := _nearest(one, content, models)):
            meant.add((*one["loc"][:-1], name))
        # Of the alternatives of a union each has its own finding.
        if error_of_place.option not in told:
            told.add(error_of_place.option)
            yield error_of_place


def _nearest(one: ErrorDetails, content: Mapping[str, Any], models: _Models) -> str:
    place, _ = _place(one["loc"], content)
    nearest = difflib.get_close_matches(place[-1], _names_at(one["loc"], place[:-1], models), n=1)
    return nearest[0] if nearest else ""


def _option_error(one: ErrorDetails, content: Mapping[str, Any], file: TomlFile, models: _Models) -> OptionError:
    place, value = _place(one["loc"], content)
    if one["type"] == "missing":
        place = (*place, str(one["loc"][-1]))
    option, where = ".".join(place) or "file", file.where(*place)
    if one["type"].startswith("union_tag"):
        return _unknown_type(place, value, where)
    if one["type"] == "extra_forbidden":
        nearest = _nearest(one, content, models)
        known = _names_at(one["loc"], place[:-1], models)
        hint = f"did you mean {nearest!r}" if nearest else f"known are {', '.join(known)}"
        return OptionError(option=option, where=where, reason=f"no such name; {hint}")
    if one["type"] == "missing":
        return OptionError(option=option, where=where, reason=f"{_kind(one['loc'])} is missing")
    reason = str(one["msg"]).removeprefix("Value error, ")
    if place and place[0] in ("source", "spark") and len(place) > 1 and isinstance(value, Mapping):
        reason = f'a name with dots needs quotes: write "{".".join((place[-1], *_dotted(value)))}" = ...'
    elif place == ("sink",) and isinstance(value, Mapping):
        reason = "write [[sink]], in two brackets: there may be several"
    elif one["type"].endswith("_type"):
        reason += f", found {_TOML_TYPES.get(type(value), type(value).__name__)}"
    return OptionError(option=option, where=where, reason=reason)


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
        if part in SINK_SECTIONS and isinstance(content, Mapping) and content.get("type") == part:
            continue
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


def _names_at(location: tuple[int | str, ...], place: tuple[str, ...], models: _Models) -> list[str]:
    """The names that a section may have, by its place in the file; a sink's by its type."""
    sink = next((SINK_SECTIONS[str(part)] for part in location if part in SINK_SECTIONS), SinkSection)
    model = models.get(place[0] if place else "", sink)
    return [field.alias or name for name, field in model.model_fields.items()]


def _unknown_type(place: tuple[str, ...], section: Any, where: str) -> OptionError:
    option, known = ".".join((*place, "type")), ", ".join(map(repr, SINK_SECTIONS))
    if "type" not in section:
        return OptionError(option=option, where=where, reason=f"this name is missing; expected one of {known}")
    nearest = difflib.get_close_matches(str(section["type"]), SINK_SECTIONS, n=1)
    hint = f"; did you mean {nearest[0]!r}" if nearest else ""
    reason = f"expected one of {known}, found {shown(section['type'])}{hint}"
    return OptionError(option=option, where=where, reason=reason)
