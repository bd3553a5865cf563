"""The selection of a replay: which dead letters of a pipeline. What cannot be replayed is refused before any change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Event
from typing import Final, TypedDict, Unpack

from pyspark.sql import SparkSession

from directkafka.errors import OptionError
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.rejection import DEAD_LETTERS
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.transform import Transform
from directkafka.pipeline.file import replay_name
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.replay.engine import ReplayEngine
from directkafka.pipeline.replay.report import ReplayReporter, ReplaySummary
from directkafka.pipeline.replay.writer import DeadLetterWriter
from directkafka.pipeline.retry import RetryPolicy
from directkafka.sinks.api import Sink
from directkafka.sinks.dead_letters.replay import DeadLetterReplaySink, ReplayPlanSink
from directkafka.sinks.dead_letters.table import DeadLetters, DeadLetterTable, Selection


class Chosen(TypedDict, total=False):
    """Conditions on the dead letters to replay; without any, all are replayed.

    Attributes:
        reason: a text that the reason must contain.
        topic, partition: of the record.
        from_offset, until_offset: bounds of the record's offset, the second one exclusive; they need ``partition``.
        since, until: bounds of the record's timestamp, the second one exclusive: a datetime with a zone, or such a text
            in ISO 8601.
        limit: most dead letters; the first by topic, partition and offset are taken.
    """

    reason: str | None
    topic: str | None
    partition: int | None
    from_offset: int | None
    until_offset: int | None
    since: datetime | str | None
    until: datetime | str | None
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySelection:
    """Dead letters of one pipeline, chosen, and where their records go.

    Attributes:
        pipeline: the pipeline's name.
        routes: the pipeline's routes.
        sink: the sink of its dead letters.
        dead_letters: the table of that sink.
        selection: which dead letters are replayed.
    """

    pipeline: str
    routes: tuple[Route, ...]
    sink: Sink
    dead_letters: DeadLetters
    selection: Selection

    @classmethod
    def of(cls, pipeline: str, routes: Sequence[Route], **chosen: Unpack[Chosen]) -> ReplaySelection:
        """Check that dead letters of a pipeline can be replayed.

        Args:
            pipeline: the pipeline's name.
            routes: the pipeline's routes.
            chosen: see :class:`Chosen`.

        Raises:
            OptionError: there is no sink of dead letters, they cannot be removed from it, another sink cannot take
                old records, or the conditions are wrong.
            SchemaMismatchError: the table lacks columns that the replay needs.
            StoreUnavailableError, StoreAccessError: the table cannot be read.
        """
        selection = choose(chosen)
        sink, table = _sink_of(pipeline, routes)
        _check_modes(routes)
        dead_letters = DeadLetters(table, pipeline)
        if dead_letters.is_there:
            dead_letters.check(selection)
        return cls(pipeline=pipeline, routes=tuple(routes), sink=sink, dead_letters=dead_letters, selection=selection)

    def count(self, *, is_dry: bool) -> ReplaySummary:
        """How many dead letters have which reason; none is tried.

        Args:
            is_dry: whether the summary is marked as a dry run.
        """
        counts = self.dead_letters.count_by_reason(self.selection) if self.dead_letters.is_there else {}
        return ReplaySummary.of(counts, None if is_dry else {})

    def writer(self, session: SparkSession, transform: Transform, source: SourceOptions) -> DeadLetterWriter:
        """The writer of the replay's batches; its routes into the dead letters' store come last.

        Args:
            session: the pipeline's own session.
            transform: the pipeline's.
            source: the pipeline's source in that session.
        """
        settled = DeadLetterReplaySink(self.sink, self.dead_letters)
        routes = with_dead_letters_last(self.routes, settled)
        return DeadLetterWriter(session, transform, routes, source=source, settled=settled)

    def engine(
        self, writer: DeadLetterWriter, *, report: ReplayReporter, stop: Event, retry_policy: RetryPolicy
    ) -> ReplayEngine:
        """The run that replays them."""
        name = replay_name(self.pipeline)
        return ReplayEngine(
            name,
            writer=writer,
            ledgers=Ledgers(name, writer.routes, stop=stop),
            dead_letters=self.dead_letters,
            planned=ReplayPlanSink(self.sink, self.dead_letters, self.selection),
            report=report,
            stop=stop,
            retry_policy=retry_policy,
        )


#: What to do about dead letters that cannot be removed from where they are: from a topic, or from files.
_OF_TOPIC: Final = (
    "the records of a topic cannot leave it: run a pipeline of another name that subscribes to the topic of the dead "
    "letters, with this transform; key and value are the record's own, and its ledger says how far it came"
)
_OF_FILES: Final = (
    "committed files are never changed, so dead letters cannot leave them: let [dead_letters] name a table of a "
    "Postgres, MySQL, SQLite or DuckDB database from now on, and copy the dead letters that are there into it"
)


def _sink_of(pipeline: str, routes: Sequence[Route]) -> tuple[Sink, DeadLetterTable]:
    where = f"pipeline {pipeline!r}"
    sink = next((route.sink for route in routes if route.output == DEAD_LETTERS), None)
    if sink is None:
        raise OptionError(option=DEAD_LETTERS, where=where, reason="it has none, so there is nothing to replay")
    table = sink.dead_letters()
    if table is None:
        is_topic = sink.capabilities.takes_records
        raise OptionError(option=DEAD_LETTERS, where=where, reason=_OF_TOPIC if is_topic else _OF_FILES)
    return sink, table


def _check_modes(routes: Sequence[Route]) -> None:
    """Refuse sinks in which a replay's old records would replace newer rows, or the whole table."""
    for route in routes:
        mode = route.sink.capabilities.write_mode
        where = f"the sink of {route.sink.name}"
        if mode is not None and mode.name == "replace":
            reason = "with replace the rows of a batch are the whole table, and those of a replay would be alone in it"
            raise OptionError(option="mode", where=where, reason=reason)
        if mode is not None and mode.name == "upsert" and not mode.order:
            reason = (
                "a replay brings old records, and without an order they would take the place of newer rows: name "
                "columns that say which row is the newer one, for example the record's timestamp and offset"
            )
            raise OptionError(option="order", where=where, reason=reason)
        if mode is not None and mode.deletes is not None and (mode.removes_rows or mode.deletes.truncates):
            reason = (
                "a replay brings old records, and a row that was deleted since would come back, because nothing is "
                "left of it that says so: take delete_how = 'soft', whose marked rows remember it, without truncate"
            )
            raise OptionError(option="delete", where=where, reason=reason)


