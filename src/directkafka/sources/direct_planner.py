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
import os
import sys
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any, Final

from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext

from directkafka.errors import EnvironmentFaultError, OptionError
from directkafka.faults import reach
from directkafka.offsets import OffsetRange, Positions, TopicPartition, total_count
from directkafka.options import SourceOptions
from directkafka.planning.direct import DirectBatch, added_partitions, check_planned, plan_direct, start_positions
from directkafka.planning.rates import BatchTimes, observe
from directkafka.sources.batch_outcomes import BatchOutcomes, shown_time
from directkafka.sources.group_commits import GroupCommits
from directkafka.sources.rdd import RECORD_FIELDS, KafkaRDD, RDDKey, forget_ranges, located, remember_ranges
from directkafka.sources.second_look import believed
from directkafka.sources.source_cluster import SourceCluster
from directkafka.sources.stream_plan import StreamPlan, StreamState, rates_of, tick_folder
from directkafka.sources.streaming_jvm import StreamingJVM
from directkafka.stream_errors import OffsetsNotCommittedError
from directkafka.view import ClusterView

__all__ = ["DirectPlanner", "batch_ms", "planner_of"]

log = logging.getLogger("directkafka.source")

#: How long events of batches that have ended are waited for when the context has stopped, in seconds.
_EVENTS_S: Final = 1.0

_LOOK_S: Final = 0.02

#: The streams of this process, by their identifier.
_planners: dict[str, DirectPlanner] = {}


