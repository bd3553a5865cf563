"""The pipeline file: TOML, checked against a model, with values from the environment.

The format is a contract (README and ``docs/reference/pipeline-file.md``). A wrong name is refused with the
nearest right one, a ``${NAME}`` that the environment does not have with its name and place.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PrivateAttr, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails

from directkafka.errors import OptionError
from directkafka.options.durations import duration_ms
from directkafka.pipeline.sink_sections import SINK_SECTIONS, AnySinkSection, Section, SinkSection
from directkafka.planning.trigger import AvailableNow, Backlog, Delay, Interval, Trigger
from directkafka.stores.base import Sink

__all__ = ["PipelineSpec", "check_name", "load", "parse_duration_ms", "parse_trigger", "replay_name"]

_TRIGGER_FORMS = 'expected "1s", "available-now", { delay = "1s" } or { records = 100000, at_most = "5s" }'

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

#: What a pipeline's name may look like: it becomes part of names in the stores.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

#: A pipeline's replays have a ledger entry under its name and this.
_REPLAY = ".replay"


def check_name(name: str) -> None:
    """Refuse a pipeline's name that cannot be part of names in the stores, or is that of another's replays.

    Raises:
        OptionError: it is such a name.
    """
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise OptionError(option="name", reason=f"{name!r} does not match {NAME_PATTERN}")
    if name.endswith(_REPLAY):
        reason = f"{name!r} is what the replays of {name.removesuffix(_REPLAY)!r} are called: choose another ending"
        raise OptionError(option="name", reason=reason)


def replay_name(pipeline: str) -> str:
    """Under which name a pipeline's replays are in the ledgers."""
    return pipeline + _REPLAY


class PipelineSection(Section):
    """``[pipeline]``: who it is and when it runs."""

    name: Name = Field(description="Identity of the ledger entry; never reuse it for another job.")
    trigger: str | dict[str, Any] = Field(
        default="1s", description='An interval, "available-now", { delay } or { records, at_most }.'
    )
    engine: Literal["direct", "structured"] = Field(
        default="direct",
        description="direct: the ledger is the checkpoint; structured: Structured Streaming, for state across batches.",
    )
    checkpoint: str | None = Field(
        default=None, min_length=1, description="The structured engine's folder, of this pipeline alone."
    )
    output_mode: Literal["append", "update", "complete"] = Field(
        default="append", description="Of the structured engine: which rows of a stateful query a batch has."
    )


class SparkSection(Section):
    """``[spark]``: used only when no session exists yet."""

    master: str = Field(default="local[*]", description="Spark's master URL.")
    conf: dict[str, str | int | float | bool] = Field(
        default_factory=dict, repr=False, description="Spark settings by name."
    )


class TransformSection(Section):
    """``[transform]``: what becomes of the records; exactly one of the two."""

    sql: str | None = Field(default=None, description="A query over the view `source`.")
    python: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description='"module:function"; the function takes a DataFrame and returns one, or a dict of them.',
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> TransformSection:
        if (self.sql is None) == (self.python is None):
            raise ValueError("exactly one of sql and python is needed")
        return self


