"""The pipeline file: TOML, checked against a model, with values from the environment; and the sinks it names.

The format is a contract (README and ``docs/reference/pipeline-file.md``). A wrong name is refused with the
nearest right one, a ``${NAME}`` that the environment does not have with its name and place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StringConstraints, ValidationError, model_validator

from directkafka.errors import OptionError
from directkafka.options.payloads import PAYLOAD_COLUMNS
from directkafka.options.source import SourceOptions
from directkafka.options.spec import Mistakes, shown
from directkafka.pipeline.isolation.policy import MAX_PER_BATCH, POLICY_NAMES, DeadLetterPolicy, OnError
from directkafka.pipeline.sink_section import SinkSection, dead_letter_policy, without_policy
from directkafka.pipeline.toml_file import TomlFile, option_errors, read_file, sink_errors, substituted
from directkafka.planning.trigger import Trigger, parse_duration_ms, parse_trigger
from directkafka.sinks.api import Sink

__all__ = [
    "PipelineSpec",
    "check_name",
    "is_pipeline",
    "load",
    "parse_duration_ms",
    "parse_trigger",
    "pause_name",
    "replay_name",
]


#: Options of a pipeline's source where the user says nothing: it must not write what a transaction took back.
SOURCE_DEFAULTS: Final = {"kafka.isolation.level": "read_committed"}


#: What a pipeline's name may look like: it becomes part of names in the stores.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

#: A pipeline's replays have a ledger entry under its name and this; and so has its pause.
_REPLAY = ".replay"
_PAUSE = ".paused"


def check_name(name: str) -> None:
    """Refuse a pipeline's name that cannot be part of names in the stores, or is that of another's replays.

    Raises:
        OptionError: it is such a name.
    """
    if re.fullmatch(NAME_PATTERN, name) is None:
        raise OptionError(option="name", reason=f"{shown(name)} does not match {NAME_PATTERN}")
    for ending, what in ((_REPLAY, "the replays"), (_PAUSE, "the pauses")):
        if name.endswith(ending):
            reason = f"{name!r} is what {what} of {name.removesuffix(ending)!r} are called: choose another ending"
            raise OptionError(option="name", reason=reason)


def is_pipeline(name: str) -> bool:
    """Whether a name in the ledgers is a pipeline's, and not that of its replays or its pause."""
    return not name.endswith((_REPLAY, _PAUSE))


def pause_name(pipeline: str) -> str:
    """Under which name a pipeline's pause is in the ledgers."""
    return pipeline + _PAUSE


def replay_name(pipeline: str) -> str:
    """Under which name a pipeline's replays are in the ledgers."""
    return pipeline + _REPLAY


