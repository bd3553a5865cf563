"""The direct engine: the numbered steps of a pipeline's life.

::

    0. compile the transform and check every table, changing nothing: a job that cannot run disturbs nobody
    1. fence all stores, in the order listed; the first hands out the generation
    2. make what tables are not there; read the ledgers, only after all are fenced
       nothing there:  resolve the start positions, commit them as batch 0, which has no rows
       one is ahead:   its ranges are pinned, the others redo that batch
       one is new:     it begins where the others end
    then, for each batch:
    3. plan the ranges from the last ends and a fresh view; write the rows where no reader sees them
    4. commit rows and ledger entry, store by store, each in one transaction
    5. tell the outside

Each arrow between two steps is a fault point (:mod:`directkafka.faults`), and ``tests/chaos`` kills the process
at each. An error that may pass (a database that restarts, a leader that moves) is answered by reading the ledgers
again and going on from there; no later batch runs before that.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from directkafka.errors import DataLossError, RowCountError
from directkafka.faults import reach
from directkafka.kafka.range_task import RangeTask
from directkafka.offsets import OffsetRange, PartitionProgress, Positions, TopicPartition, to_nested
from directkafka.options import NO_WAIT, MinOffsets
from directkafka.pipeline.batch import Written
from directkafka.pipeline.ledgers import Ledgers
from directkafka.pipeline.progress import BatchReport, Reporter
from directkafka.pipeline.recover import progress_of_newcomer
from directkafka.pipeline.retry import Patience, StopAsked, StopSignal
from directkafka.planning.plan import BatchPlan, PlanPolicy, plan, plan_origin, plan_pinned
from directkafka.planning.trigger import AvailableNow, Backlog, Moment, Trigger, wait_ms
from directkafka.stores.base import BatchName, LedgerEntry
from directkafka.view import ClusterView

__all__ = ["Cluster", "DirectEngine", "Writer"]

log = logging.getLogger("directkafka.pipeline")

_SECOND_LOOK_S = 0.5

#: How often a driver with nothing to do asks whether a newer one has taken its pipeline, in milliseconds. One
#: that has something to do finds out when it commits.
_FENCE_LOOK_MS = 5_000

#: Longest single wait for the next batch, in milliseconds; a longer one is several.
_WAIT_MS_MAX = 60_000


class Cluster(Protocol):
    """What the engine asks of Kafka; see :class:`~directkafka.sources.source_cluster.SourceCluster`."""

    def view(self, *, must_exist: bool = False, fresh: bool = False) -> ClusterView:
        """The selected partitions as of now."""
        ...

    def tell(self, ends: Mapping[TopicPartition, int]) -> None:
        """Tell the outside how far the pipeline is; never raises for what is only told."""
        ...

    def lookups(self, positions: Positions, view: ClusterView) -> dict[TopicPartition, int | None]:
        """The offsets that the positions' timestamps and groups stand for."""
        ...

    def tasks(self, ranges: Sequence[OffsetRange], view: ClusterView) -> tuple[RangeTask, ...]:
        """What executors need to read the ranges."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Writer(Protocol):
    """What the engine asks of Spark and the sinks; see :class:`~directkafka.pipeline.batch.BatchWriter`."""

    def check(self) -> tuple[str, ...]:
        """Compile the transform, check every sink, change nothing; remarks for the user."""
        ...

    def prepare(self) -> None:
        """Make what tables are not there."""
        ...

    def write(self, name: BatchName, tasks: Sequence[RangeTask]) -> Written:
        """Read, transform and write one batch where no reader sees it."""
        ...


@dataclass(slots=True)
class _Stopwatch:
    """Durations of a batch's steps, in milliseconds."""

    clock: Callable[[], float]
    last: float

    def lap_ms(self) -> int:
        """Since the last call."""
        before, self.last = self.last, self.clock()
        return round((self.last - before) * 1000)