class PipelineSpec(Section):
    """A whole file."""

    pipeline: PipelineSection
    source: dict[str, str | int | bool] = Field(repr=False)
    transform: TransformSection
    sink: list[AnySinkSection] = Field(min_length=1)
    spark: SparkSection = SparkSection()
    dead_letters: AnySinkSection | None = None
    _path: Path = PrivateAttr(default=Path())

    @property
    def path(self) -> Path:
        """Where it was read from, for finding Python modules beside it."""
        return self._path

    @property
    def trigger(self) -> Trigger:
        """The trigger as a value."""
        return parse_trigger(self.pipeline.trigger, where=str(self.path))

    def source_options(self) -> dict[str, str]:
        """The data source's options as texts, as Spark would pass them."""
        return {name: _text(value) for name, value in self.source.items()}

    def sinks(self) -> dict[str, list[Sink]]:
        """The sinks of each output of the transform."""
        sinks: dict[str, list[Sink]] = {}
        for one in self.sink:
            sinks.setdefault(one.source_output, []).append(one.build())
        return sinks


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> PipelineSpec:
    """Read and check a pipeline file.

    Args:
        path: the file.
        environment: values for ``${NAME}``; the process's own by default.

    Raises:
        OptionError: no such file, not TOML, a name that is unknown or missing, a value of a wrong type.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(option=str(path), reason=f"the file cannot be read ({error.strerror})") from error
    except tomllib.TOMLDecodeError as error:
        raise OptionError(option=str(path), reason=f"the file is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise OptionError(option=str(path), reason=f"the file is not UTF-8 text: byte {error.start}") from error
    resolved = _substitute(content, os.environ if environment is None else environment, (), str(path))
    try:
        spec = PipelineSpec.model_validate(resolved)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        # A misspelt name is found twice, as unknown and as missing; the first of the two says more.
        first = min(found, key=lambda one: one["type"] != "extra_forbidden")
        raise _option_error(first, resolved, str(path)) from None
    spec._path = path
    parse_trigger(spec.pipeline.trigger, where=str(path))
    return spec


def parse_trigger(trigger: str | Mapping[str, Any], *, where: str = "") -> Trigger:
    """``"1s"``, ``"available-now"``, ``{"delay": "1s"}`` or ``{"records": 100000, "at_most": "5s"}`` as a value.

    Raises:
        OptionError: anything else.
    """
    if trigger == "available-now":
        return AvailableNow()
    if isinstance(trigger, str):
        return Interval(parse_duration_ms(trigger, option="trigger", where=where))
    if not isinstance(trigger, Mapping):
        raise OptionError(option="trigger", where=where, reason=f"{_TRIGGER_FORMS}, found {trigger!r}")
    if set(trigger) == {"delay"}:
        return Delay(parse_duration_ms(trigger["delay"], option="trigger.delay", where=where))
    if set(trigger) == {"records", "at_most"}:
        records = trigger["records"]
        if not isinstance(records, int) or isinstance(records, bool) or records < 1:
            raise OptionError(
                option="trigger.records", where=where, reason=f"expected a whole number above 0, found {records!r}"
            )
        return Backlog(records, parse_duration_ms(trigger["at_most"], option="trigger.at_most", where=where))
    raise OptionError(
        option="trigger",
        where=where,
        reason=f"{_TRIGGER_FORMS}, found the keys {', '.join(sorted(trigger)) or 'none'}",
    )


def parse_duration_ms(text: object, *, option: str, where: str = "") -> int:
    """A duration such as ``500ms``, ``1s``, ``5 min`` or ``2h`` in milliseconds.

    Raises:
        OptionError: anything else.
    """
    found = duration_ms(text) if isinstance(text, str) else None
    if found is None:
        raise OptionError(
            option=option, where=where, reason=f'expected a duration such as "500ms", "1s" or "5m", found {text!r}'
        )
    return found


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _substitute(value: Any, environment: Mapping[str, str], place: tuple[str, ...], where: str) -> Any:
    if isinstance(value, dict):
        return {name: _substitute(one, environment, (*place, name), where) for name, one in value.items()}
    if isinstance(value, list):
        return [_substitute(one, environment, (*place, str(i)), where) for i, one in enumerate(value)]
    if not isinstance(value, str):
        return value

    def from_environment(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise OptionError(
                option=".".join(place),
                where=where,
                reason=f"the environment variable {found[1]} is not set; export it or write the value here",
            )
        return environment[found[1]]

    return _VARIABLE.sub(from_environment, value)


def _option_error(first: ErrorDetails, content: Mapping[str, Any], where: str) -> OptionError:
    """pydantic's first finding in the words of the file; values are never repeated, they may be secrets."""
    place, value = _place(first["loc"], content)
    if first["type"] == "missing":
        place = (*place, str(first["loc"][-1]))
    option = ".".join(place) or "file"
    if first["type"].startswith("union_tag"):
        return _unknown_type(place, value, where)
    if first["type"] == "extra_forbidden":
        known = _names_at(first["loc"], place[:-1])
        nearest = difflib.get_close_matches(place[-1], known, n=1)
        hint = f"did you mean {nearest[0]!r}" if nearest else f"known are {', '.join(known)}"
        return OptionError(option=option, where=where, reason=f"no such name; {hint}")
    if first["type"] == "missing":
        return OptionError(option=option, where=where, reason=f"{_kind(first['loc'])} is missing")
    reason = str(first["msg"]).removeprefix("Value error, ")
    if place[0] in ("source", "spark") and len(place) > 1 and isinstance(value, Mapping):
        reason = f'a name with dots needs quotes: write "{".".join((place[-1], *_dotted(value)))}" = ...'
    elif place == ("sink",) and isinstance(value, Mapping):
        reason = "write [[sink]], in two brackets: there may be several"
    elif first["type"].endswith("_type"):
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
        except (KeyError, TypeError):
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


def _names_at(location: tuple[int | str, ...], place: tuple[str, ...]) -> list[str]:
    """The names that a section may have, by its place in the file; a sink's by its type."""
    sink = next((SINK_SECTIONS[str(part)] for part in location if part in SINK_SECTIONS), SinkSection)
    sections: dict[str, type[BaseModel]] = {
        "pipeline": PipelineSection,
        "spark": SparkSection,
        "transform": TransformSection,
        "sink": sink,
        "dead_letters": sink,
    }
    model = sections[place[0]] if place else PipelineSpec
    return [field.alias or name for name, field in model.model_fields.items()]


def _unknown_type(place: tuple[str, ...], section: Any, where: str) -> OptionError:
    option, known = ".".join((*place, "type")), ", ".join(map(repr, SINK_SECTIONS))
    if "type" not in section:
        return OptionError(option=option, where=where, reason=f"this name is missing; expected one of {known}")
    nearest = difflib.get_close_matches(str(section["type"]), SINK_SECTIONS, n=1)
    hint = f"; did you mean {nearest[0]!r}" if nearest else ""
    return OptionError(option=option, where=where, reason=f"expected one of {known}, found {section['type']!r}{hint}")
