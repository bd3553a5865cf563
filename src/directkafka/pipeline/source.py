"""The source of a pipeline: its options as they are parsed, and as Spark is given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from pyspark.sql import SparkSession

from directkafka.errors import OptionError
from directkafka.options.payloads import (
    AS_IT_CAME,
    LATEST,
    UNREAD,
    check_dead_letters,
    in_time_zone,
    kept_columns,
)
from directkafka.options.read_policy import COLUMNS, HEADERS
from directkafka.options.source import SourceOptions
from directkafka.options.spec import shown, specs_of
from directkafka.options.texts import fault_of_text
from directkafka.payloads.reader_schemas import asks_registry, subject_of, topics_of, with_reader_schemas
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.file import SOURCE_DEFAULTS

_GROUP: Final = "commit_to_group"


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """What a pipeline reads.

    Attributes:
        options: as parsed; with the columns that dead letters need beside decoded payloads.
        given: the same for Spark's format ``directkafka``.
    """

    options: SourceOptions
    given: Mapping[str, str]

    @classmethod
    def of(
        cls,
        given: Mapping[str, str],
        routes: Sequence[Route],
        *,
        commit_to_group: str | None = None,
        is_structured: bool = False,
    ) -> Self:
        """Read the options of a source.

        Args:
            given: as the user gave them.
            routes: the pipeline's.
            commit_to_group: the pipeline's group for lag tools.
            is_structured: whether Spark plans the batches.

        Raises:
            OptionError: an option is wrong; two places name a group; or records that cannot be read are to become dead
                letters, and there is no place for these.
        """
        options = SourceOptions.parse(given, streaming=True, defaults=SOURCE_DEFAULTS)
        if commit_to_group is not None:
            _check_group(commit_to_group, options.commit_to_group)
            options = replace(options, commit_to_group=commit_to_group)
            given = {**given, specs_of(SourceOptions)["commit_to_group"].name: commit_to_group}
        _check_groups_of_sinks(options.commit_to_group, routes)
        _check_registries(options, is_structured=is_structured)
        columns = options.columns
        if own := sorted({*AS_IT_CAME.values(), UNREAD} & set(columns)):
            raise OptionError(option=COLUMNS.name, reason=f"names {own[0]}, a column of the pipeline's own")
        if any(route.output == DEAD_LETTERS for route in routes):
            columns += tuple(kept_columns(columns, options.payloads))
            # A replay needs the header that names a record's schema.
            if HEADERS not in columns and any(payload.registry is not None for payload in options.payloads):
                columns += (HEADERS,)
        check_dead_letters(options.payloads, columns)
        options = replace(options, columns=columns)
        settled = options.columns_given()
        # The names of options have no case.
        others = {name: text for name, text in given.items() if name.lower() not in settled}
        names = {name.lower() for name in others}
        defaults = {name: text for name, text in SOURCE_DEFAULTS.items() if name not in names}
        return cls(options, defaults | others | settled)

    def in_session(self, session: SparkSession) -> SourceOptions:
        """The options, with the session's time zone for payloads that have no other, and the registry's schemas of now.

        Raises:
            RegistryError: the registry does not answer, refuses, or does not have one.
        """
        zone = str(session.conf.get("spark.sql.session.timeZone"))
        payloads = with_reader_schemas(self.options.payloads, topics_of(self.options.strategy))
        return replace(self.options, payloads=in_time_zone(payloads, zone))


def _check_registries(options: SourceOptions, *, is_structured: bool) -> None:
    """Refuse a subject that nothing names, and what may change between two tries of one of Spark's batches."""
    for payload in options.payloads:
        if not asks_registry(payload):
            continue
        subject_of(payload, set(topics_of(options.strategy)))
        if is_structured and payload.version == LATEST:
            reason = (
                f"must be a number under the structured engine, or {payload.column}.schema be given: a batch that is "
                "done again is read as at first, and Spark's state has the columns of the first run"
            )
            raise OptionError(option=f"{payload.column}.registry.version", reason=reason)


def _check_group(group: str, of_source: str | None) -> None:
    """Refuse a pipeline's group that is none, or stands beside another one of the source."""
    fault = "is empty; give the name of a consumer group or leave it out" if not group else fault_of_text(group)
    if fault:
        raise OptionError(option=_GROUP, reason=fault)
    if of_source is not None:
        reason = f"the source's commitToGroup names {shown(of_source)} already; give one of the two"
        raise OptionError(option=_GROUP, reason=reason)


def _check_groups_of_sinks(group: str | None, routes: Sequence[Route]) -> None:
    """Refuse a group that is told by two: who looks at it would see the offsets of now one, now the other."""
    told = {group: f"{_GROUP} or commitToGroup"} if group else {}
    for route in routes:
        own = route.sink.capabilities.offsets_group
        if own is None:
            continue
        if own in told:
            reason = f"the group {shown(own)} is told the offsets by {told[own]} too; give each a group of its own"
            raise OptionError(option="offsets_group", where=f"sink {route.sink.name}", reason=reason)
        told[own] = f"sink {route.sink.name}"
