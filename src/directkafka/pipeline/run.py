"""The direct engine: the numbered steps of a pipeline's life.

::

    1. fence all stores, in the order listed; the first hands out the generation
    2. read the ledgers, only after all are fenced
       nothing there:  resolve the start positions, commit them as batch 0, which has no rows
       one is ahead:   its ranges are pinned, the others redo that batch
    then, for each batch:
    3. plan the ranges from the last ends and a fresh view; write the rows where no reader sees them
    4. commit rows and ledger entry, store by store, each in one transaction
    5. tell the outside

Each arrow between two steps is a fault point (:mod:`directkafka.faults`), and ``tests/chaos`` kills the process
at each. An error in 3 or 4 that may pass (a database that restarts, a leader that moves) is answered by doing
the whole batch again from the ledger; no later batch runs before it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event

import tenacity
from pyspark.sql import SparkSession

from directkafka.errors import (
    BrokerResponseError,
    BrokerUnreachableError,
    DataLossError,
    FetchTimeoutError,
    RowCountError,
    StoreUnavailableError,
    WorkerLostError,
)
from directkafka.faults import reach
from directkafka.offsets import PartitionProgress, TopicPartition, to_nested
from directkafka.options import SourceOptions
from directkafka.pipeline.batch import BatchWriter, Binding, Written
from directkafka.pipeline.progress import BatchReport, Reporter
from directkafka.pipeline.recover import reconcile
from directkafka.pipeline.transform import Transform
from directkafka.planning.plan import BatchPlan, PlanPolicy, plan, plan_origin, plan_pinned
from directkafka.planning.trigger import AvailableNow, Backlog, Moment, Trigger, wait_ms
from directkafka.sources.cluster import SourceCluster
from directkafka.stores.base import BatchName, LedgerEntry, Store
from directkafka.view import ClusterView

__all__ = ["DirectEngine"]

log = logging.getLogger("directkafka.pipeline")

#: What may pass by itself; anything else stops the pipeline at once.
_PASSING = (StoreUnavailableError, RowCountError, BrokerUnreachableError, FetchTimeoutError, WorkerLostError)

_SECOND_LOOK_S = 0.5


@dataclass(slots=True)
class _Ledger:
    """One store with the entry it stands at."""

    store: Store
    entry: LedgerEntry | None = None


class DirectEngine:
    """Runs one pipeline in the calling thread until it is told to stop.

    Args:
        name: the pipeline's name in the ledgers.
        source: options of the source.
        transform: what becomes of each batch.
        bindings: which output goes into which sink; sinks of one store share its transaction.
        trigger: when batches start.
        session: a Spark session of the pipeline's own.
        report: told of each committed batch.
        retry_ms_max: how long a failure that may pass is met with another try, in milliseconds.
    """

    def __init__(
        self,
        name: str,
        *,
        source: SourceOptions,
        transform: Transform,
        bindings: Sequence[Binding],
        trigger: Trigger,
        session: SparkSession,
        report: Reporter,
        retry_ms_max: int = 60_000,
    ) -> None:
        self._name = name
        self._source = source
        self._trigger = trigger
        self._report = report
        self._cluster = SourceCluster(source)
        self._writer = BatchWriter(session, transform, bindings, include_headers=source.include_headers)
        self._ledgers = _group(bindings)
        self._policy = PlanPolicy(
            max_offsets=source.max_offsets_per_trigger,
            fail_on_data_loss=source.fail_on_data_loss,
            min_partitions=source.min_partitions,
            max_records_per_partition=source.max_records_per_partition,
            group_id_given=source.group_id is not None,
        )
        self._generation = 0
        self._target: Mapping[TopicPartition, int] | None = None
        self._retry_ms_max = retry_ms_max

    def run(self, stop: Event) -> None:
        """Steps 1 and 2, then batches until the trigger or ``stop`` ends them.

        Raises:
            FencedError: a newer driver took over.
            DirectKafkaError: whatever stopped the pipeline; nothing of the failed batch is committed.
        """
        try:
            self._retrying(stop)(self._take_over)
            self._writer.prepare()
            started_ms = ended_ms = None
            while not stop.is_set():
                wait = wait_ms(
                    self._trigger,
                    Moment(now_ms=_now_ms(), started_ms=started_ms, ended_ms=ended_ms, backlog=self._backlog()),
                )
                if wait > 0:
                    stop.wait(wait / 1000)
                    continue
                started_ms = _now_ms()
                if not self._next_batch(stop) and isinstance(self._trigger, AvailableNow):
                    return
                ended_ms = _now_ms()
        finally:
            self._close()

    def _close(self) -> None:
        self._cluster.close()
        for ledger in self._ledgers:
            ledger.store.close()

    # 1 and 2 ------------------------------------------------------------------------------------------------

    def _take_over(self) -> None:
        reach("fence.before")
        generation: int | None = None
        for ledger in self._ledgers:  # 1. the first hands out the generation, the others take it
            generation = ledger.store.fence(self._name, generation=generation)
        assert generation is not None
        self._generation = generation
        reach("fence.done")
        for ledger in self._ledgers:  # 2. only now can nobody else move them
            ledger.entry = ledger.store.read(self._name)
        reach("ledger.read")
        recovery = reconcile([(ledger.store.identity, ledger.entry) for ledger in self._ledgers])
        if recovery.ahead is None:
            self._commit_origin()
        elif recovery.behind:
            self._catch_up(recovery.ahead, [self._ledgers[index] for index in recovery.behind])

    def _commit_origin(self) -> None:
        """Batch 0: where the pipeline begins, so that "latest" means the same after a crash."""
        view = self._cluster.view(must_exist=True)
        positions = self._source.starting
        origin = plan_origin(positions, view, self._cluster.timestamps(positions, view), self._policy)
        _log_losses(origin)
        reach("origin.planned")
        entry = self._entry(batch_id=0, lineage=uuid.uuid4().hex, progress=origin.progress)
        for ledger in self._ledgers:
            ledger.entry = ledger.store.commit(entry, previous=None)
        reach("origin.committed")
        log.info("%s starts at %s", self._name, to_nested(entry.ends()))

    def _catch_up(self, ahead: LedgerEntry, behind: Sequence[_Ledger]) -> None:
        """Redo the newest batch for the stores that lack it, from the ranges that the others committed."""
        log.warning("%s: %d store(s) lack batch %d; redoing it there", self._name, len(behind), ahead.batch_id)
        name = self._batch_name(ahead.batch_id)
        view = self._cluster.view()
        pinned = plan_pinned(ahead.progress, view, self._policy)
        _log_losses(pinned)
        written = self._writer.write(name, self._cluster.tasks(pinned.ranges, view))
        entry = self._entry(batch_id=ahead.batch_id, lineage=ahead.lineage, progress=ahead.progress)
        for ledger in behind:
            ledger.entry = ledger.store.commit(entry, previous=ledger.entry, writes=written.for_store(ledger.store))

    # 3 to 5 -------------------------------------------------------------------------------------------------

    def _next_batch(self, stop: Event) -> bool:
        """One batch if there is anything to read; again from the ledger while its failure may pass."""
        for attempt in self._retrying(stop):
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    self._read_again()
                done = self._batch()
        return done

    def _batch(self) -> bool:
        started = time.monotonic()
        view = self._cluster.view()
        batch = self._plan(view)
        if batch is None:
            return False
        previous = self._entry_now()
        name = self._batch_name(previous.batch_id + 1)
        tasks = self._cluster.tasks(batch.ranges, view)
        reach("batch.planned")
        planned = time.monotonic()
        written = self._writer.write(name, tasks)
        reach("batch.written")
        done = time.monotonic()
        entry = self._entry(batch_id=name.batch_id, lineage=previous.lineage, progress=batch.progress)
        for ledger in self._ledgers:  # 4. in the order listed; the next batch waits for all of them
            ledger.entry = ledger.store.commit(entry, previous=ledger.entry, writes=written.for_store(ledger.store))
        committed = time.monotonic()
        self._tell(batch, written, plan_s=planned - started, write_s=done - planned, commit_s=committed - done)
        reach("batch.reported")
        return True

    def _plan(self, view: ClusterView) -> BatchPlan | None:
        previous = {one.topic_partition: one for one in self._entry_now().progress}
        try:
            batch = plan(previous, self._as_wanted(view), self._policy)
        except DataLossError as loss:
            # A new leader's high watermark lags for a moment, and any broker may answer with old metadata
            # (KAFKA-7703): a loss is believed when a second look shows it too.
            log.warning("looking again, since it may pass: %s", loss)
            time.sleep(_SECOND_LOOK_S)
            batch = plan(previous, self._as_wanted(self._cluster.view()), self._policy)
        if batch is not None:
            _log_losses(batch)
        return batch

    def _as_wanted(self, view: ClusterView) -> ClusterView:
        """The view, up to where an available-now run goes."""
        if not isinstance(self._trigger, AvailableNow):
            return view
        if self._target is None:
            self._target = view.latest()
        return view.until(self._target)

    def _tell(self, batch: BatchPlan, written: Written, *, plan_s: float, write_s: float, commit_s: float) -> None:
        entry = self._entry_now()
        rows: dict[str, int] = {}
        for ledger in self._ledgers:
            rows |= ledger.entry.row_counts if ledger.entry is not None else {}
        self._report(
            BatchReport(
                pipeline=self._name,
                generation=self._generation,
                batch_id=entry.batch_id,
                offsets=batch.offset_count,
                records=written.record_count,
                rows=rows,
                backlog=batch.backlog,
                plan_ms=round(plan_s * 1000),
                write_ms=round(write_s * 1000),
                commit_ms=round(commit_s * 1000),
            )
        )

    # helpers ------------------------------------------------------------------------------------------------

    def _read_again(self) -> None:
        """After a failure: the ledger, not memory, says where to go on."""
        for ledger in self._ledgers:
            ledger.entry = ledger.store.read(self._name)
        recovery = reconcile([(ledger.store.identity, ledger.entry) for ledger in self._ledgers])
        if recovery.ahead is not None and recovery.behind:
            self._catch_up(recovery.ahead, [self._ledgers[index] for index in recovery.behind])

    def _entry_now(self) -> LedgerEntry:
        entry = self._ledgers[0].entry
        assert entry is not None, "batch 0 is committed before anything is planned"
        return entry

    def _entry(self, *, batch_id: int, lineage: str, progress: tuple[PartitionProgress, ...]) -> LedgerEntry:
        return LedgerEntry(
            pipeline=self._name,
            generation=self._generation,
            lineage=lineage,
            batch_id=batch_id,
            progress=progress,
            committed_at_ms=int(time.time() * 1000),
        )

    def _batch_name(self, batch_id: int) -> BatchName:
        return BatchName(pipeline=self._name, generation=self._generation, batch_id=batch_id, attempt=uuid.uuid4().hex)

    def _backlog(self) -> int | None:
        if not isinstance(self._trigger, Backlog) or self._ledgers[0].entry is None:
            return None
        ends = self._ledgers[0].entry.ends()
        latest = self._cluster.view().latest()
        return sum(max(0, end - ends.get(one, end)) for one, end in latest.items())

    def _retrying(self, stop: Event) -> tenacity.Retrying:
        return tenacity.Retrying(
            stop=tenacity.stop_any(
                tenacity.stop_after_delay(self._retry_ms_max / 1000), tenacity.stop_when_event_set(stop)
            ),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5.0),
            retry=tenacity.retry_if_exception(_may_pass),
            before_sleep=_log_retry,
            sleep=tenacity.sleep_using_event(stop),
            reraise=True,
        )


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, BrokerResponseError):
        return error.retriable
    return isinstance(error, _PASSING)


def _log_losses(batch: BatchPlan) -> None:
    for loss in batch.losses:
        log.warning("going on without what is lost: %s", loss)


def _log_retry(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    log.warning("try %d failed and may pass, trying again: %s", state.attempt_number, error)


def _group(bindings: Sequence[Binding]) -> list[_Ledger]:
    """One ledger per store: stores with one identity are one, in the order of the sinks."""
    stores: dict[str, Store] = {}
    for binding in bindings:
        stores.setdefault(binding.sink.store.identity, binding.sink.store)
    return [_Ledger(store) for store in stores.values()]


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