class DirectPlanner:
    """Gives the RDD of each batch; a function for ``DStream.transform``.

    Args:
        plan: what the program decides.
        state: where the stream is.
    """

    def __init__(self, plan: StreamPlan, state: StreamState) -> None:
        self.plan = plan
        self.jvm: StreamingJVM | None = None
        self.has_run = self.has_ended = False
        self._state = state
        self._lock = threading.RLock()
        self._cluster: SourceCluster | None = None
        self._rdds: dict[int, KafkaRDD] = {}
        #: The RDDs whose ranges can be asked for, by their batches.
        self._remembered: dict[int, list[RDDKey]] = {}
        #: Batches before this time will not be asked for again.
        self._oldest_ms = 0
        #: The batch that was planned last, and when, in milliseconds since 1970.
        self._newest: tuple[int, float] | None = None
        self.outcomes = BatchOutcomes()
        self.commits = GroupCommits(self._commit, self._is_done)
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
        ms = batch_ms(when)
        if self.jvm is None:
            # A context that comes from a checkpoint is known once it has started. (Not asked of the JVM, which
            # holds a lock while it starts, and makes the first batches before it has.)
            context: Any = StreamingContext._activeContext
            if context is not None and context.sparkContext is tick.ctx:
                self.bind(context, from_ms=ms + self.plan.interval_ms)
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

    def bind(self, context: StreamingContext, *, from_ms: int = 0) -> None:
        """Use this context's scheduler, and write down what is queued when it stops.

        Args:
            context: the stream's.
            from_ms: the first batch of which all events will be heard.

        Raises:
            EnvironmentFaultError: Python's threads are not the JVM's.
        """
        if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
            raise EnvironmentFaultError(
                what="PYSPARK_PIN_THREAD is false, and a batch would wait for ever for the lock under which it is made",
                remedy="Do not set it: each thread of Python has one of the JVM then, which is Spark's default.",
            )
        self.jvm = StreamingJVM(context.sparkContext, context._jssc.ssc(), self)
        self.outcomes.listen(from_ms)
        stop = context.stop

        @functools.wraps(stop)
        def stop_and_flush(*args: Any, **options: Any) -> None:
            try:
                stop(*args, **options)
            finally:
                self._end()

        context.stop = stop_and_flush  # type: ignore[method-assign]

    def _end(self) -> None:
        """The context has stopped: commit what can be committed, and let go of everything."""
        self.commits.flush(_EVENTS_S)
        self.outcomes.listen_no_more()
        self.has_ended = True
        self.commits.close()
        self._forget_rdds(sys.maxsize)
        if self._cluster is not None:
            self._cluster.close()
        if _planners.get(self.plan.stream_id) is self:
            del _planners[self.plan.stream_id]

    def batch_of(self, ends: Mapping[TopicPartition, int]) -> int | None:
        """The time of the youngest batch that reads up to one of these offsets, or past it; None when none does."""
        with self._lock:
            found = [
                ms
                for ms, ranges in self._state.ranges.items()
                for one in ranges
                if _reads_up_to(one, ends.get(one.topic_partition, -1))
            ]
        return max(found, default=None)

    def begin(self, ms: int) -> None:
        """An output of a batch is about to run.

        Raises:
            BatchFailedError: that batch or one before it has failed.
        """
        self.outcomes.begin(ms)

    def fail(self, ms: int, cause: str) -> None:
        """A batch has failed: from it on, nothing is planned, run or committed."""
        self.outcomes.fail(ms, cause)

    def succeed(self, ms: int) -> None:
        """All outputs of a batch have succeeded."""
        self.outcomes.succeed(ms)

    def observe(self, ms: int, times: BatchTimes) -> None:
        """Tell the rate controller of a batch that is done; how many records it had follows from its ranges."""
        policy = self.plan.rates.feedback
        if policy is None:
            return
        # Not under the planner's lock, which is held while Kafka is asked: Spark's events would wait for it.
        state = self._state
        known = replace(times, records=total_count(state.ranges.get(ms, ())))
        state.feedback = observe(state.feedback, known, interval_ms=self.plan.interval_ms, policy=policy)

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self.plan.options.group_id is not None, "commit_async has refused it"
        self.cluster().commit(self.plan.options.group_id, offsets)

    def _is_done(self, ms: int | None) -> bool:
        if ms is None:
            self.outcomes.check(sys.maxsize)
            return True
        is_done = self.outcomes.is_done(ms, self._pending)
        if self.has_ended and not is_done:
            raise OffsetsNotCommittedError(offsets=f"those of the batch of {shown_time(ms)}")
        return is_done

    def _pending(self) -> set[int]:
        return self.jvm.pending() if self.jvm is not None else set()

    def cluster(self) -> SourceCluster:
        """The connections, made when they are first needed."""
        with self._lock:
            if self._cluster is None:
                given = self.plan.options
                self._cluster = SourceCluster(
                    SourceOptions(
                        strategy=given.strategy,
                        starting=Positions(),
                        ending=None,
                        client=given.client,
                        group_id=given.group_id,
                        columns=RECORD_FIELDS,
                        poll_timeout_ms=self.plan.poll_timeout_ms,
                    )
                )
            return self._cluster

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            # Spark writes checkpoints behind a failure too, and a batch that was dropped is in none: the restart would
            # begin behind it. Where this raises, the checkpoint before stays the last one.
            self.outcomes.check(sys.maxsize)
            return _restored, (self.plan, replace(self._state, ranges=dict(self._state.ranges)))

    def _rdd(self, ms: int, sc: SparkContext) -> KafkaRDD:
        known = self._state.ranges.get(ms)
        if known is None:
            self.outcomes.check(ms)
            view, ranges = self._planned(ms)
        else:
            ranges, cluster = known, self.cluster()
            view, _ = believed(
                lambda view: check_planned(self._state.progress, ranges, view),
                cluster.view(must_exist=True),
                look_again=lambda: cluster.view(must_exist=True, fresh=True),
            )
        tasks = self.cluster().tasks(ranges, view)
        rdd = KafkaRDD(sc, tasks, self.plan.read, located(sc, tasks, self.plan.location, view))
        self._remembered.setdefault(ms, []).append(remember_ranges(rdd))
        if self.jvm is not None:
            self.jvm.report(ms, ranges)
        return rdd

    def _forget(self, before_ms: int) -> None:
        """Drop what is known of batches that are older."""
        self._state.forget(before_ms)
        self.outcomes.forget(before_ms)
        self._forget_rdds(before_ms)

    def _forget_rdds(self, before_ms: int) -> None:
        for ms in [one for one in self._remembered if one < before_ms]:
            for key in self._remembered.pop(ms):
                forget_ranges(key)

    def _planned(self, ms: int) -> tuple[ClusterView, tuple[OffsetRange, ...]]:
        state = self._state
        if state.ranges and ms <= max(state.ranges):
            raise EnvironmentFaultError(
                what=f"Spark asks for the batch of {shown_time(ms)} again, and its ranges are forgotten",
                remedy="Let the context remember batches for longer: ssc.remember(seconds).",
            )
        # A pattern may find nothing for a while: what it finds then has come later.
        is_first = not state.ranges
        view = self.cluster().view(must_exist=is_first)
        pending = self._pending()
        self._check_submitted(ms, pending)
        # Warns where retention is about to overtake, and most of all while batches wait.
        self.cluster().tell(_unread(state, pending))
        if self.jvm is not None:
            self._forget(self._oldest_ms)
            # Batches that wait are asked for again after a crash, however long ago they were planned. What is too old
            # now is forgotten by the next plan: a checkpoint of a batch that has just ended may still be on its way.
            self._oldest_ms = min((ms - self.jvm.remembered_ms, *pending))
        self._newest = ms, time.time() * 1000
        if self.plan.waiting_batches_max is not None and len(pending) >= self.plan.waiting_batches_max:
            log.warning("the batch of %s is empty: %s batches wait", shown_time(ms), self.plan.waiting_batches_max)
            state.ranges[ms] = ()
            return view, ()
        view, batch = self._decided(view)
        if batch.added and not is_first:
            starts = ", ".join(f"{one} at {batch.start_of(one)}" for one in batch.added)
            # Records that came before a partition was noticed are left out where the reset says latest.
            log.warning("partitions added: %s; auto.offset.reset says where new partitions start", starts)
        state.progress, state.ranges[ms] = batch.progress, batch.ranges
        reach("stream.planned")
        return view, batch.ranges

    def _check_submitted(self, ms: int, pending: Collection[int]) -> None:
        """See that the batch before has jobs: one that Spark has dropped, since another stream's part of it could not
        be made, has read nothing, and this one would begin behind it.

        Raises:
            BatchFailedError: it was dropped.
        """
        if self._newest is None:
            return
        before_ms, planned_at_ms = self._newest
        # A window that slides by several intervals has several batches planned at once, of which the last has jobs.
        if planned_at_ms >= ms or before_ms in pending:
            return
        # It may have ended this moment, and Spark's event be on its way.
        until_s = time.monotonic() + _EVENTS_S
        while (was_dropped := self.outcomes.was_dropped(before_ms)) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        if not was_dropped:
            return
        self.fail(before_ms, "Spark has dropped it: a function that makes its RDDs has failed, see Spark's log")
        self.outcomes.check(ms)

    def _decided(self, view: ClusterView) -> tuple[ClusterView, DirectBatch]:
        return believed(self._decide, view, look_again=lambda: self.cluster().view(fresh=True))

    def _decide(self, view: ClusterView) -> DirectBatch:
        given, state = self.plan, self._state
        if not state.ranges and (strange := given.options.offsets.keys() - view.partitions.keys()):
            shown = ", ".join(map(str, sorted(strange)))
            raise OptionError(option="offsets", reason=f"names partitions that are not there: {shown}")
        starts = start_positions(given.options, added_partitions(state.progress, view))
        new = replace(view, partitions={one: view.partitions[one] for one in starts.partitions})
        return plan_direct(
            state.progress,
            view,
            starts=starts,
            found=self.cluster().lookups(starts, new),
            rates=given.rates,
            interval_ms=given.interval_ms,
            rate=state.feedback.rate,
            partition_rates=rates_of(given.partition_config, view.partitions),
        )


