"""The plan of a batch: which offsets it reads, and what the ledger will say afterwards.

Everything here is a pure function of where the pipeline is (``PartitionProgress`` by partition), what
the cluster has (:class:`~directkafka.snapshot.ClusterSnapshot`) and a :class:`PlanPolicy`. A batch's progress
follows on the one before: ``start`` is the ``end`` of the batch before, unless the topic was made
again, which shows in another ``topic_id``. Offsets of ``[start, end)`` that are lost are in none of the
plan's ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from directkafka.offsets import (
    OffsetRange,
    PartitionProgress,
    Positions,
    TopicPartition,
    total_count,
)
from directkafka.options.limits import NO_LIMITS, OffsetLimits
from directkafka.options.source import SourceOptions
from directkafka.planning.loss import (
    Loss,
    classify,
    end_changed,
    is_same_topic,
    log_truncated,
    loss_of,
    raise_for,
    resume_at,
)
from directkafka.planning.placement import split
from directkafka.planning.rates import limited_ends
from directkafka.planning.starts import LookupAnswers, resolve_ranges, resolve_starts
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy:
    """What the user decides about plans.

    Attributes:
        limits: most offsets of a batch.
        min_offsets: fewer new offsets than this are left for a later batch.
        fail_on_data_loss: whether a loss is an error; else the plan goes on without what is lost.
        min_partitions, max_records_per_partition: as for :func:`~directkafka.planning.placement.split`.
        group_id_given: whether ``kafka.group.id`` was given, for a message of Spark's.
    """

    limits: OffsetLimits = NO_LIMITS
    min_offsets: int = 0
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    group_id_given: bool = False

    @classmethod
    def of(cls, options: SourceOptions, *, limits: OffsetLimits = NO_LIMITS, min_offsets: int = 0) -> PlanPolicy:
        """What a source's options decide.

        Args:
            options: of the source.
            limits, min_offsets: as they count for this plan.
        """
        return cls(
            limits=limits,
            min_offsets=min_offsets,
            fail_on_data_loss=options.fail_on_data_loss,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
            group_id_given=options.group_id is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What a batch reads, and what its ledger entry will say.

    Attributes:
        ranges: one per task, none empty.
        progress: every partition that the pipeline has ever read, sorted, with this batch's offsets; without those
            that are deleted for good.
        losses: what the batch goes without, to be logged; empty when losses are errors.
        behind: offsets that are left for later batches, by partition that the cluster has.
    """

    ranges: tuple[OffsetRange, ...]
    progress: tuple[PartitionProgress, ...]
    losses: tuple[Loss, ...]
    behind: Mapping[TopicPartition, int]

    @property
    def offset_count(self) -> int:
        """Offsets that the batch reads; records may be fewer where the log has gaps."""
        return total_count(self.ranges)

    @property
    def backlog(self) -> int:
        """Offsets that are left for later batches."""
        return sum(self.behind.values())

    def ends(self) -> dict[TopicPartition, int]:
        """Where the next batch starts, by partition."""
        return {partition.topic_partition: partition.end for partition in self.progress}


def plan(
    previous: Mapping[TopicPartition, PartitionProgress], snapshot: ClusterSnapshot, policy: PlanPolicy
) -> BatchPlan | None:
    """The next batch; None when there is nothing new to read, or less than the policy's ``min_offsets``.

    Partitions that are new since the batch before are read from their earliest offset. Losses in
    partitions without new records are told with the next batch that is planned.

    Args:
        previous: where the pipeline is; the progress of its last batch.
        snapshot: the partitions that are read, as the cluster has them now.

    Raises:
        DataLossError: data is lost and the policy says to fail. A caller does well to take a second snapshot before
            it believes that: a new leader's high watermark is for a moment lower than its predecessor's was,
            and any broker may answer with old metadata (KAFKA-7703).
    """
    losses = classify(previous, snapshot, group_id_given=policy.group_id_given)
    if policy.fail_on_data_loss:
        raise_for(losses)
    starts = {}
    for partition, seen in snapshot.partitions.items():
        start = resume_at(previous.get(partition), seen)
        if start is not None:
            starts[partition] = start
    latest = snapshot.readable()
    if sum(max(latest[partition] - start, 0) for partition, start in starts.items()) < policy.min_offsets:
        return None
    ends = limited_ends(starts, latest, policy.limits)
    ranges = _ranges(starts, ends, policy)
    if not ranges:
        return None
    carried = [
        known for partition, known in previous.items() if partition not in starts and partition not in snapshot.deleted
    ]
    progress = [replace(known, start=known.end) for known in carried]
    progress += [
        _advanced(
            partition, previous.get(partition), snapshot.partitions[partition], starts[partition], ends[partition]
        )
        for partition in starts
    ]
    return _batch_plan(ranges, progress, losses, snapshot)


def plan_origin(
    positions: Positions, snapshot: ClusterSnapshot, answers: LookupAnswers, policy: PlanPolicy
) -> BatchPlan:
    """The first plan of a pipeline, which reads nothing and pins where it starts.

    Args:
        positions: where to start.
        snapshot: the partitions that are read.
        answers: to the lookups of :func:`~directkafka.planning.starts.needed_lookups`.

    Raises:
        OptionError: positions and partitions do not match, or no record is young enough.
        DataLossError: a start is not in the log and the policy says to fail; else the nearest offset that is
            counts instead.
    """
    starts = resolve_starts(positions, snapshot, answers)
    if policy.fail_on_data_loss:
        raise_for(starts.losses)
    progress = [
        _advanced(partition, None, snapshot.partitions[partition], start, start)
        for partition, start in starts.offsets.items()
    ]
    return _batch_plan((), progress, starts.losses, snapshot)


