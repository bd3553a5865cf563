"""The planner of batches: ranges from the ledger's ends and a snapshot of the cluster. Step 3's first half.

:mod:`directkafka.planning` decides, from values; here is what has to be asked and remembered for it: the snapshot, a
second look before a loss is believed, where an available-now run ends, how long the pipeline has waited for enough
offsets, and how large a batch may be that must fit a transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from threading import Event
from typing import Final, NamedTuple

from directkafka.errors.data_loss import TopicRecreatedError
from directkafka.errors.kafka import TransactionTooSlowError
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import PartitionProgress, Positions, TopicPartition
from directkafka.options.limits import MinOffsets
from directkafka.pipeline.retry import StopAsked
from directkafka.planning.adaptive_limit import NO_LIMIT
from directkafka.planning.loss import STANDING_STILL
from directkafka.planning.plan import BatchPlan, PlanPolicy, plan, plan_origin, plan_pinned
from directkafka.planning.trigger import AvailableNow, Trigger
from directkafka.sinks.api import LedgerEntry, Sink
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.source_cluster import CONFIRM_LOSS_S, SourceCluster, confirm_loss

log = logging.getLogger("directkafka.pipeline")

#: How old a snapshot may be that another batch is planned from, in milliseconds: new partitions must be seen while a
#: large backlog is worked off.
_SNAPSHOT_AGE_MS_MAX: Final = 10_000

RAISE_TIMEOUT: Final = (
    "Raise kafka.transaction.timeout.ms of the sink, up to the brokers' transaction.max.timeout.ms: this batch "
)


class Planned(NamedTuple):
    """A batch's ranges, the snapshot that they were planned from, and what executors need to read them."""

    batch: BatchPlan
    snapshot: ClusterSnapshot
    tasks: tuple[RangeTask, ...]


