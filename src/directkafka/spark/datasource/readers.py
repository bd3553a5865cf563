"""Readers of the format ``directkafka``: batch and stream, over the planner.

Two things differ from what the API suggests, both so that a killed query loses nothing:

- ``initialOffset`` returns ``{}`` and the first ``latestOffset({})`` returns the resolved start positions. Batch 0
  is empty, and Spark's offset log holds where the query starts before the first record is read. (Spark asks for
  the initial offset again when it replays batch 0; with ``latest``, records would be lost.)
- A partition that appears later enters the log the same way: first at its earliest offset with no records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from directkafka.errors import DataLossError
from directkafka.errors.data_loss import loss_of_available_now
from directkafka.errors.transport import Notes
from directkafka.offsets import PartitionProgress, TopicPartition, from_nested, to_nested
from directkafka.options.source import SourceOptions
from directkafka.options.spec import LONG_MAX
from directkafka.planning.loss import STANDING_STILL
from directkafka.planning.plan import (
    BatchPlan,
    PlanPolicy,
    plan,
    plan_origin,
    plan_pinned,
    plan_read,
    progress_at,
    progress_between,
)
from directkafka.python_worker import freeze_imports
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.datasource.task_reader import RangePartition, TaskReader
from directkafka.spark.source_cluster import SourceCluster, confirm_loss

log = logging.getLogger("directkafka.source")

Nested = dict[str, dict[str, int]]


class BatchReader(DataSourceReader):
    """A batch read: the options' ranges, with starts and ends that are fixed when it is planned."""

    def __init__(self, options: SourceOptions, notes: Notes) -> None:
        self._options = options
        self._notes = notes

    def partitions(self) -> list[InputPartition]:
        """A partition for each range, planned now: a task that runs again reads the same records."""
        freeze_imports("plan")
        with closing(SourceCluster(self._options)) as cluster:
            snapshot, batch = confirm_loss(
                lambda snapshot: self._plan(cluster, snapshot),
                cluster.snapshot(must_exist=True),
                look_again=lambda: cluster.snapshot(must_exist=True, fresh=True),
            )
            return _partitions(batch, cluster, snapshot)

    def _plan(self, cluster: SourceCluster, snapshot: ClusterSnapshot) -> BatchPlan:
        options = self._options
        assert options.ending is not None, "a batch read has an end"
        return plan_read(
            starting=options.starting,
            ending=options.ending,
            snapshot=snapshot,
            start_answers=cluster.lookups(options.starting, snapshot),
            end_answers=cluster.lookups(options.ending, snapshot),
            policy=PlanPolicy.of(options),
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        return TaskReader(self._notes).read(partition)

    def __reduce__(self) -> tuple[type[TaskReader], tuple[Notes]]:
        # Executors plan nothing.
        return TaskReader, (self._notes,)


def _partitions(batch: BatchPlan, cluster: SourceCluster, snapshot: ClusterSnapshot) -> list[InputPartition]:
    _log_losses(batch)
    return [RangePartition(task) for task in cluster.tasks(batch.ranges, snapshot)]


def _as_seen(progress: PartitionProgress, snapshot: ClusterSnapshot) -> PartitionProgress:
    seen = snapshot.partitions.get(progress.topic_partition)
    return progress if seen is None else replace(progress, topic_id=seen.topic_id, leader_epoch=seen.leader_epoch)


def _log_losses(batch: BatchPlan) -> None:
    for loss in batch.losses:
        log.warning("going on without what is lost: %s", loss)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans a query's batches, and reads them.

    Args:
        options: what the query asks for.
        notes: sign errors on their way to the driver.
        group_has_listener: whether somebody else commits to its group when a batch is done; see
            :mod:`directkafka.spark.datasource.query_groups`.
    """

    def __init__(self, options: SourceOptions, notes: Notes, *, group_has_listener: bool = False) -> None:
        self._options = options
        self._notes = notes
        self._group_has_listener = group_has_listener
        self._cluster = SourceCluster(options)
        self._started = False
        self._has_committed = False
        self._planned_at_s: float | None = None
        self._target: Mapping[TopicPartition, int] | None = None
        #: Topic ids and leader epochs, which Spark's offset log does not hold, as this process has seen them.
        self._seen: Mapping[TopicPartition, PartitionProgress] = {}

    def initialOffset(self) -> Nested:  # noqa: N802 - Spark's name
        """Nothing yet, see above."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say of a batch's size."""
        limits, least = self._options.limits, self._options.min_offsets_per_trigger
        if limits:
            return ReadMaxRows(limits.total or LONG_MAX)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix where the run ends."""
        # The run reads what is there now, and not what arrives before its first batch is planned.
        self._target = self._cluster.snapshot().latest()

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:  # noqa: N802
        """Where the next batch ends, or ``start`` when there is none."""
        # Spark also says {} for a pattern that has found no topic yet; topics that come later are read from earliest.
        is_first, self._started = not (start or self._started), True
        if is_first:
            return self._first_offsets()
        self._report_progress(from_nested(start))
        previous = self._previous(start)
        batch = self._next_batch(previous, limit)
        if batch is None:
            return start
        _log_losses(batch)
        ends = {
            partition.topic_partition: partition.end if partition.topic_partition in previous else partition.start
            for partition in batch.progress
        }
        added = sorted(set(ends) - set(previous))
        if added:
            log.warning("partitions added: %s", to_nested({partition: ends[partition] for partition in added}))
        return to_nested(ends)

    def _report_progress(self, ends: Mapping[TopicPartition, int]) -> None:
        """Commit to the group, and warn of retention: the batch before is done when Spark asks for a new end."""
        if not (self._group_has_listener and self._has_committed):
            # Also at a query's start: the process before may have been killed between a batch and its commit here.
            self._cluster.commit_to_group(ends)
            self._has_committed = True
        self._cluster.warn_of_retention(ends)

    def _snapshot(
        self,
        *,
        must_exist: bool = False,
        fresh: bool = False,
        known: Mapping[TopicPartition, PartitionProgress] | None = None,
    ) -> ClusterSnapshot:
        """The cluster now, up to where an available-now run goes."""
        snapshot = self._cluster.snapshot(must_exist=must_exist, fresh=fresh, known=known)
        if self._target is None:
            return snapshot
        # Topics that the look before the run did not find, though the query reads them, or begins with them, and
        # partitions of which it has read records: the broker had old metadata (KAFKA-7703).
        reads = snapshot.partitions if known is None else known
        missed = {partition.topic for partition in reads} - {partition.topic for partition in self._target}
        added = {
            partition: seen.latest
            for partition, seen in snapshot.partitions.items()
            if partition.topic in missed
            or (partition not in self._target and known and partition in known and known[partition].end > seen.earliest)
        }
        self._target = {**self._target, **added}
        return snapshot.until(self._target)

    def _first_offsets(self) -> Nested:
        positions, policy = self._options.starting, PlanPolicy.of(self._options)
        _, origin = confirm_loss(
            lambda snapshot: plan_origin(positions, snapshot, self._cluster.lookups(positions, snapshot), policy),
            self._snapshot(must_exist=True),
            look_again=lambda: self._snapshot(must_exist=True, fresh=True),
        )
        _log_losses(origin)
        self._seen = {partition.topic_partition: partition for partition in origin.progress}
        log.info("the query starts at %s", to_nested(origin.ends()))
        return to_nested(origin.ends())

    def _next_batch(self, previous: Mapping[TopicPartition, PartitionProgress], limit: ReadLimit) -> BatchPlan | None:
        policy = self._policy_now(limit)
        try:
            snapshot, batch = confirm_loss(
                lambda snapshot: plan(previous, snapshot, policy),
                self._snapshot(known=previous),
                look_again=lambda: self._snapshot(fresh=True, known=previous),
                harmless=STANDING_STILL,
            )
        except DataLossError as loss:
            if self._target is None:
                raise
            raise loss_of_available_now(loss, self._target.get(TopicPartition(loss.topic, loss.partition))) from None
        if batch is not None:
            self._planned_at_s = time.monotonic()
            self._seen = {partition.topic_partition: partition for partition in batch.progress}
        elif policy.fail_on_data_loss:
            # Nothing was lost. Where losses are accepted, the batch that logs a loss has to see it again.
            self._seen = {partition: _as_seen(here, snapshot) for partition, here in previous.items()}
        return batch

    def _policy_now(self, limit: ReadLimit) -> PlanPolicy:
        """What counts for the next batch. Spark hands back our own limit, or asks for all (``Trigger.Once``)."""
        if isinstance(limit, ReadAllAvailable):
            return PlanPolicy.of(self._options)
        waited_ms = None if self._planned_at_s is None else (time.monotonic() - self._planned_at_s) * 1000
        # A run with an end to reach does not wait for records that will not be its own.
        min_offsets = 0 if self._target is not None else self._options.min_offsets.after(waited_ms)
        return PlanPolicy.of(self._options, limits=self._options.limits, min_offsets=min_offsets)

    def _previous(self, start: Nested) -> dict[TopicPartition, PartitionProgress]:
        """Where the query is, with the topic ids and leader epochs that this process has seen."""
        return {
            partition: self._with_what_was_seen(here) for partition, here in progress_at(from_nested(start)).items()
        }

    def _with_what_was_seen(self, progress: PartitionProgress) -> PartitionProgress:
        seen = self._seen.get(progress.topic_partition)
        if seen is None:
            return progress
        return replace(progress, topic_id=seen.topic_id, leader_epoch=seen.leader_epoch)

    def reportLatestOffset(self) -> Nested:  # noqa: N802
        """The ends of the log as last seen, for the query's progress."""
        return to_nested(self._cluster.last_snapshot.latest())

    def partitions(self, start: Nested, end: Nested) -> list[InputPartition]:
        """One for each range of a batch."""
        if not start:
            # Batch 0, which only says where the query starts; or, in a query that is started again, the word that it
            # has found no topic so far: what comes now is read from earliest, and not from where it would start anew.
            self._started = True
            return []
        snapshot, batch = confirm_loss(
            lambda snapshot: plan_pinned(self._between(start, end, snapshot), snapshot, PlanPolicy.of(self._options)),
            self._cluster.last_snapshot,
            look_again=lambda: self._cluster.snapshot(fresh=True, known=self._previous(end)),
        )
        return _partitions(batch, self._cluster, snapshot.planned_under(batch.progress))

    def _between(self, start: Nested, end: Nested, snapshot: ClusterSnapshot) -> list[PartitionProgress]:
        between = progress_between(from_nested(start), from_nested(end), snapshot)
        return [self._as_planned(self._with_what_was_seen(partition)) for partition in between]

    def _as_planned(self, progress: PartitionProgress) -> PartitionProgress:
        """With the start that was planned: of a topic that was made again, Spark's log has the former end alone."""
        seen = self._seen.get(progress.topic_partition)
        is_of_this_batch = seen is not None and seen.end == progress.end
        return replace(progress, start=min(seen.start, progress.start)) if seen and is_of_this_batch else progress

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        return TaskReader(self._notes).read(partition)

    def commit(self, end: Nested) -> None:
        """Nothing: Spark's offset log is the truth, and this call comes one trigger late, or never."""

    def stop(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def __reduce__(self) -> tuple[type[TaskReader], tuple[Notes]]:
        # Executors need neither the driver's connections nor its memory.
        return TaskReader, (self._notes,)
