"""Sinks of a replay in the dead letters' own store: one plans its batches, one settles each in its commit.

A settled batch's dead letters are gone, and those that were rejected again are there anew: in one transaction with the
ledger, and with the rows that the others gave when these go into the same store.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.fault_points import fault_point
from directkafka.sinks.api import BatchAttempt, Sink, TaskReport, TaskWriter
from directkafka.sinks.capabilities import SinkCapabilities
from directkafka.sinks.dead_letters import REPLAYS
from directkafka.sinks.dead_letters.table import DeadLetters, Selection
from directkafka.sinks.wrapped_sink import WrappedSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a batch of dead letters.

    Attributes:
        taken: dead letters by the reason that they had.
        rejected: dead letters that were rejected again, by the reason that they have now.
    """

    taken: Mapping[str, int]
    rejected: Mapping[str, int]


class _DeadLetterSink(WrappedSink):
    """A sink in the place of the one that the dead letters came by."""

    def __init__(self, inner: Sink, dead_letters: DeadLetters) -> None:
        super().__init__(inner)
        self._dead_letters = dead_letters

    @property
    def capabilities(self) -> SinkCapabilities:
        """The inner sink's, for one batch at a time: which dead letters the next one has, this one's commit says."""
        return replace(self._inner.capabilities, allows_prefetch=False)

    def check(self, schema: pa.Schema) -> None:
        """As the inner sink, apart from the column that :meth:`prepare` adds.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as the inner sink.
        """
        self._inner.check(pa.schema([field for field in schema if field.name != REPLAYS], metadata=schema.metadata))

    def prepare(self, schema: pa.Schema) -> None:
        """Add the columns that a replay needs, and see that all fits.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as the inner sink.
        """
        self._dead_letters.add_columns()
        self._inner.prepare(schema)


class ReplayPlanSink(_DeadLetterSink):
    """For a batch without rows, whose commit says which dead letters the batches behind it will try.

    Args:
        inner: the sink that the dead letters came by.
        dead_letters: its table.
        selection: which dead letters.
    """

    def __init__(self, inner: Sink, dead_letters: DeadLetters, selection: Selection) -> None:
        super().__init__(inner, dead_letters)
        self._selection = selection

    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Plan the batches behind this one.

        Raises:
            RowRejectedError: see :meth:`~directkafka.sinks.dead_letters.table.DeadLetters.plan`.
        """
        self._dead_letters.plan(transaction, self._selection, after=batch.batch_id)
        fault_point("replay.planned")
        return 0


class DeadLetterReplaySink(_DeadLetterSink):
    """Takes what the transform rejects again, and takes out the dead letters of the batch.

    Args:
        inner: the sink that the dead letters came by.
        dead_letters: its table.
    """

    def __init__(self, inner: Sink, dead_letters: DeadLetters) -> None:
        super().__init__(inner, dead_letters)
        #: How many dead letters the batch under way has.
        self.expected = 0
        #: Of the last batch that was applied.
        self.outcome = Outcome(taken={}, rejected={})

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> ReasonCounter:
        """The inner sink's, with the reasons counted."""
        return ReasonCounter(self._inner.task_writer(batch, schema, task_count=task_count))

    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Take the batch's dead letters out, and put in those that were rejected again.

        Raises:
            RowCountError: the dead letters are not those that were read.
        """
        plain, rejected = uncounted(reports)
        taken = self._dead_letters.delete_replayed(transaction, batch.batch_id, expected=self.expected)
        fault_point("replay.taken_out")
        rows = self._inner.apply(transaction, batch, plain)
        self.outcome = Outcome(taken=taken, rejected=rejected)
        return rows


class ReasonCounter:
    """A task's writer whose report also says how many rows have which reason; picklable.

    Args:
        inner: the sink's.
    """

    def __init__(self, inner: TaskWriter) -> None:
        self._inner = inner

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows."""
        reasons: Counter[str] = Counter()

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                # One object for each reason of a batch, not for each row.
                reasons.update(
                    {counted["values"]: counted["counts"] for counted in pc.value_counts(batch["reason"]).to_pylist()}
                )
                yield batch

        report = self._inner(counted())
        return replace(report, payload=pickle.dumps((report.payload, dict(reasons))))


def uncounted(reports: Sequence[TaskReport]) -> tuple[list[TaskReport], dict[str, int]]:
    """The reports as the inner sink knows them, and how many rows of all have which reason.

    Args:
        reports: of tasks that ran a :class:`ReasonCounter`.
    """
    plain, total = [], Counter[str]()
    for report in reports:
        payload, reasons = pickle.loads(report.payload)
        plain.append(replace(report, payload=payload))
        total.update(reasons)
    return plain, dict(total)