class Planner:
    """Plans one batch after the other.

    Args:
        pipeline: its name, for messages.
        cluster: is asked for snapshots.
        policy: limits of a batch.
        min_offsets: how many offsets a batch waits for; an available-now run does not wait.
        trigger: whether the run is an available-now run.
        stop: ends waiting.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        pipeline: str,
        cluster: SourceCluster,
        *,
        policy: PlanPolicy,
        min_offsets: MinOffsets,
        trigger: Trigger,
        stop: Event,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._cluster = cluster
        self._policy = policy
        self._min_offsets = min_offsets
        self._ends = isinstance(trigger, AvailableNow)
        self._stop = stop
        self._clock = clock
        #: Where an available-now run ends; known once the first snapshot is believed.
        self._target: Mapping[TopicPartition, int] | None = None
        #: When the newest committed batch was planned. Of one that failed, the records have waited long enough.
        self._committed_plan_ms: int | None = None
        self._snapshot_ms = 0
        #: The newest plan; when it proves too large for a transaction, the next one is held below it.
        self._planned: BatchPlan | None = None
        self._adaptive_limit = NO_LIMIT

    def next(self, previous: LedgerEntry) -> Planned | None:
        """The batch behind the ledger's entry, from a fresh snapshot; None when there is nothing to read.

        Raises:
            DataLossError: something that should be there is gone, at the second look too.
            DirectKafkaError: Kafka does not answer.
        """
        known = previous.by_partition()
        snapshot, policy = self._cluster.snapshot(known=known), self._policy_now(self._committed_plan_ms)
        self._snapshot_ms = self._now_ms()
        if self._ends and not self._policy.fail_on_data_loss and self._may_end_early(known, snapshot):
            self._wait(CONFIRM_LOSS_S)
            snapshot = self._cluster.snapshot(fresh=True, known=known)
        snapshot, batch = confirm_loss(
            lambda snapshot: plan(known, self._up_to_target(snapshot), policy),
            snapshot,
            look_again=lambda: self._cluster.snapshot(fresh=True, known=known),
            wait=self._wait,
            harmless=STANDING_STILL,
        )
        if self._target is None and self._ends:
            self._target = snapshot.latest()
        return self._noted(batch, snapshot)

    def _may_end_early(self, known: Mapping[TopicPartition, PartitionProgress], snapshot: ClusterSnapshot) -> bool:
        """Whether partitions are missing of which an available-now run has something to read.

        Where nothing is a loss, nobody else looks twice; and a broker may have old metadata (KAFKA-7703).
        """
        missing = known.keys() - snapshot.partitions.keys() - snapshot.deleted
        if self._target is None:
            return bool(missing)
        return any(known[partition].end < self._target.get(partition, 0) for partition in missing)

    def _wait(self, seconds: float) -> None:
        """The pause before a second look, which tells nothing if it is cut short."""
        if self._stop.wait(seconds):
            raise StopAsked("it was about to look at the topics for a second time")

    def following(self, previous: LedgerEntry, snapshot: ClusterSnapshot, *, offsets_min: int) -> Planned | None:
        """The batch behind an entry that is not committed yet, from the snapshot that its batch was planned from.

        Returns:
            None when the snapshot is old, or shows fewer than ``offsets_min`` offsets: then nothing counts as planned.
        """
        if self._now_ms() - self._snapshot_ms > _SNAPSHOT_AGE_MS_MAX:
            return None
        policy = self._policy_now(self._snapshot_ms)
        batch = plan(previous.by_partition(), self._up_to_target(snapshot), policy)
        return self._noted(batch, snapshot) if batch is not None and batch.offset_count >= offsets_min else None

    def origin(self, starting: Positions) -> BatchPlan:
        """Batch 0, which has no ranges: where the pipeline begins, so that "latest" means the same after a crash.

        Raises:
            DataLossError: as for :meth:`next`.
            TopicNotFoundError: a topic that is not there.
        """
        _, origin = confirm_loss(
            lambda snapshot: plan_origin(starting, snapshot, self._cluster.lookups(starting, snapshot), self._policy),
            self._cluster.snapshot(must_exist=True),
            look_again=lambda: self._cluster.snapshot(must_exist=True, fresh=True),
            wait=self._wait,
        )
        return origin

    def pinned(self, ahead: LedgerEntry) -> Planned:
        """The batch of an entry that some stores have, from the ranges that they committed.

        Raises:
            DataLossError: as for :meth:`next`.
        """
        known = ahead.by_partition()
        snapshot, pinned = confirm_loss(
            lambda snapshot: plan_pinned(ahead.progress, snapshot, self._policy),
            self._cluster.snapshot(known=known),
            look_again=lambda: self._cluster.snapshot(fresh=True, known=known),
            wait=self._wait,
        )
        snapshot = snapshot.planned_under(ahead.progress)
        return Planned(pinned, snapshot, self._cluster.tasks(pinned.ranges, snapshot))

    def backlog(self, ends: Mapping[TopicPartition, int]) -> int:
        """Offsets that are waiting behind these ends."""
        seen = self._cluster.snapshot().partitions
        return sum(
            max(0, seen_partition.latest - ends.get(partition, seen_partition.earliest))
            for partition, seen_partition in seen.items()
        )

    def plan_smaller(self, error: TransactionTooSlowError) -> None:
        """Hold the next plan to half of the one that was too large for a transaction.

        Raises:
            TransactionTooSlowError: it cannot be halved.
            StopAsked: it was rolled back, and will not be tried again.
        """
        assert self._planned is not None, "a batch was planned before it was slow"
        count = self._planned.offset_count
        lowered = self._adaptive_limit.lowered(self._planned, budget_ms=error.budget_ms)
        if lowered is None:
            raise replace(error, remedy=f"{RAISE_TIMEOUT}of {count} offsets cannot be halved.") from error
        if self._stop.is_set():
            raise StopAsked(str(error)) from error
        self._adaptive_limit = lowered
        log.warning(
            "%s: a batch of %d offsets took %d ms, and a transaction has %d ms (four fifths of "
            "kafka.transaction.timeout.ms); it was rolled back, and is done again with %d offsets at most",
            self._pipeline, count, error.elapsed_ms, error.budget_ms, lowered.offsets,
        )  # fmt: skip

    def learn(self, batch: BatchPlan, *, took_ms: int) -> None:
        """How long a committed batch took: after batches that were fast, larger ones are tried again."""
        self._committed_plan_ms = self._now_ms() - took_ms
        self._adaptive_limit = self._adaptive_limit.after(batch, took_ms=took_ms)

    def _noted(self, batch: BatchPlan | None, snapshot: ClusterSnapshot) -> Planned | None:
        if batch is None:
            return None
        self._planned = batch
        return Planned(batch, snapshot, self._cluster.tasks(batch.ranges, snapshot))

    def _policy_now(self, planned_ms: int | None) -> PlanPolicy:
        """What counts for a batch, if the one before was planned then; None: it is the first of the run."""
        policy = self._adaptive_limit.over(self._policy)
        if self._ends:
            return policy
        waited_ms = None if planned_ms is None else self._now_ms() - planned_ms
        return replace(policy, min_offsets=self._min_offsets.after(waited_ms))

    def _up_to_target(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot, up to where an available-now run goes; the first snapshot that shows no loss says where."""
        return snapshot if self._target is None else snapshot.until(self._target)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def log_losses(batch: BatchPlan, sinks: Iterable[Sink]) -> None:
    """Say what a batch goes without, and where rows of a topic that was made again may meet those of the old one.

    Args:
        batch: the plan.
        sinks: the pipeline's.
    """
    for loss in batch.losses:
        log.warning("going on without what is lost: %s", loss)
    again = sorted({loss.topic_partition.topic for loss in batch.losses if loss.error_type is TopicRecreatedError})
    modes = {sink.name: sink.capabilities.write_mode for sink in sinks}
    keyed = sorted(name for name, mode in modes.items() if mode is not None and mode.name == "ignore")
    if again and keyed:
        log.warning(
            "the offsets of %s begin anew, and %s leaves out rows whose key is there already (mode ignore): if the key "
            "is topic, partition and offset, records of the new topic are taken for those of the old one, and are in "
            "no table. Move the old topic's rows away before the next batch, or write to another table",
            ", ".join(again), ", ".join(keyed),
        )  # fmt: skip
