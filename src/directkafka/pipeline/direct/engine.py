"""The direct engine: the numbered steps of a pipeline's life.

::

    0. compile the transform and check every table, changing nothing: a job that cannot run disturbs nobody
    1. fence all stores, in the order listed; the first hands out the generation
    2. make what tables are not there; read the ledgers, only after all are fenced
       nothing there:  resolve the start positions, commit them as batch 0, which has no rows
       one is ahead:   its ranges are pinned, the others redo that batch
       one is new:     it begins where the others end
       one was reset:  so are the others
       all wait for a checkpoint:  batch 0 of a new history, at the same offsets
    then, for each batch:
    3. plan the ranges from the last ends and a fresh snapshot; write the rows where no reader sees them
    4. commit rows and ledger entry, store by store, each in one transaction
    5. report the progress

While step 4 runs, the next batch may begin its step 3 in the background (:mod:`directkafka.pipeline.direct.prefetch`).

Each arrow between two steps is a fault point (:mod:`directkafka.fault_points`), and ``tests/chaos`` kills the process
at each. An error that may pass (a database that restarts, a leader that moves) is answered by reading the ledgers
again and going on from there; no later batch is committed before that.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from threading import Event

from directkafka.errors import RowRejectedError, WorkerLostError
from directkafka.errors.kafka import TransactionTooSlowError
from directkafka.fault_points import fault_point
from directkafka.offsets import Positions, TopicPartition, to_nested
from directkafka.options.limits import NO_WAIT, MinOffsets
from directkafka.pipeline.direct.batch_planner import RAISE_TIMEOUT, Planned, Planner, log_losses
from directkafka.pipeline.direct.prefetch import CommittedBatch, PlannedBatch, PrefetchedBatch
from directkafka.pipeline.execution.batch_writer import RangesWriter, WrittenBatch
from directkafka.pipeline.isolation.writer import IsolatingWriter, write_again
from directkafka.pipeline.ledger.commit_session import CommitSession
from directkafka.pipeline.ledger.pause import PAUSE_POLL_S, Pause
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.progress import Reporter, Stopwatch
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.pipeline.run_writers import RunWriters
from directkafka.pipeline.status import PipelineStatus, Step
from directkafka.planning.plan import PlanPolicy
from directkafka.planning.trigger import AvailableNow, Moment, Trigger, asks_backlog, wait_ms
from directkafka.sinks.api import LedgerEntry
from directkafka.spark.source_cluster import SourceCluster

log = logging.getLogger("directkafka.pipeline")

#: How often a driver with nothing to do asks whether a newer one has taken its pipeline, in milliseconds. One
#: that has something to do finds out when it commits.
_FENCE_LOOK_MS = 5_000


class DirectEngine:
    """Runs one pipeline in the calling thread until it is told to stop.

    Args:
        name: the pipeline's name in the ledgers.
        cluster: where records come from; closed at the end.
        writers: what becomes of them.
        ledgers: where they are committed; closed at the end.
        starting: where a pipeline without a ledger begins.
        policy: limits of a batch.
        min_offsets: how many offsets a batch waits for; an available-now run does not wait.
        trigger: when batches start.
        report: told of each committed batch.
        status: told what the pipeline does.
        stop: ends the run between two batches, or between two tries of one.
        retry_policy: how failures that may pass are met.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: SourceCluster,
        writers: RunWriters[RangesWriter],
        ledgers: Ledgers,
        starting: Positions,
        policy: PlanPolicy,
        trigger: Trigger,
        report: Reporter,
        stop: Event,
        retry_policy: RetryPolicy,
        status: PipelineStatus | None = None,
        min_offsets: MinOffsets = NO_WAIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._writers = writers
        self._writer = writers.own
        self._ledgers = ledgers
        self._status = status or PipelineStatus(name)
        self._session = CommitSession(name, ledgers, status=self._status)
        self._pause = Pause(name, clock)
        self._starting = starting
        self._planner = Planner(
            name, cluster, policy=policy, min_offsets=min_offsets, trigger=trigger, stop=stop, clock=clock
        )
        self._trigger = trigger
        self._report = report
        self._stop = stop
        self._retry_policy = retry_policy
        self._clock = clock
        #: Whether what is remembered of the ledgers may be wrong: after any failure.
        self._is_undetermined = False
        #: The batch behind the one that is committed, if it has begun.
        self._ahead: PrefetchedBatch | None = None
        #: Up to where all stores have everything.
        self._ends: Mapping[TopicPartition, int] | None = None
        #: The batch that is being committed, or that failed while it was.
        self._unreported: CommittedBatch | None = None
        #: When the newest batch began.
        self._started_ms: int | None = None
        #: When the ledgers were read last with nothing to do.
        self._looked_ms = self._now_ms()

    def run(self) -> None:
        """Steps 0 to 2, then batches until the trigger or the stop ends them.

        Raises:
            FencedError: a newer driver took over.
            DirectKafkaError: whatever stopped the pipeline; nothing of the failed batch is committed.
        """
        with ExitStack() as ending:
            ending.callback(self._ledgers.close)
            ending.callback(self._cluster.close)
            ending.callback(self._end_ahead)
            ending.callback(self._commit_to_group)
            try:
                if not self._stop.is_set():
                    for remark in self._retry_policy.until_done(self._take_over):
                        log.warning("%s: %s", self._name, remark)
                    # Where the last run ended before it could, and where a reset leads.
                    self._commit_to_group()
                    self._run_batches()
            except StopAsked as asked:
                log.info("%s stops; what was being tried is rolled back: %s", self._name, asked)

    def _run_batches(self) -> None:
        ended_ms = None
        is_idle = False
        self._looked_ms = self._now_ms()
        while not self._stop.is_set():
            if self._retry_policy.until_done(self._is_paused):
                if isinstance(self._trigger, AvailableNow):
                    return
                self._status.at(Step.PAUSED)
                self._stop.wait(PAUSE_POLL_S)
                continue
            if self._ahead is None:
                backlog = self._retry_policy.until_done(self._backlog)
                if (wait := self._wait_ms(backlog, ended_ms=ended_ms, is_idle=is_idle)) > 0:
                    self._status.at(Step.WAITING)
                    if not self._look_when_due():
                        self._stop.wait(min(wait, _FENCE_LOOK_MS) / 1000)
                    continue
            self._started_ms = self._now_ms()
            is_idle = not self._retry_policy.until_done(self._next_batch)
            ended_ms = self._now_ms()
            if is_idle and isinstance(self._trigger, AvailableNow):
                return
            if is_idle:
                self._look_when_due()

    def _look_when_due(self) -> bool:
        """With nothing to do, every few seconds: has a newer driver come, and does the group know where this one is?"""
        if self._now_ms() - self._looked_ms < _FENCE_LOOK_MS:
            return False
        self._retry_policy.until_done(self._read_ledgers)
        self._status.at(Step.WAITING)
        self._commit_to_group()
        self._cluster.warn_of_retention(self._ends or {})
        self._looked_ms = self._now_ms()
        return True

    def _read_ledgers(self) -> None:
        """Read them between two batches: after a failover a store may stand before what it had committed."""
        self._is_undetermined |= not self._ledgers.read().is_whole

    def _is_paused(self) -> bool:
        """Whether the pipeline is paused; then no batch is under way, and a newer driver is looked for."""
        if not self._pause.is_paused(self._ledgers.first):
            return False
        self._abort_ahead()
        self._read_ledgers()
        return True

    def _wait_ms(self, backlog: int | None, *, ended_ms: int | None, is_idle: bool = False) -> int:
        moment = Moment(
            now_ms=self._now_ms(), started_ms=self._started_ms, ended_ms=ended_ms, backlog=backlog, is_idle=is_idle
        )
        return wait_ms(self._trigger, moment)

    # 0 to 2 -------------------------------------------------------------------------------------------------

    def _take_over(self) -> tuple[str, ...]:
        """Steps 0 to 2; remarks on the transform for the user."""
        remarks = self._ledgers.take_over(self._writer)
        self._recover()
        self._status.fenced(self._ledgers.generation)
        return remarks

    def _recover(self) -> None:
        """Step 2, and again after a failure: the ledgers, not memory, say where to go on."""
        self._bring_together()
        self._writers.prepare_own()
        entry = self._ledgers.entry
        self._ends = entry.ends()
        self._status.set_ends(self._ends)
        unreported, self._unreported = self._unreported, None
        if unreported is not None and unreported.begun.name.batch_id == entry.batch_id:
            # It was committed, and the answer did not come, or another store had it only now.
            self._report_committed(unreported)

    def _recover_if_undetermined(self) -> None:
        if self._is_undetermined:
            self._abort_ahead()
            self._recover()
            self._is_undetermined = False

    def _bring_together(self) -> None:
        recovery = self._ledgers.read()
        if recovery.ahead is None:
            self._commit_origin()
            return
        if recovery.lacking_reset:
            self._session.finish_reset(recovery)
        if recovery.behind and not self._session.repeat_origin(recovery):
            self._catch_up(recovery.ahead, recovery.behind)
        if recovery.new:
            self._session.join(recovery.ahead, recovery.new)
        self._session.leave_checkpoint()

    def _commit_origin(self) -> None:
        """Batch 0: where the pipeline begins, so that "latest" means the same after a crash."""
        origin = self._planner.origin(self._starting)
        log_losses(origin, self._ledgers.sinks)
        fault_point("origin.planned")
        entry = self._session.entry(0, uuid.uuid4().hex, origin.progress)
        self._session.commit(entry)
        fault_point("origin.committed")
        log.info("%s starts at %s", self._name, to_nested(entry.ends()))

    def _catch_up(self, ahead: LedgerEntry, behind: Sequence[int]) -> None:
        """The newest batch for the stores that lack it, from the ranges that the others committed."""
        log.warning("%s: %d store(s) lack batch %d; it is redone there", self._name, len(behind), ahead.batch_id)
        entry = self._session.entry_again(ahead)
        stores = self._ledgers.identities_of(behind)
        # First of all: also for rows that are kept the sinks must have the columns that these were written with.
        writer = self._writers.of(ahead)
        try:
            with self._session.kept(ahead, stores) or self._write_pinned(ahead, writer, stores) as written:
                self._session.commit(entry, written, only=behind)
        except TransactionTooSlowError as error:
            fixed = "cannot be made smaller, since another store has it as it is."
            raise replace(error, remedy=RAISE_TIMEOUT + fixed) from error

    def _write_pinned(self, ahead: LedgerEntry, writer: RangesWriter, stores: Collection[str]) -> WrittenBatch:
        pinned = self._planner.pinned(ahead)
        log_losses(pinned.batch, self._ledgers.sinks)
        return write_again(writer, ahead, self._session.attempt(ahead.batch_id), pinned.tasks, stores)

    # 3 to 5 -------------------------------------------------------------------------------------------------

    def _next_batch(self) -> bool:
        """One batch if there is anything to read; whether there was."""
        while True:
            self._recover_if_undetermined()
            self._is_undetermined = True
            try:
                done = self._batch()
            except TransactionTooSlowError as error:
                self._planner.plan_smaller(error)
            except RowRejectedError as error:
                self._find_refused(error)
            else:
                self._is_undetermined = False
                return done

    def _batch(self) -> bool:
        watch = Stopwatch(self._clock)
        ahead = self._ahead
        self._status.at(Step.PLAN)
        begun = ahead.begun if ahead is not None else self._begin()
        self._status.ready(self._ends)
        if begun is None:
            return False
        fault_point("batch.planned")
        watch.lap("plan")
        self._status.at(Step.WRITE)
        with ahead.written() if ahead is not None else self._write(begun) as written:
            # Not before: whatever ends the wait, it is still there to be given up.
            self._ahead = None
            fault_point("batch.written")
            watch.lap("write")
            self._status.at(Step.COMMIT)
            entry = self._entry(begun, written.set_apart)
            self._begin_ahead(begun, entry)
            self._unreported = CommittedBatch(begun=begun, read=written.read, watch=watch)
            self._session.commit(entry, written)
        self._report_committed(self._unreported)
        self._unreported = None
        return True

    def _find_refused(self, error: RowRejectedError) -> None:
        """Find the records whose rows a store has refused, for the next try; or raise, where that cannot be."""
        failed, self._unreported = self._unreported, None
        self._abort_ahead()
        # What one store has committed, all others must commit.
        if failed is None or not isinstance(self._writer, IsolatingWriter) or self._ledgers.one_has(failed.begun.name):
            raise error
        begun = failed.begun
        rehearse = partial(self._session.rehearse, self._entry(begun, ()))
        self._writer.find_refused(begun.name, begun.tasks, error, stores=self._ledgers.identities, rehearse=rehearse)

    def _entry(self, begun: PlannedBatch, set_apart: Collection[str]) -> LedgerEntry:
        of_batch = begun.name.batch_id, self._ledgers.entry.lineage, begun.batch.progress
        return self._session.entry(*of_batch, schema_ids=self._writers.schema_ids, set_apart=set_apart)

    def _report_committed(self, committed: CommittedBatch) -> None:
        """Step 5 of a batch that all stores have."""
        begun, watch = committed.begun, committed.watch
        watch.lap("commit")
        self._planner.learn(begun.batch, took_ms=watch.laps_ms["write"] + watch.laps_ms["commit"])
        self._ends, self._looked_ms = begun.batch.ends(), self._now_ms()
        self._cluster.report_progress(self._ends)
        self._session.report_batch(
            self._report, watch, ranges=begun.batch.ranges, read=committed.read, backlog=begun.batch.backlog
        )

    def _begin(self) -> PlannedBatch | None:
        previous = self._ledgers.entry
        return self._begun(self._planner.next(previous), previous)

    def _write(self, begun: PlannedBatch) -> WrittenBatch:
        return self._writer.write(begun.name, begun.tasks, stores=self._ledgers.identities)

    def _begin_ahead(self, begun: PlannedBatch, entry: LedgerEntry) -> None:
        """Begin the next batch while this one is committed, if it would follow at once."""
        backlog = begun.batch.backlog
        is_allowed = backlog and self._writer.may_run_ahead and not self._stop.is_set()
        if not is_allowed or self._wait_ms(backlog, ended_ms=self._now_ms()) > 0:
            return
        # Where what was waiting is nearly done, the next batch will have more in its turn, from a fresh snapshot.
        half = (begun.batch.offset_count + 1) // 2
        following = self._begun(self._planner.following(entry, begun.snapshot, offsets_min=half), entry)
        if following is None:
            return
        try:
            writing = self._writer.begin(following.name, following.tasks, stores=self._ledgers.identities)
        except Exception:
            # No thread, or Spark is gone: the commit needs neither, and the batch's turn will tell.
            log.warning("%s: batch %d waits for its turn", self._name, following.name.batch_id, exc_info=True)
            return
        self._ahead = PrefetchedBatch(begun=following, writing=writing)

    def _end_ahead(self) -> None:
        """At the end of the run: what it writes counts for nothing, whenever it ends."""
        with suppress(WorkerLostError):
            self._abort_ahead()

    def _abort_ahead(self) -> None:
        """The batch before it was not committed, or the run ends: its rows count for nothing."""
        if self._ahead is not None:
            self._ahead.abort()
            self._ahead = None

    def _begun(self, planned: Planned | None, previous: LedgerEntry) -> PlannedBatch | None:
        if planned is None:
            return None
        log_losses(planned.batch, self._ledgers.sinks)
        return PlannedBatch(name=self._session.attempt(previous.batch_id + 1), **planned._asdict())

    def _commit_to_group(self) -> None:
        """Commit to the group what all stores have and it has not: one try could have failed, or a run been killed."""
        if self._ends is not None:
            self._cluster.commit_to_group(self._ends)

    def _backlog(self) -> int | None:
        """Offsets that are waiting, for triggers that ask."""
        if not asks_backlog(self._trigger):
            return None
        self._recover_if_undetermined()
        return self._planner.backlog(self._ledgers.entry.ends())

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