class DirectEngine:
    """Runs one pipeline in the calling thread until it is told to stop.

    Args:
        name: the pipeline's name in the ledgers.
        cluster: where records come from; closed at the end.
        writer: what becomes of them.
        ledgers: where they are committed; closed at the end.
        starting: where a pipeline without a ledger begins.
        policy: limits of a batch.
        min_offsets: how many offsets a batch waits for; an available-now run does not wait.
        trigger: when batches start.
        report: told of each committed batch.
        stop: ends the run between two batches, or between two tries of one.
        patience: how failures that may pass are met.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        writer: Writer,
        ledgers: Ledgers,
        starting: Positions,
        policy: PlanPolicy,
        trigger: Trigger,
        report: Reporter,
        stop: StopSignal,
        patience: Patience,
        min_offsets: MinOffsets = NO_WAIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._writer = writer
        self._ledgers = ledgers
        self._starting = starting
        self._policy = policy
        self._trigger = trigger
        self._report = report
        self._stop = stop
        self._patience = patience
        self._min_offsets = min_offsets
        self._planned_ms: int | None = None
        self._clock = clock
        #: Where an available-now run ends; known once the first view is believed.
        self._target: Mapping[TopicPartition, int] | None = None
        #: Whether what is remembered of the ledgers may be wrong: after any failure.
        self._is_in_doubt = False
        #: A batch that is written and not yet committed everywhere.
        self._pending: tuple[LedgerEntry, Written] | None = None

    def run(self) -> None:
        """Steps 0 to 2, then batches until the trigger or the stop ends them.

        Raises:
            FencedError: a newer driver took over.
            DirectKafkaError: whatever stopped the pipeline; nothing of the failed batch is committed.
        """
        try:
            if not self._stop.is_set():
                for remark in self._patience.until_done(self._take_over):
                    log.warning("%s: %s", self._name, remark)
                self._run_batches()
        except StopAsked as asked:
            log.info("%s stops; what was being tried is rolled back: %s", self._name, asked)
        finally:
            self._cluster.close()
            self._ledgers.close()

    def _run_batches(self) -> None:
        started_ms = ended_ms = None
        is_idle = False
        looked_ms = self._now_ms()
        while not self._stop.is_set():
            moment = Moment(
                now_ms=self._now_ms(),
                started_ms=started_ms,
                ended_ms=ended_ms,
                backlog=self._patience.until_done(self._backlog),
                is_idle=is_idle,
            )
            if (wait := wait_ms(self._trigger, moment)) > 0:
                self._stop.wait(min(wait, _WAIT_MS_MAX) / 1000)
                continue
            started_ms = self._now_ms()
            is_idle = not self._patience.until_done(self._next_batch)
            ended_ms = self._now_ms()
            if is_idle and isinstance(self._trigger, AvailableNow):
                return
            if is_idle and ended_ms - looked_ms >= _FENCE_LOOK_MS:
                self._patience.until_done(self._ledgers.read)
                looked_ms = ended_ms

    # 0 to 2 -------------------------------------------------------------------------------------------------

    def _take_over(self) -> tuple[str, ...]:
        """Steps 0 to 2; remarks on the transform for the user."""
        self._ledgers.connect()
        remarks = self._writer.check()
        reach("fence.before")
        self._ledgers.fence()
        reach("fence.done")
        self._writer.prepare()
        self._recover()
        return remarks

    def _recover(self) -> None:
        """Step 2, and again after a failure: the ledgers, not memory, say where to go on."""
        recovery = self._ledgers.read()
        if recovery.ahead is None:
            self._commit_origin()
            return
        if recovery.behind:
            self._catch_up(recovery.ahead, recovery.behind)
        if recovery.new:
            self._join(recovery.ahead, recovery.new)

    def _commit_origin(self) -> None:
        """Batch 0: where the pipeline begins, so that "latest" means the same after a crash."""
        view = self._cluster.view(must_exist=True)
        origin = plan_origin(self._starting, view, self._cluster.lookups(self._starting, view), self._policy)
        _log_losses(origin)
        reach("origin.planned")
        entry = self._entry(batch_id=0, lineage=uuid.uuid4().hex, progress=origin.progress)
        self._ledgers.commit(entry)
        reach("origin.committed")
        log.info("%s starts at %s", self._name, to_nested(entry.ends()))

    def _catch_up(self, ahead: LedgerEntry, behind: Sequence[int]) -> None:
        """The newest batch for the stores that lack it, from the ranges that the others committed."""
        log.warning("%s: %d store(s) lack batch %d; it is redone there", self._name, len(behind), ahead.batch_id)
        entry = self._entry(batch_id=ahead.batch_id, lineage=ahead.lineage, progress=ahead.progress)
        self._commit(entry, self._kept(ahead) or self._write_pinned(ahead), only=behind)

    def _kept(self, ahead: LedgerEntry) -> Written | None:
        """The batch's rows as this driver wrote them, so that all stores get the same."""
        if self._pending is None:
            return None
        entry, written = self._pending
        is_the_same = (entry.lineage, entry.batch_id, entry.ends()) == (ahead.lineage, ahead.batch_id, ahead.ends())
        return written if is_the_same else None

    def _write_pinned(self, ahead: LedgerEntry) -> Written:
        view = self._cluster.view()
        pinned = plan_pinned(ahead.progress, view, self._policy)
        _log_losses(pinned)
        return self._writer.write(self._batch_name(ahead.batch_id), self._cluster.tasks(pinned.ranges, view))

    def _join(self, ahead: LedgerEntry, new: Sequence[int]) -> None:
        progress = progress_of_newcomer(ahead)
        entry = self._entry(batch_id=ahead.batch_id, lineage=ahead.lineage, progress=progress)
        self._ledgers.commit(entry, only=new)
        if ahead.batch_id > 0:
            log.warning(
                "%s: %d store(s) have no entry of it and join at batch %d; nothing before %s will be in them",
                self._name, len(new), ahead.batch_id, to_nested(entry.ends()),
            )  # fmt: skip

    # 3 to 5 -------------------------------------------------------------------------------------------------

    def _next_batch(self) -> bool:
        """One batch if there is anything to read; whether there was."""
        if self._is_in_doubt:
            self._recover()
        self._is_in_doubt = True
        done = self._batch()
        self._is_in_doubt = False
        return done

    def _batch(self) -> bool:
        watch = _Stopwatch(self._clock, self._clock())
        batch, view = self._plan()
        if batch is None:
            return False
        previous = self._ledgers.entry
        name = self._batch_name(previous.batch_id + 1)
        tasks = self._cluster.tasks(batch.ranges, view)
        reach("batch.planned")
        plan_ms = watch.lap_ms()
        written = self._writer.write(name, tasks)
        reach("batch.written")
        write_ms = watch.lap_ms()
        entry = self._entry(batch_id=name.batch_id, lineage=previous.lineage, progress=batch.progress)
        self._commit(entry, written)
        self._tell(batch, written, plan_ms=plan_ms, write_ms=write_ms, commit_ms=watch.lap_ms())
        reach("batch.reported")
        return True

    def _plan(self) -> tuple[BatchPlan | None, ClusterView]:
        """The next batch, and the view that it was planned from."""
        previous = {one.topic_partition: one for one in self._ledgers.entry.progress}
        view, policy = self._cluster.view(), self._policy_now()
        try:
            batch = plan(previous, self._up_to_target(view), policy)
        except DataLossError as loss:
            # A new leader's high watermark lags for a moment, and any broker may answer with old metadata
            # (KAFKA-7703): a loss is believed when a second look shows it too.
            log.warning("looking again, since it may pass: %s", loss)
            self._stop.wait(_SECOND_LOOK_S)
            view = self._cluster.view(fresh=True)
            batch = plan(previous, self._up_to_target(view), policy)
        if self._target is None and isinstance(self._trigger, AvailableNow):
            self._target = view.latest()
        if batch is not None:
            self._planned_ms = self._now_ms()
            _log_losses(batch)
        return batch, view

    def _policy_now(self) -> PlanPolicy:
        if isinstance(self._trigger, AvailableNow):
            return self._policy
        waited_ms = None if self._planned_ms is None else self._now_ms() - self._planned_ms
        return replace(self._policy, min_offsets=self._min_offsets.after(waited_ms))

    def _up_to_target(self, view: ClusterView) -> ClusterView:
        """The view, up to where an available-now run goes; the first view that shows no loss says where."""
        return view if self._target is None else view.until(self._target)

    def _commit(self, entry: LedgerEntry, written: Written, *, only: Sequence[int] | None = None) -> None:
        """Step 4; the next batch waits for all stores."""
        self._pending = (entry, written)
        try:
            self._ledgers.commit(entry, written, only=only)
        except RowCountError:  # what is staged is gone: the rows must be written again
            self._pending = None
            raise
        self._pending = None

    def _tell(self, batch: BatchPlan, written: Written, *, plan_ms: int, write_ms: int, commit_ms: int) -> None:
        report = BatchReport(
            pipeline=self._name,
            generation=self._ledgers.generation,
            batch_id=self._ledgers.entry.batch_id,
            offsets=batch.offset_count,
            records=written.record_count,
            rows=self._ledgers.row_counts(),
            backlog=batch.backlog,
            plan_ms=plan_ms,
            write_ms=write_ms,
            commit_ms=commit_ms,
        )
        self._cluster.tell(batch.ends())
        try:
            self._report(report)
        except Exception:
            # The batch is committed; who listens is not what the pipeline depends on.
            log.warning("%s: the report callback failed on batch %d", self._name, report.batch_id, exc_info=True)

    # helpers ------------------------------------------------------------------------------------------------

    def _entry(self, *, batch_id: int, lineage: str, progress: tuple[PartitionProgress, ...]) -> LedgerEntry:
        return LedgerEntry(
            pipeline=self._name,
            generation=self._ledgers.generation,
            lineage=lineage,
            batch_id=batch_id,
            progress=progress,
            committed_at_ms=int(time.time() * 1000),
        )

    def _batch_name(self, batch_id: int) -> BatchName:
        return BatchName(
            pipeline=self._name,
            generation=self._ledgers.generation,
            batch_id=batch_id,
            attempt=uuid.uuid4().hex,
        )

    def _backlog(self) -> int | None:
        """Offsets that are waiting, for the one trigger that asks."""
        if not isinstance(self._trigger, Backlog):
            return None
        ends = self._ledgers.entry.ends()
        seen = self._cluster.view().partitions
        return sum(max(0, one.latest - ends.get(place, one.earliest)) for place, one in seen.items())

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _log_losses(batch: BatchPlan) -> None:
    for loss in batch.losses:
        log.warning("going on without what is lost: %s", loss)
