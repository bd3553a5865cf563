"""Steps 4 and 5 as every engine does them: an entry and its rows into all stores, and the outside told of it.

What is written and not yet committed everywhere is kept. When a store fails behind another one that has the batch, it
is given the same rows: a transform need not give the same twice.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from directkafka.errors import RowCountError, RowFileError
from directkafka.fault_points import fault_point
from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import OffsetRange, PartitionProgress, to_nested, total_count
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE, Recovery, progress_of_new_store
from directkafka.pipeline.ledger.reset_entry import changed_ranges, is_skipped, reset_entry_of_store
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.progress import BatchReport, Reporter, Stopwatch
from directkafka.pipeline.status import PipelineStatus
from directkafka.planning.reset_target import RowsPolicy
from directkafka.row_files import give_up_files
from directkafka.sinks.api import BatchAttempt, LedgerEntry
from directkafka.sinks.ledger import records_set_apart, schema_ids, with_notes
from directkafka.sinks.record_rows import RecordDeletionSink, RecordRows

if TYPE_CHECKING:
    from directkafka.pipeline.execution.batch_writer import WrittenBatch

log = logging.getLogger("directkafka.pipeline")

Report = TypeVar("Report")


class CommitSession:
    """Commits the batches of one run.

    Args:
        pipeline: its name in the ledgers.
        ledgers: its stores.
        status: told of each committed batch.
    """

    def __init__(self, pipeline: str, ledgers: Ledgers, *, status: PipelineStatus | None = None) -> None:
        self.status = status or PipelineStatus(pipeline)
        self._pipeline = pipeline
        self._ledgers = ledgers
        #: A batch that is written and not yet committed everywhere.
        self._pending: tuple[LedgerEntry, WrittenBatch] | None = None

    def entry(
        self,
        batch_id: int,
        lineage: str,
        progress: tuple[PartitionProgress, ...] = (),
        *,
        not_before_ms: int = 0,
        schema_ids: Mapping[str, int] = MappingProxyType({}),
        set_apart: Iterable[str] = (),
    ) -> LedgerEntry:
        """A batch's entry, under the generation that is held.

        Args:
            batch_id, lineage, progress: the batch's.
            not_before_ms: what its time must not lie before, whatever this machine's clock says.
            schema_ids: the registry's schemas that its records are read with, by column.
            set_apart: the records that it goes without, see :func:`directkafka.sinks.ledger.records_set_apart`.
        """
        entry = LedgerEntry(
            pipeline=self._pipeline,
            generation=self._ledgers.generation,
            lineage=lineage,
            batch_id=batch_id,
            progress=progress,
            committed_at_ms=max(int(time.time() * 1000), not_before_ms),
        )
        return with_notes(entry, schema_ids=schema_ids, set_apart=set_apart)

    def entry_again(self, ahead: LedgerEntry) -> LedgerEntry:
        """The entry of a batch that one store has, for those that lack it."""
        return self.entry(
            ahead.batch_id,
            ahead.lineage,
            ahead.progress,
            schema_ids=schema_ids(ahead),
            set_apart=records_set_apart(ahead),
        )

    def attempt(self, batch_id: int) -> BatchAttempt:
        """A new try of a batch."""
        return BatchAttempt(
            pipeline=self._pipeline,
            generation=self._ledgers.generation,
            batch_id=batch_id,
            attempt=uuid.uuid4().hex,
        )

    def kept(self, entry: LedgerEntry, stores: Collection[str]) -> WrittenBatch | None:
        """A batch's rows as this driver wrote them before a store failed; None where they are gone.

        Args:
            entry: the batch's.
            stores: identities of those that lack it.
        """
        if self._pending is None or _identity(self._pending[0]) != _identity(entry):
            return None
        written = self._pending[1]
        return written if written.is_kept_for(stores) else None

    def commit(
        self,
        entry: LedgerEntry,
        written: WrittenBatch | None = None,
        *,
        only: Iterable[int] | None = None,
        is_kept: bool = True,
    ) -> None:
        """Step 4. Commit store by store, in the order listed; the next batch waits for all of them.

        Args:
            entry: the new entry.
            written: the batch's rows. An entry without rows leaves what is kept as it is: by it a store may join.
            only: indexes of the stores that lack the entry; all by default.
            is_kept: whether the rows are there for another try, once a store has failed.

        Raises:
            StoreError: the first one that failed; later stores were not touched.
            RowFileError: rows that were in a file are gone, and must be written again.
        """
        keeps = is_kept and written is not None
        if is_kept and written is not None:
            self._pending = (entry, written)
        try:
            for ledger in self._ledgers.lacking(only):
                writes = () if written is None else written.for_store(ledger.store)
                own = replace(entry, progress=with_own_origins(entry.progress, ledger.entry))
                ledger.entry = ledger.store.commit(own, previous=ledger.entry, writes=writes)
        except (RowCountError, RowFileError) as error:
            # What is staged, or in a file, is gone: the rows must be written again.
            self._pending = None if keeps else self._pending
            if isinstance(error, RowFileError):
                give_up_files(error)
            raise
        if keeps:
            self._pending = None

    def rehearse(self, entry: LedgerEntry, written: WrittenBatch) -> None:
        """Do what :meth:`commit` would do in each store, and take it back.

        Raises:
            DirectKafkaError: what a store refuses.
            NotImplementedError: a store cannot take rows back.
        """
        for ledger in self._ledgers.lacking(None):
            own = replace(entry, progress=with_own_origins(entry.progress, ledger.entry))
            ledger.store.rehearse(own, previous=ledger.entry, writes=written.for_store(ledger.store))

    def join(self, ahead: LedgerEntry, stores: Sequence[int]) -> None:
        """Let stores that have no entry begin where the others stand; they have nothing of what lies before."""
        progress = progress_of_new_store(ahead)
        self.commit(
            self.entry(ahead.batch_id, ahead.lineage, progress, not_before_ms=ahead.committed_at_ms), only=stores
        )
        if ahead.batch_id > 0:
            log.warning(
                "%s: %d store(s) have no entry of it and join at batch %d; nothing before %s will be in them",
                self._pipeline, len(stores), ahead.batch_id, to_nested(ahead.ends()),
            )  # fmt: skip

    def repeat_origin(self, recovery: Recovery) -> bool:
        """Give a batch 0 that has read nothing to stores that lack it, without rows; whether it is that.

        A query over no records may give a row, as ``count(*)`` does, which the other stores do not have.
        """
        origin = recovery.ahead
        if origin is None or origin.batch_id or any(origin.row_counts.values()):
            return False
        if any(each.start != each.end for each in origin.progress):
            return False
        self.commit(self.entry_again(origin), only=recovery.behind)
        return True

    def leave_checkpoint(self) -> None:
        """Where all stores wait for a new checkpoint, which will not come: begin a history without one.

        Waiting entries are numbered by each store for itself, so none of them can be a batch that another store lacks.
        """
        waiting = self._ledgers.entry
        if waiting.lineage != OPEN_LINEAGE:
            return
        progress = tuple(replace(partition, start=partition.end) for partition in waiting.progress)
        self.commit(self.entry(0, uuid.uuid4().hex, progress, not_before_ms=waiting.committed_at_ms))

    def reset(self, entry: LedgerEntry, rows: RowsPolicy, *, only: Iterable[int] | None = None) -> None:
        """Step 4 of a reset. Commit its entry store by store, in the order listed, with what it does with rows.

        A store that has no entry is left out: it joins when the pipeline runs next.

        Args:
            entry: from :func:`directkafka.pipeline.ledger.reset_entry.reset_entry`, under the generation that is held.
            rows: what becomes of the rows of records that are read again.
            only: indexes of the stores that lack the entry; all by default.

        Raises:
            StoreError: the first one that failed; later stores were not touched.
        """
        for ledger in self._ledgers.lacking(only):
            own = ledger.entry
            if own is None:
                continue
            changed = changed_ranges(own, entry)
            again = [each for each in changed if not is_skipped(own, each)]
            writes = []
            for sink in self._ledgers.sinks_of(ledger) if rows is RowsPolicy.DELETE and again else ():
                table = RecordRows.of(sink)
                if table is not None and table.names_records:
                    deletion = RecordDeletionSink(sink, table, again)
                    writes.append((deletion, self.attempt(entry.batch_id), deletion.reports()))
            ledger.entry = ledger.store.commit(reset_entry_of_store(entry, own), previous=own, writes=writes)

    def finish_reset(self, recovery: Recovery) -> None:
        """A reset that was ended between two stores: do the same in those that lack it."""
        ahead = recovery.ahead
        assert ahead is not None, "a store that has been reset has an entry"
        log.warning("%s: %d store(s) lack the reset to %s; it is done there",
                    self._pipeline, len(recovery.lacking_reset), to_nested(ahead.ends()))  # fmt: skip
        entry = self.entry(ahead.batch_id, ahead.lineage, ahead.progress, not_before_ms=ahead.committed_at_ms)
        self.reset(entry, recovery.rows, only=recovery.lacking_reset)

    def report_batch(
        self,
        report: Reporter,
        watch: Stopwatch,
        *,
        ranges: Sequence[OffsetRange],
        read: Mapping[str, ReadCount] | None = None,
        backlog: int | None = None,
    ) -> None:
        """Step 5 of the batch that the ledgers stand at.

        Args:
            report: told of the batch.
            watch: has the laps ``plan``, ``write`` and ``commit``.
            ranges: what was read.
            read: how much of each topic; None where Spark reads.
            backlog: see :class:`BatchReport`.
        """
        batch = BatchReport(
            pipeline=self._pipeline,
            generation=self._ledgers.generation,
            batch_id=self._ledgers.entry.batch_id,
            offsets=total_count(ranges),
            records=None if read is None else sum(count.record_count for count in read.values()),
            rows=self._ledgers.row_counts(),
            backlog=backlog,
            ranges=tuple(ranges),
            read=read or {},
            tables=self._ledgers.table_rows(),
            **{f"{step}_ms": lap_ms for step, lap_ms in watch.laps_ms.items()},
        )
        self.status.committed(batch, self._ledgers.entry.ends())
        self.report_progress(report, batch)

    def report_progress(self, report: Callable[[Report], None], told: Report) -> None:
        """Step 5. The batch is committed; who listens is not what the pipeline depends on."""
        try:
            report(told)
        except Exception:
            batch_id = self._ledgers.entry.batch_id
            log.warning("%s: the report callback failed on batch %d", self._pipeline, batch_id, exc_info=True)
        fault_point("batch.reported")


def _identity(entry: LedgerEntry) -> tuple[object, ...]:
    return entry.lineage, entry.batch_id, entry.ends()


def with_own_origins(progress: tuple[PartitionProgress, ...], own: LedgerEntry | None) -> tuple[PartitionProgress, ...]:
    """A batch's progress as one store writes it: stores of one pipeline may have begun at different offsets."""
    known = own.by_partition() if own is not None else {}
    return tuple(
        replace(partition, origin=before.origin)
        if (before := known.get(partition.topic_partition)) is not None and before.topic_id == partition.topic_id
        else partition
        for partition in progress
    )
