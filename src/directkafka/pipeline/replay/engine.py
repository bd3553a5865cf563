"""The numbered steps of a replay: dead letters through the pipeline's transform again, each exactly once.

A replay is a driver with a ledger entry of its own, ``<pipeline>.replay``, in every store of the pipeline. So it is
fenced by a newer replay of the same pipeline and by nothing else: the pipeline itself may run meanwhile. ::

    0. compile the transform and check every table, changing nothing
    1. fence the replay's entry in all stores, the dead letters' store as the last one
    2. add the replay's two columns; read the ledgers
       nothing there:           batch 0 without rows
       the dead letters' store is ahead:   by a plan, which has no rows; the others get that batch. (If it is by a
                                           batch, a store has lost rows that it had, and that is told)
       the dead letters' store is behind:  the batch is done again from the same dead letters, where it is missing
    3. plan: a batch without rows, in the dead letters' store first. Its transaction lets go what an earlier replay
       held, and gives each chosen dead letter the number of the batch that will try it
    then, for each planned batch:
    4. read its dead letters; write the rows where no reader sees them; commit store by store, the dead letters' store
       last: there they leave in the same transaction, and those that were rejected again come back with the new reason
    5. report the progress

Why the two orders. A batch that another store has and the dead letters' store lacks must be done again from the dead
letters that it had. They have its number; and a plan, which gives that number to others, is in the dead letters' store
before any other store has a batch of the plan. So whoever is ahead says what the batch was.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Event

from directkafka.errors import LineageError
from directkafka.fault_points import fault_point
from directkafka.pipeline.execution.batch_writer import BatchWriter, WrittenBatch
from directkafka.pipeline.ledger.commit_session import CommitSession
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.replay.report import ReplayReport, ReplayReporter, ReplaySummary, add_reasons
from directkafka.pipeline.replay.writer import DeadLetterWriter
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.dead_letters.replay import ReplayPlanSink
from directkafka.sinks.dead_letters.table import DeadLetters
from directkafka.sinks.ledger import is_replayed, replayed, schema_ids

log = logging.getLogger("directkafka.pipeline")


class ReplayEngine:
    """Runs one replay in the calling thread until its plan is done or it is told to stop.

    Args:
        name: the replay's name in the ledgers.
        writer: what becomes of dead letters.
        ledgers: where they are committed, the dead letters' store as the last one; closed at the end.
        dead_letters: the table of dead letters.
        planned: the sink of step 3.
        report: told of each committed batch.
        stop: ends the run between two batches, or between two tries of one.
        retry_policy: how failures that may pass are met.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        name: str,
        *,
        writer: DeadLetterWriter,
        ledgers: Ledgers,
        dead_letters: DeadLetters,
        planned: ReplayPlanSink,
        report: ReplayReporter,
        stop: Event,
        retry_policy: RetryPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._writer = writer
        self._writers = writer.writers
        self._ledgers = ledgers
        self._session = CommitSession(name, ledgers)
        self._dead_letters = dead_letters
        self._planned = planned
        self._settled = writer.settled
        self._report = report
        self._stop = stop
        self._retry_policy = retry_policy
        self._clock = clock
        self._taken: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        #: Whether what is remembered of the ledgers may be wrong: after any failure.
        self._is_undetermined = False

    def run(self) -> ReplaySummary:
        """All steps; what became of the dead letters.

        Raises:
            FencedError: a newer replay of the pipeline took over.
            DirectKafkaError: whatever stopped the replay; nothing of the failed batch is committed.
        """
        try:
            if not self._stop.is_set():
                for remark in self._retry_policy.until_done(self._take_over):
                    log.warning("%s: %s", self._name, remark)
                self._retry_policy.until_done(lambda: self._step(self._plan))
                while not self._stop.is_set() and self._retry_policy.until_done(lambda: self._step(self._batch)):
                    pass
        except StopAsked as asked:
            log.info("%s stops; what was being tried is rolled back: %s", self._name, asked)
        finally:
            self._ledgers.close()
        return ReplaySummary.of(self._taken, self._rejected)

    @property
    def _last(self) -> int:
        """Index of the dead letters' store."""
        return len(self._ledgers.identities) - 1

    # 0 to 2 -------------------------------------------------------------------------------------------------

    def _take_over(self) -> tuple[str, ...]:
        """Steps 0 to 2; remarks on the transform for the user."""
        remarks = self._ledgers.take_over(self._writers.own)
        self._recover()
        return remarks

    def _recover(self) -> None:
        """Step 2, and again after a failure: the ledgers, not memory, say where to go on."""
        self._bring_together()
        self._writers.prepare_own()

    def _bring_together(self) -> None:
        recovery = self._ledgers.read()
        if recovery.ahead is None:
            fault_point("origin.planned")
            self._session.commit(self._session.entry(0, uuid.uuid4().hex))
            fault_point("origin.committed")
            return
        if self._last in recovery.new:
            self._check_no_claims(recovery.ahead)
        if recovery.behind:
            self._catch_up(recovery.ahead, recovery.behind)
        if recovery.new:
            entry = self._session.entry(recovery.ahead.batch_id, recovery.ahead.lineage)
            self._session.commit(entry, only=recovery.new)

    def _check_no_claims(self, ahead: LedgerEntry) -> None:
        """Dead letters that wait for a batch, and no entry that says whether it was committed here: nobody can tell."""
        if planned := self._dead_letters.planned():
            raise LineageError(
                store=self._dead_letters.table.store,
                pipeline=self._name,
                expected=f"batch {ahead.batch_id} or the one before it, as the pipeline's other stores have it",
                found=f"no entry, and {sum(planned.values())} dead letters that a replay holds",
                remedy="Find out whether their records are in the sinks, delete those that are, and set replay_claim "
                "of the others to null.",
            )

    def _tell_of_lost_rows(self, ahead: LedgerEntry, behind: Sequence[int]) -> None:
        """A batch is in the dead letters' store last: a store that lacks it has had it, and has lost it since."""
        if is_replayed(ahead):
            log.error(
                "%s: %s had batch %d and has lost it, as after a restore or a failover. Its dead letters have left "
                "their table, so its rows cannot be made again: they are missing there until the pipeline reads "
                "their records again (a reset). The replay goes on behind that batch",
                self._name, ", ".join(self._ledgers.identities_of(behind)), ahead.batch_id,
            )  # fmt: skip

    def _catch_up(self, ahead: LedgerEntry, behind: Sequence[int]) -> None:
        entry = self._session.entry(ahead.batch_id, ahead.lineage, schema_ids=schema_ids(ahead))
        if self._last not in behind:
            self._tell_of_lost_rows(ahead, behind)
            self._session.commit(entry, only=behind)
            return
        entry = replayed(entry)
        log.warning("%s: %d store(s) lack batch %d; it is redone there", self._name, len(behind), ahead.batch_id)
        stores = self._ledgers.identities_of(behind)
        # Also for rows that are kept the sinks must have the columns that these were written with.
        rows = self._writers.of(ahead)
        with self._session.kept(entry, stores) or self._write(ahead.batch_id, rows) as written:
            self._settle(entry, written, only=behind)

    # 3 to 5 -------------------------------------------------------------------------------------------------

    def _step(self, step: Callable[[], bool]) -> bool:
        """One step, from where the ledgers are; whether there is more to do."""
        if self._is_undetermined:
            self._recover()
        self._is_undetermined = True
        is_more = step()
        self._is_undetermined = False
        return is_more

    def _plan(self) -> bool:
        previous = self._ledgers.entry
        entry = self._session.entry(previous.batch_id + 1, previous.lineage)
        written = WrittenBatch(name=self._session.attempt(entry.batch_id), reports=((self._planned, ()),), read={})
        self._session.commit(entry, written, only=[self._last], is_kept=False)
        self._session.commit(entry, only=range(self._last))
        planned = self._dead_letters.planned()
        log.info("%s: %d dead letters in %d batches", self._name, sum(planned.values()), len(planned))
        return True

    def _batch(self) -> bool:
        """One batch if there is one; whether there was."""
        started_s = self._clock()
        previous = self._ledgers.entry
        if not any(batch_id > previous.batch_id for batch_id in self._dead_letters.planned()):
            return False
        ids = self._writers.schema_ids
        entry = replayed(self._session.entry(previous.batch_id + 1, previous.lineage, schema_ids=ids))
        fault_point("batch.planned")
        with self._write(entry.batch_id, self._writers.own) as written:
            fault_point("batch.written")
            self._settle(entry, written)
        self._report_progress(entry.batch_id, total_ms=round((self._clock() - started_s) * 1000))
        return True

    def _write(self, batch_id: int, rows: BatchWriter) -> WrittenBatch:
        letters = self._dead_letters.read(batch_id)
        return self._writer.write_dead_letters(self._session.attempt(batch_id), letters, rows)

    def _settle(self, entry: LedgerEntry, written: WrittenBatch, *, only: Sequence[int] | None = None) -> None:
        """Step 4, and what became of the dead letters."""
        self._session.commit(entry, written, only=only)
        add_reasons(self._taken, self._settled.outcome.taken)
        add_reasons(self._rejected, self._settled.outcome.rejected)

    def _report_progress(self, batch_id: int, *, total_ms: int) -> None:
        outcome = self._settled.outcome
        report = ReplayReport(
            pipeline=self._name,
            generation=self._ledgers.generation,
            batch_id=batch_id,
            letters=sum(outcome.taken.values()),
            rejected=sum(outcome.rejected.values()),
            rows=self._ledgers.row_counts(),
            left=sum(self._dead_letters.planned().values()),
            total_ms=total_ms,
        )
        self._session.report_progress(self._report, report)
