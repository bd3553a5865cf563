"""The second phases of a batch: what large outputs still need once the first job's reports are there.

A transaction that is opened for that must not outlive the batch, or readers wait behind it until its timeout: whatever
ends the batch before the commit aborts it. Sequence of events: Kafka's rows are written, in an open transaction; the
commit to Postgres, the store listed before it, fails; the batch is planned anew, or the pipeline stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from directkafka.pipeline.execution.executor_errors import from_executor, job_errors
from directkafka.pipeline.execution.kept import Keeper
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.two_phase import write_shares, writers_max
from directkafka.sinks.api import BatchAttempt, Sink, TaskReport, TransactionalStore
from directkafka.sinks.ledger import check_count


@dataclass(slots=True)
class Part:
    """One output of a batch under way, on its way into one sink.

    Attributes:
        sink: where it goes.
        output: its rows, where a second phase may want them.
        reports: of the jobs so far.
        is_of_chunks: whether the frame has the rows as chunks.
    """

    sink: Sink
    output: DataFrame | None
    reports: tuple[TaskReport, ...]
    is_of_chunks: bool = False

    @property
    def needs_second_phase(self) -> bool:
        """Whether its reports leave rows to be written."""
        return self.sink.capabilities.has_second_phase and self.sink.needs_second_phase(self.reports)


def finish_parts(
    parts: Sequence[Part], name: BatchAttempt, keeper: Keeper, routes: Sequence[Route]
) -> tuple[TransactionalStore, ...]:
    """Run the second phases of all sinks that need one. With them all that is kept has been read for the last time.

    Args:
        parts: of the batch; those that are finished have other reports then.
        name: the try of the batch.
        keeper: of what is kept.
        routes: the pipeline's.

    Returns:
        The stores whose transactions are open now.

    Raises:
        DirectKafkaError: what a task met, or what became of a transaction; none is open then.
    """
    early: list[TransactionalStore] = []
    with ExitStack() as begun:
        for part in parts:
            if part.needs_second_phase:
                store = _owning_store(part.sink, routes)
                begun.callback(store.abort, name)
                _finish(part, store, name)
                early.append(store)
        with job_errors():
            keeper.check()
        begun.pop_all()
    return tuple(early)


def _finish(part: Part, store: TransactionalStore, name: BatchAttempt) -> None:
    """The second phase of a sink whose first reports leave rows to be written."""
    assert part.output is not None, "what may take a second phase is kept, or is computed again"
    sink, session = part.sink, part.output.sparkSession
    transaction = store.begin(name, sink)
    try:
        phase = sink.second_phase(transaction, name, part.reports, writers_max=writers_max(session))
        reports = write_shares(part.output, phase, is_of_chunks=part.is_of_chunks)
        # What was dealt a second time after a loss, in the shuffle between, may have been dealt otherwise.
        counted, written = (sum(report.rows for report in phase_reports) for phase_reports in (part.reports, reports))
        check_count(store=store.identity, sink=sink.name, reported=counted, stored=written)
        part.reports = reports
    except Exception as error:
        cause = from_executor(error)
        store.abort_with_cause(name, cause)
        raise cause from error


def _owning_store(sink: Sink, routes: Sequence[Route]) -> TransactionalStore:
    """The store object that fences and commits for the sink: of those that are one, the first one's."""
    identity = sink.store.identity
    stores: list[Any] = [route.sink.store for route in routes]
    owner: TransactionalStore = next(store for store in stores if store.identity == identity)
    return owner
