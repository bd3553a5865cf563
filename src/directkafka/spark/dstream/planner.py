"""The driver's part of a direct stream: from the time of a batch to its RDD.

A batch goes through four steps; the points between them are fault points:

1. **Plan**: Spark asks for the RDD of a time, and the ranges are decided (``stream.planned``).
2. **Run**: Spark writes its checkpoint, if there is one, and runs the outputs.
3. **Done**: Spark says that all of them have succeeded (``stream.done``).
4. **Commit**: what ``commit_async`` has queued goes to the group, in order (``stream.committed``).

Spark calls the planner once for each output of each batch, pickles it with every checkpoint, and calls the pickled
copies after a restart. So three things hold:

- **A time has its ranges once.** The first call of a time plans, every other one gets the same RDD. After a crash,
  Spark runs the batches again that had begun; their ranges are in the checkpoint, and stay what they were.
- **A stream has one planner**, however many copies the checkpoint holds: unpickling gives the planner of that stream
  which is there already, unless that one has run, in an earlier life of this process.
- **Nothing is planned past a failure.** Once a batch has failed, the next one is an error, whatever is left to read.
"""

from __future__ import annotations

import functools
import logging
import pickle
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from weakref import WeakValueDictionary

from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext

from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.errors.streams import OffsetsNotCommittedError
from directkafka.fault_points import fault_point
from directkafka.offsets import OffsetRange, TopicPartition, total_count
from directkafka.planning.direct import check_planned, reads_up_to, unread
from directkafka.planning.rates import BatchTimes, observe
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.dstream.batch_tracker import Pace, batch_ms, shown_time
from directkafka.spark.dstream.batches import EVENTS_S, Batches, next_batch
from directkafka.spark.dstream.jvm_scheduler import StreamingJVM
from directkafka.spark.dstream.offset_commits import GroupCommits
from directkafka.spark.dstream.state import StreamPlan, StreamState, tick_folder
from directkafka.spark.rdd.rdd import KafkaRDD, RDDKey, forget_ranges, located, remember_ranges, tell_missing_hosts
from directkafka.spark.source_cluster import SourceCluster, confirm_loss

log = logging.getLogger("directkafka.source")

#: For how long the ranges of an RDD can be asked for when its batch has ended, in milliseconds.
_ASKED_MS: Final = 30_000

#: The streams of this process that are in use, by their identifier.
_planners: WeakValueDictionary[str, DirectPlanner] = WeakValueDictionary()