class Section(BaseModel):
    """A table of the file: names that are not here are refused, values are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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
    execution: Literal["auto", "spark"] = Field(
        default="auto",
        description="auto: rows stay in the Python workers that read them, where the transform is one of Arrow batches "
        "or there is none; spark: they pass through Spark in any case.",
    )
    commit_to_group: str | None = Field(
        default=None,
        min_length=1,
        description="A consumer group to which the offsets are committed after each batch and at the end, so that "
        "tools that know Kafka's groups see how far the pipeline is. Never read back; a refusal is a warning.",
    )
    retry_ms_max: int = Field(
        default=60_000,
        ge=0,
        description="For how many milliseconds a step is tried again if its failure may pass (a database restarts).",
    )


class SparkSection(Section):
    """``[spark]``: used only when no session exists yet."""

    master: str = Field(default="local[*]", description="Spark's master URL.")
    conf: dict[str, str | int | float | bool] = Field(
        default_factory=dict, repr=False, description="Spark settings by name."
    )


class TransformSection(Section):
    """``[transform]``: what becomes of the records; at most one of the three. Without one, the columns as they are."""

    sql: str | None = Field(default=None, description="A query over the view `source`.")
    python: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description='"module:function"; the function takes a DataFrame and returns one, or a dict of them.',
    )

    arrow: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description='"module:function"; the function takes an Arrow RecordBatch and returns one, or a dict of them. It '
        "runs where the records are read, on executors.",
    )

    @model_validator(mode="after")
    def _one_at_most(self) -> TransformSection:
        if sum(given is not None for given in (self.sql, self.python, self.arrow)) > 1:
            raise ValueError("only one of sql, python and arrow can be given")
        return self


class DeadLettersSection(Section):
    """``[dead_letters]``, beside the names of its sink: what becomes of records that make their batch fail."""

    on_error: OnError = Field(
        default="fail",
        description="fail: the pipeline stops where the transform raises or a sink refuses a row; isolate: the batch "
        "is halved until the records that do it are found, these become dead letters, and the rest goes on.",
    )
    max_per_batch: int = Field(
        default=MAX_PER_BATCH,
        ge=1,
        description="How many records of a batch may be set apart by isolate; with more of them the pipeline stops.",
    )


class PipelineSpec(Section):
    """A whole file."""

    pipeline: PipelineSection
    source: dict[str, str | int | bool] = Field(repr=False)
    transform: TransformSection = TransformSection()
    sink: list[dict[str, Any]] = Field(min_length=1, repr=False)
    spark: SparkSection = SparkSection()
    dead_letters: dict[str, Any] | None = Field(default=None, repr=False)
    _file: TomlFile = PrivateAttr(default=TomlFile(path=Path(), content={}, lines={}))
    #: Values that stood in other files: no message shows them.
    _secrets: list[str] = PrivateAttr(default_factory=list)

    @property
    def path(self) -> Path:
        """Where it was read from, for finding Python modules beside it."""
        return self._file.path

    def where(self, *location: str) -> str:
        """File and line of a name."""
        return self._file.where(*location)

    def masked(self, error: OptionError) -> OptionError:
        """The error without values that stood in other files."""
        mistakes = Mistakes(self._secrets)
        mistakes.add(error)
        return mistakes.together()

    @property
    def trigger(self) -> Trigger:
        """The trigger as a value."""
        return parse_trigger(self.pipeline.trigger, where=str(self.path))

    def source_options(self) -> dict[str, str]:
        """The data source's options as texts, as Spark would pass them."""
        return {name: _text(value) for name, value in self.source.items()}

    def source_parsed(self) -> SourceOptions:
        """The source's options as a pipeline takes them.

        Raises:
            OptionError: an option is wrong.
        """
        try:
            return SourceOptions.parse(
                self.source_options(), streaming=True, defaults=SOURCE_DEFAULTS, where=self.where("source")
            )
        except OptionError as error:
            raise self.masked(error) from None

    def arguments(self) -> dict[str, Any]:
        """Those of a pipeline, but for the transform.

        Raises:
            OptionError: see :meth:`sinks`.
        """
        sinks, dead_letters = self.sinks()
        section = self.pipeline.model_dump()
        return {
            **section,
            "source": self.source_options(),
            "sinks": sinks,
            "dead_letters": dead_letters,
            "master": self.spark.master,
            "spark_conf": self.spark.conf,
        }

    def sinks(self) -> tuple[dict[str, list[Sink]], DeadLetterPolicy | None]:
        """The sinks of each output of the transform, and what becomes of dead letters.

        Raises:
            OptionError: what the sections say makes no sense together; with the source's mistakes, if it has any.
        """
        sinks: dict[str, list[Sink]] = {}
        dead_letters: DeadLetterPolicy | None = None
        mistakes = Mistakes(self._secrets)
        for number, content in enumerate(self.sink):
            with mistakes.kept(self.where("sink", str(number))):
                section = SinkSection.of(content)
                sinks.setdefault(section.source_output, []).extend(section.sinks())
        if self.dead_letters is not None:
            with mistakes.kept(self.where("dead_letters")):
                dead_letters = dead_letter_policy(self.dead_letters)
        if mistakes:
            _look_at_source(self.source, mistakes, where=self.where("source"))
            raise mistakes.together()
        return sinks, dead_letters


#: Where the section of dead letters stands.
_DEAD_LETTERS: Final = ("dead_letters",)