def plan_read(
    *,
    starting: Positions,
    ending: Positions,
    snapshot: ClusterSnapshot,
    start_answers: LookupAnswers,
    end_answers: LookupAnswers,
    policy: PlanPolicy,
) -> BatchPlan:
    """The plan of a batch read, from a position to a position.

    Raises:
        OptionError: positions and partitions do not match, or a start lies behind its end.
        DataLossError: what is asked for is not in the log and the policy says to fail.
    """
    resolved = resolve_ranges(starting, ending, snapshot, start_answers, end_answers)
    if policy.fail_on_data_loss:
        raise_for(resolved.losses)
    ranges_and_partitions = [(offset_range, offset_range.topic_partition) for offset_range in resolved.ranges]
    progress = [
        _advanced(partition, None, snapshot.partitions[partition], offset_range.from_offset, offset_range.until_offset)
        for offset_range, partition in ranges_and_partitions
    ]
    return _batch_plan(_split(resolved.ranges, policy), progress, resolved.losses, snapshot)


def plan_pinned(progress: Iterable[PartitionProgress], snapshot: ClusterSnapshot, policy: PlanPolicy) -> BatchPlan:
    """The plan of a batch whose starts and ends are already decided, to be read (again).

    For a store that lags behind another by one batch, and for Spark's replay of a batch.

    Raises:
        DataLossError: a part of it is no longer in the log and the policy says to fail.
    """
    pinned = sorted(progress)
    ranges, losses = [], []
    for partition in pinned:
        seen = snapshot.partitions.get(partition.topic_partition)
        loss = _lost_of_pinned(partition, seen, policy)
        if loss is not None:
            losses.append(loss)
        if seen is not None and is_same_topic(partition, seen):
            start = max(partition.start, seen.earliest)
            end = max(min(partition.end, seen.latest), start)
            ranges.append(OffsetRange(partition.topic, partition.partition, start, end))
    if policy.fail_on_data_loss:
        raise_for(tuple(losses))
    return _batch_plan(_split(ranges, policy), pinned, tuple(losses), snapshot)


def progress_at(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, PartitionProgress]:
    """Progress that says no more than these offsets, which a checkpoint of Spark's holds."""
    return {partition: PartitionProgress.at(partition, offset) for partition, offset in offsets.items()}


def progress_between(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], snapshot: ClusterSnapshot
) -> tuple[PartitionProgress, ...]:
    """Progress from one of a checkpoint's offsets to the next.

    A partition that the first one lacks is new, and starts at its earliest offset.
    """
    earliest = snapshot.earliest()
    between = progress_at(
        {partition: starts.get(partition, earliest.get(partition, end)) for partition, end in ends.items()}
    )
    return tuple(replace(between[partition], end=ends[partition]) for partition in sorted(between))


def _ranges(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], policy: PlanPolicy
) -> tuple[OffsetRange, ...]:
    whole = (
        OffsetRange(partition.topic, partition.partition, starts[partition], ends[partition])
        for partition in sorted(starts)
    )
    return _split(whole, policy)


def _split(ranges: Iterable[OffsetRange], policy: PlanPolicy) -> tuple[OffsetRange, ...]:
    return split(
        ranges,
        min_partitions=policy.min_partitions,
        max_records_per_partition=policy.max_records_per_partition,
    )


def _advanced(
    partition: TopicPartition, known: PartitionProgress | None, seen: PartitionSnapshot, start: int, end: int
) -> PartitionProgress:
    follows = known is not None and is_same_topic(known, seen)
    return PartitionProgress(
        topic=partition.topic,
        partition=partition.partition,
        topic_id=seen.topic_id or (known.topic_id if known else ""),
        # Skipped offsets count as this batch's, so that its start is where the batch before ended.
        start=known.end if known and follows else start,
        end=end,
        leader_epoch=seen.leader_epoch if seen.leader_epoch >= 0 or not known else known.leader_epoch,
        origin=known.origin if known and follows else start,
    )


def _lost_of_pinned(partition: PartitionProgress, seen: PartitionSnapshot | None, policy: PlanPolicy) -> Loss | None:
    """What is lost of a pinned range: the pipeline stands at its start and wants to go to its end."""
    if partition.start == partition.end:
        return None
    topic_partition = partition.topic_partition
    if partition.end < partition.start:
        return end_changed(topic_partition, partition.start, partition.end)
    if seen is not None and is_same_topic(partition, seen) and seen.latest >= partition.end:
        # What the range was planned over may have been cut since, behind its start.
        truncated = log_truncated(partition, seen, from_offset=partition.start)
        if truncated is not None:
            return truncated
    loss = loss_of(topic_partition, replace(partition, end=partition.start), seen, group_id_given=policy.group_id_given)
    if loss is None:
        return (
            end_changed(topic_partition, partition.end, seen.latest) if seen and seen.latest < partition.end else None
        )
    return replace(loss, lost_until=min(loss.lost_until, partition.end))


def _batch_plan(
    ranges: tuple[OffsetRange, ...],
    progress: Iterable[PartitionProgress],
    losses: tuple[Loss, ...],
    snapshot: ClusterSnapshot,
) -> BatchPlan:
    carried = tuple(sorted(progress))
    ends = {partition.topic_partition: partition.end for partition in carried}
    behind = {
        partition: max(seen.latest - ends.get(partition, seen.latest), 0)
        for partition, seen in snapshot.partitions.items()
    }
    return BatchPlan(ranges=ranges, progress=carried, losses=losses, behind=behind)