class DirectPlanner:
    """Gives the RDD of each batch; a function for ``DStream.transform``.

    Args:
        plan: what the program decides.
        state: where the stream is.
    """

    def __init__(self, plan: StreamPlan, state: StreamState) -> None:
        self.plan = plan
        self.has_run = self.has_ended = False
        self._state = state
        self._lock = threading.RLock()
        self._binding = threading.Lock()
        #: Where the stream runs; known with its first batch.
        self._sc: SparkContext | None = None
        #: One to plan and one to commit: a coordinator that hangs is no reason to plan late.
        self._cluster: SourceCluster | None = None
        self._group: SourceCluster | None = None
        self._rdds: dict[int, KafkaRDD] = {}
        #: The RDDs whose ranges can be asked for, by their batches.
        self._remembered: dict[int, list[RDDKey]] = {}
        #: Batches before this time will not be asked for again.
        self._oldest_ms = 0
        self._hosts_missing: tuple[str, ...] = ()
        self._is_full = False
        self._pace = Pace(plan.trigger)
        #: The state as it was pickled last, and how often it had changed by then.
        self._pickled: tuple[int, bytes] | None = None
        self._changes = 0
        self.batches = Batches()
        self.commits = GroupCommits(self._commit, self._is_done)
        self.handle = PlannerHandle(plan.stream_id, self)
        _planners[plan.stream_id] = self

    def __call__(self, when: datetime, tick: RDD[Any]) -> KafkaRDD:
        """The RDD of a batch.

        Args:
            when: the batch's time, as Spark gives it.
            tick: an empty RDD that says which context this is.

        Raises:
            BatchFailedError: a batch before it has failed.
            OptionError: offsets are given for partitions that are not there.
            DataLossError: records that should be read are gone.
        """
        ms, self._sc = batch_ms(when), tick.ctx
        self._bind_restored()
        with self._lock:
            self.has_run = True
            if ms not in self._rdds:
                try:
                    self._rdds = {ms: self._rdd(ms, tick.ctx)}
                except BaseException as error:
                    self._fail_all(ms, f"{type(error).__name__}: {error}")
                    raise
            return self._rdds[ms]

    def _fail_all(self, ms: int, cause: str) -> None:
        """Spark drops the whole batch now: streams that have planned it would go on behind it."""
        self.fail(ms, cause)
        for other in list(_planners.values()):
            if other is not self and ms in other._state.ranges:
                other.fail(ms, f"another stream could not plan it: {cause}")

    def bind(self, context: StreamingContext) -> None:
        """Use this context's scheduler, and write down what is queued when it stops.

        Raises:
            EnvironmentFaultError: Python's threads are not the JVM's.
        """
        self.batches.jvm = StreamingJVM(context.sparkContext, context._jssc.ssc(), self)
        # Of batches that are planned already, as those that a restored context begins with, events may be missed.
        self.batches.statuses.listen(max(self._state.ranges, default=-1) + 1)
        stop = context.stop

        @functools.wraps(stop)
        def stop_and_flush(*args: Any, **options: Any) -> None:
            # Outputs of a SparkContext that has stopped are passed over, and seem to have succeeded.
            has_spark = context.sparkContext._jsc is not None
            try:
                stop(*args, **options)
            finally:
                self._end(is_whole=has_spark)

        context.stop = stop_and_flush  # type: ignore[method-assign]

    def _bind_restored(self) -> None:
        """Use the context that comes from a checkpoint: it is known once it has started.

        (Not asked of the JVM, which holds a lock while it starts, and makes the first batches before it has.) The
        thread that plans and the one that commits both try, and neither waits for the other: making the RDDs of a
        batch holds a lock of the JVM that binding needs too.
        """
        context: Any = StreamingContext._activeContext
        is_ours = context is not None and context.sparkContext is self._sc
        if self.batches.jvm is not None or not is_ours or not self._binding.acquire(blocking=False):
            return
        try:
            if self.batches.jvm is None:
                self.bind(context)
        finally:
            self._binding.release()

    def _end(self, *, is_whole: bool) -> None:
        """The context has stopped: commit what can be committed, and let go of everything.

        Args:
            is_whole: whether what has left Spark's queue has run.
        """
        self.commits.flush(EVENTS_S)
        if is_whole:
            self.batches.statuses.listen_no_more()
        self.has_ended = True
        self.commits.close()
        self._forget_rdds(sys.maxsize)
        for client in (self._cluster, self._group):
            if client is not None:
                client.close()

    def batch_of(self, ends: Mapping[TopicPartition, int]) -> int | None:
        """The time of the youngest batch that reads up to one of these offsets, or past it; None when none does."""
        # Not under the planner's lock, which is held while Kafka is asked.
        for ms, ranges in reversed(list(self._state.ranges.items())):
            if any(reads_up_to(offset_range, ends.get(offset_range.topic_partition, -1)) for offset_range in ranges):
                return ms
        return None

    def fail(self, ms: int, cause: str) -> None:
        """A batch has failed: from it on, nothing is planned, run or committed."""
        self.batches.statuses.fail(ms, cause)

    def succeed(self, ms: int) -> None:
        """All outputs of a batch have succeeded."""
        self._pace.ended(ms)
        self.batches.statuses.succeed(ms)

    def observe(self, ms: int, times: BatchTimes) -> None:
        """Tell the rate controller of a batch that is done; how many records it had follows from its ranges."""
        policy = self.plan.rates.feedback
        if policy is None:
            return
        # Not under the planner's lock, which is held while Kafka is asked: Spark's events would wait for it.
        state = self._state
        known = replace(times, records=total_count(state.ranges.get(ms, ())))
        state.feedback = observe(state.feedback, known, interval_ms=self.plan.interval_ms, policy=policy)
        self._changes += 1

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self.plan.options.group_id is not None, "commit_async has refused it"
        if self._group is None:
            self._group = SourceCluster(self.plan.source_options())
        self._group.commit(self.plan.options.group_id, offsets)

    def _is_done(self, ms: int | None) -> bool:
        self._bind_restored()
        if ms is None:
            self.batches.check()
            return True
        is_done = self.batches.is_done(ms)
        if self.has_ended and not is_done:
            raise OffsetsNotCommittedError(offsets=f"those of the batch of {shown_time(ms)}")
        return is_done

    def cluster(self) -> SourceCluster:
        """The connections of the plan, made when they are first needed."""
        with self._lock:
            if self._cluster is None:
                self._cluster = SourceCluster(self.plan.source_options())
            return self._cluster

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            # Spark writes checkpoints behind a failure too, and a batch that was dropped is in none: the restart would
            # begin behind it. Where this raises, the checkpoint before stays the last one.
            self.batches.check()
            # Spark pickles it for each output, and again when the batch is done.
            changes = self._changes
            if self._pickled is None or self._pickled[0] != changes:
                self._pickled = changes, pickle.dumps(self._state, pickle.HIGHEST_PROTOCOL)
            return _restored, (self.plan, self._pickled[1])

    def _rdd(self, ms: int, sc: SparkContext) -> KafkaRDD:
        known = self._state.ranges.get(ms)
        if known is None:
            snapshot, ranges = self._planned(ms)
        else:
            ranges, cluster, progress = known, self.cluster(), self._state.progress
            self.batches.plan(ms)
            snapshot, _ = confirm_loss(
                lambda snapshot: check_planned(progress, ranges, snapshot),
                cluster.snapshot(must_exist=True, known=progress),
                look_again=lambda: cluster.snapshot(must_exist=True, fresh=True, known=progress),
            )
            snapshot = snapshot.planned_under(progress.values())
        tasks = self.cluster().tasks(ranges, snapshot)
        placement = located(sc, tasks, self.plan.location, snapshot)
        if placement.hosts_without_executors != self._hosts_missing:
            tell_missing_hosts(placement, self.plan.location)
            self._hosts_missing = placement.hosts_without_executors
        rdd = KafkaRDD(sc, tasks, self.plan.read, placement.locations)
        self._remembered.setdefault(ms, []).append(remember_ranges(rdd))
        if self.batches.jvm is not None:
            self.batches.jvm.report(ms, ranges)
        return rdd

    def _forget(self, before_ms: int) -> None:
        """Drop what is known of batches that are older."""
        self._state.forget(before_ms)
        self.batches.statuses.forget(before_ms)

    def _forget_rdds(self, before_ms: int) -> None:
        for ms in [ms for ms in self._remembered if ms < before_ms]:
            for key in self._remembered.pop(ms):
                forget_ranges(key)

    def _planned(self, ms: int) -> tuple[ClusterSnapshot, tuple[OffsetRange, ...]]:
        state = self._state
        if ms < max(state.ranges, default=ms) and ms >= state.forgotten_ms:
            # A window asks for a time before which another one has had its records: they are in a later batch.
            state.ranges[ms] = ()
            return self.cluster().last_snapshot, ()
        if state.ranges and ms <= max(state.ranges):
            raise EnvironmentFaultError(
                what=f"Spark asks for the batch of {shown_time(ms)} again, and its ranges are forgotten",
                remedy="Let the context remember batches for longer: ssc.remember(seconds).",
            )
        self.batches.check(ms)
        # One answer for all of this: another thread may bind the stream meanwhile.
        jvm = self.batches.jvm
        # A pattern may find nothing for a while: what it finds then has come later.
        is_first = not state.ranges
        snapshot = self.cluster().snapshot(must_exist=is_first, known=state.progress)
        # Behind the question to Kafka: by now Spark has said what has become of the batch before.
        self.batches.check(ms)
        pending = jvm.pending() if jvm is not None else set()
        # Warns where retention is about to overtake, and most of all while batches wait.
        self.cluster().report_progress(unread(state.progress, (state.ranges.get(ms, ()) for ms in pending)))
        if jvm is not None:
            self.batches.statuses.settle(pending)
            self._forget(self._oldest_ms)
            # Batches that wait are asked for again after a crash, however long ago they were planned. What is too old
            # now is forgotten by the next plan: a checkpoint of a batch that has just ended may still be on its way.
            self._oldest_ms = min((ms - jvm.remembered_ms, *pending))
            self._forget_rdds(min((ms - _ASKED_MS, *pending)))
        self.batches.plan(ms)
        self._changes += 1
        asked = None if jvm is None else pending
        if self._must_wait(ms, len(pending)) or self._pace.is_early(ms, state.progress, snapshot, asked):
            state.ranges[ms] = ()
            return snapshot, ()
        snapshot, batch = next_batch(self.plan, state, self.cluster(), snapshot)
        if batch.added and not is_first:
            starts = ", ".join(f"{partition} at {batch.start_of(partition)}" for partition in batch.added)
            # Records that came before a partition was noticed are left out where the reset says latest.
            log.warning("partitions added: %s; auto.offset.reset says where new partitions start", starts)
        state.progress, state.ranges[ms] = batch.progress, batch.ranges
        self._pace.planned(ms, batch.ranges)
        fault_point("stream.planned")
        return snapshot, batch.ranges

    def _must_wait(self, ms: int, waiting: int) -> bool:
        """Whether so many batches wait that this one is empty; said when it begins and when it ends."""
        most = self.plan.waiting_batches_max
        is_full = most is not None and waiting >= most
        if is_full and not self._is_full:
            log.warning("batches are empty from %s on: %s batches wait", shown_time(ms), waiting)
        elif self._is_full and not is_full:
            log.warning("batches have records again from %s on: %s batches wait", shown_time(ms), waiting)
        self._is_full = is_full
        return is_full