#: The models of the file's sections, by name; the empty one is the file. Sinks have configurations of their own.
_SECTIONS: dict[str, type[BaseModel]] = {
    "": PipelineSpec,
    "pipeline": PipelineSection,
    "spark": SparkSection,
    "transform": TransformSection,
}


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> PipelineSpec:
    """Read and check a pipeline file.

    Args:
        path: the file.
        environment: values for ``${NAME}``; the process's own by default.

    Raises:
        OptionError: no such file, not TOML, a name that is unknown or missing, a value of a wrong type. All mistakes
            are told at once.
    """
    file = read_file(path)
    secrets: list[str] = []
    mistakes = Mistakes(secrets)
    resolved = substituted(file, os.environ if environment is None else environment, mistakes, secrets)
    resolved = _with_payload_options(resolved, file, mistakes)
    try:
        spec = PipelineSpec.model_validate(resolved)
    except ValidationError as error:
        for option_error in option_errors(error, resolved, file, _SECTIONS):
            mistakes.add(option_error)
        spec = None
    for location, section in _sink_sections(resolved):
        beside = POLICY_NAMES if location == _DEAD_LETTERS else ()
        for sink_error in sink_errors(section, file, *location, beside=beside):
            mistakes.add(sink_error)
    _check_policy(resolved.get("dead_letters"), file, mistakes)
    if spec is not None:
        spec._file, spec._secrets = file, secrets
        with mistakes.kept():
            parse_trigger(spec.pipeline.trigger, where=file.where("pipeline", "trigger"))
    if spec is None or mistakes:
        _look_at_source(resolved.get("source"), mistakes, where=file.where("source"))
        raise mistakes.together()
    return spec


def _with_payload_options(content: dict[str, Any], file: TomlFile, mistakes: Mistakes) -> dict[str, Any]:
    """The content with ``[source.value]`` and ``[source.key]`` as the options that they are: ``value.format``, ..."""
    source = content.get("source")
    if not isinstance(source, dict):
        return content
    options = {name: value for name, value in source.items() if name not in PAYLOAD_COLUMNS}
    for column in PAYLOAD_COLUMNS:
        tables: list[tuple[tuple[str, ...], Any]] = [((column,), source[column])] if column in source else []
        while tables:
            names, value = tables.pop()
            name = ".".join(names)
            if isinstance(value, dict):
                tables += [((*names, inner), below) for inner, below in value.items()]
            elif name in options:
                where = file.where("source", *names)
                mistakes.add(OptionError(option=f"source.{name}", where=where, reason="is given twice"))
            else:
                options[name] = value
    return {**content, "source": options}


def _sink_sections(content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The sections of sinks that are tables, with their places; of others the model says what they are."""
    sinks, dead_letters = content.get("sink"), content.get("dead_letters")
    for number, section in enumerate(sinks if isinstance(sinks, list) else []):
        if isinstance(section, dict):
            yield ("sink", str(number)), section
    if isinstance(dead_letters, dict):
        yield _DEAD_LETTERS, without_policy(dead_letters)


def _check_policy(section: object, file: TomlFile, mistakes: Mistakes) -> None:
    """Add what is wrong with the names of ``[dead_letters]`` that are not its sink's."""
    if not isinstance(section, dict):
        return
    try:
        DeadLettersSection.model_validate({name: section[name] for name in POLICY_NAMES if name in section})
    except ValidationError as error:
        for details in error.errors(include_url=False, include_input=False):
            location = (*_DEAD_LETTERS, str(details["loc"][0]))
            mistakes.add(
                OptionError(option=".".join(location), where=file.where(*location), reason=str(details["msg"]))
            )


def _look_at_source(section: object, mistakes: Mistakes, *, where: str) -> None:
    """Add the mistakes of the source's options, which count for nothing else here: a pipeline reads them itself.

    Args:
        section: what the file has.
        mistakes: gets them.
        where: file and line of the section.
    """
    if isinstance(section, dict) and all(isinstance(value, str | int) for value in section.values()):
        with mistakes.kept():
            SourceOptions.parse({name: _text(value) for name, value in section.items()}, streaming=True, where=where)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