def with_dead_letters_last(routes: Sequence[Route], settled: Sink) -> tuple[Route, ...]:
    """The routes of a replay: ``settled`` in place of the dead letters' sink, and all routes into its store last.

    Args:
        routes: the pipeline's.
        settled: the sink of records that are rejected again.
    """
    identity = settled.store.identity
    others = [route for route in routes if route.output != DEAD_LETTERS]
    before = [other for other in others if other.sink.store.identity != identity]
    beside = [other for other in others if other.sink.store.identity == identity]
    return (*before, *beside, Route(output=DEAD_LETTERS, sink=settled))


def choose(chosen: Chosen) -> Selection:
    """The selection for the user's conditions.

    Raises:
        OptionError: a condition is wrong or needs another one, or a time has no zone.
    """
    reason, topic, partition = chosen.get("reason"), chosen.get("topic"), chosen.get("partition")
    from_offset, until_offset, limit = chosen.get("from_offset"), chosen.get("until_offset"), chosen.get("limit")
    rules = (
        (reason == "", "reason", "an empty text is in every reason: leave it out"),
        (partition is not None and topic is None, "partition", "a partition is one of a topic: say which"),
        (
            partition is None and not (from_offset is None and until_offset is None),
            "from_offset" if from_offset is not None else "until_offset",
            "an offset is one of a partition: say topic and partition",
        ),
        (limit is not None and limit < 1, "limit", f"expected 1 or more, found {limit}"),
    )
    for is_wrong, option, why in rules:
        if is_wrong:
            raise OptionError(option=option, where="replay", reason=why)
    return Selection(
        reason=reason,
        topic=topic,
        partition=partition,
        from_offset=from_offset,
        until_offset=until_offset,
        since_ms=_ms("since", chosen.get("since")),
        until_ms=_ms("until", chosen.get("until")),
        limit=limit,
    )


def _ms(option: str, time: datetime | str | None) -> int | None:
    """Milliseconds since 1970, rounded up: no timestamp of Kafka's lies between a finer time and the next whole one."""
    if time is None:
        return None
    try:
        instant = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        reason = f"expected a time like 2026-03-01T12:00:00+00:00, found {time!r}"
        raise OptionError(option=option, where="replay", reason=reason) from None
    if instant.tzinfo is None:
        reason = f"{time!s} is no instant without a zone: write Z or +00:00 behind it for UTC"
        raise OptionError(option=option, where="replay", reason=reason)
    return math.ceil(instant.timestamp() * 1000)