class PlannerHandle:
    """What functions keep of a stream's planner. A checkpoint has each of them, and a planner with all its ranges is
    large: so only its name is pickled.

    Args:
        stream_id: the stream's.
        planner: its planner; None after unpickling: looked up when it is needed first.
    """

    def __init__(self, stream_id: str, planner: DirectPlanner | None = None) -> None:
        self._stream_id, self._planner = stream_id, planner

    def __call__(self) -> DirectPlanner:
        """The planner.

        Raises:
            OptionError: this is not the driver.
        """
        # Kept from then on: a stream of the same name may be restored while outputs of this one still run.
        if self._planner is None:
            self._planner = planner_of(self._stream_id)
        return self._planner

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannerHandle, (self._stream_id,)


def planner_of(stream_id: str) -> DirectPlanner:
    """The planner of a stream of this process.

    Raises:
        OptionError: the stream is another process's, the driver's: an executor has no streams.
    """
    planner = _planners.get(stream_id)
    if planner is None:
        raise OptionError(option="stream", reason="is used where it does not run: use it on the driver, in foreachRDD")
    return planner


def _restored(plan: StreamPlan, pickled: bytes) -> DirectPlanner:
    """What unpickling a planner gives."""
    known = _planners.get(plan.stream_id)
    if known is not None and not known.has_run:
        return known
    state: StreamState = pickle.loads(pickled)
    plan.program.warn_if_changed()
    # Spark looks there each interval, and a machine that was started anew may have emptied its temporary folder.
    tick_folder()
    log.info("the stream goes on from its checkpoint, with %d batches that may run again", len(state.ranges))
    return DirectPlanner(plan, state)