def _unread(state: StreamState, unfinished: Iterable[int]) -> dict[TopicPartition, int]:
    """The first offset of each partition that no finished batch has read."""
    offsets = {one: here.end for one, here in state.progress.items()}
    for one in chain.from_iterable(state.ranges.get(ms, ()) for ms in unfinished):
        offsets[one.topic_partition] = min(one.from_offset, offsets[one.topic_partition])
    return offsets


def _reads_up_to(one: OffsetRange, end: int) -> bool:
    """Whether an end lies in a range; that of an empty range is where it is."""
    return one.from_offset < end <= one.until_offset or one.from_offset == end == one.until_offset


def planner_of(stream_id: str) -> DirectPlanner:
    """The planner of a stream of this process.

    Raises:
        OptionError: the stream is another process's, the driver's: an executor has no streams.
    """
    planner = _planners.get(stream_id)
    if planner is None:
        raise OptionError(option="stream", reason="is used where it does not run: use it on the driver, in foreachRDD")
    return planner


def batch_ms(when: datetime) -> int:
    """A batch's time as Spark has it, in milliseconds since 1970; right also in the hour that a clock goes back."""
    return round(when.timestamp() * 1000)


def _restored(plan: StreamPlan, state: StreamState) -> DirectPlanner:
    """What unpickling a planner gives."""
    known = _planners.get(plan.stream_id)
    if known is not None and not known.has_run:
        return known
    plan.program.warn_if_changed()
    # Spark looks there each interval, and a machine that was started anew may have emptied its temporary folder.
    tick_folder()
    log.info("the stream goes on from its checkpoint, with %d batches that may run again", len(state.ranges))
    return DirectPlanner(plan, state)
