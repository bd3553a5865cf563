"""Losses: what is no longer in Kafka, and what retention is about to delete, by comparing snapshots of the cluster.

What happens to each partition, and where the next batch starts when ``failOnDataLoss`` is false. It
never reads an offset of the same topic twice:

===================================================  ========================================
found                                                next batch starts
===================================================  ========================================
the partition is gone                                it is not read; its progress is kept until no broker
                                                     knows the topic's id any more
the topic was made again (another topic id)          at the new topic's earliest offset
the log ends before the pipeline's position          at that position, once the log reaches it
the log was cut before it, and has grown again       at the pipeline's position
the log starts after the pipeline's position         at the earliest offset
a lower leader epoch than before                     at the pipeline's position
a new partition that does not start at 0             at the earliest offset
a new partition whose earliest offset is not known   it is not read in this batch
===================================================  ========================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from directkafka.errors import DataLossError
from directkafka.errors.data_loss import (
    AddedPartitionDoesNotStartFromOffsetZeroError,
    CouldNotReadOffsetRangeError,
    InitialOffsetNotFoundForPartitionsError,
    LeaderEpochWentBackError,
    LogTruncatedError,
    PartitionOffsetChangedError,
    PartitionsDeletedAndGroupIdConfigPresentError,
    PartitionsDeletedError,
    TopicRecreatedError,
)
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot

#: Losses behind which a pipeline that goes on stands still in a partition: nothing is read, and nothing passed over.
STANDING_STILL: Final = frozenset(
    {PartitionsDeletedError, PartitionsDeletedAndGroupIdConfigPresentError, PartitionOffsetChangedError}
)


@dataclass(frozen=True, slots=True)
class Loss:
    """One partition's loss, as a value: the caller raises it or logs it.

    Attributes:
        error_type: what happened.
        topic_partition: where.
        lost_from, lost_until: the half-open range of offsets that cannot be read, as far as it is
            known; equal when it is not.
        detail: what was found, with the numbers.
    """

    error_type: type[DataLossError]
    topic_partition: TopicPartition
    lost_from: int
    lost_until: int
    detail: str

    def to_error(self) -> DataLossError:
        """The loss as the error that stops a query."""
        return self.error_type(
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
            lost_from=self.lost_from,
            lost_until=self.lost_until,
            detail=self.detail,
        )

    def __str__(self) -> str:
        lost = f"[{self.lost_from}, {self.lost_until})"
        return f"{self.error_type.condition}: {self.topic_partition} {lost}: {self.detail}"


def raise_for(losses: tuple[Loss, ...]) -> None:
    """Raise the first loss; the others stand in its notes.

    Raises:
        DataLossError: there is a loss.
    """
    if losses:
        error = losses[0].to_error()
        for other in losses[1:]:
            error.add_note(str(other))
        raise error


def classify(
    previous: Mapping[TopicPartition, PartitionProgress],
    snapshot: ClusterSnapshot,
    *,
    group_id_given: bool = False,
) -> tuple[Loss, ...]:
    """Every loss between the last batch and the next, one per partition at most, sorted.

    Args:
        previous: where the pipeline is.
        snapshot: the partitions that are read now.
        group_id_given: whether the user gave ``kafka.group.id``; Spark then words a deletion otherwise.
    """
    losses = (
        loss_of(partition, previous.get(partition), snapshot.partitions.get(partition), group_id_given=group_id_given)
        for partition in sorted({*previous, *snapshot.partitions})
    )
    return tuple(loss for loss in losses if loss is not None)


def loss_of(
    partition: TopicPartition,
    known: PartitionProgress | None,
    seen: PartitionSnapshot | None,
    *,
    group_id_given: bool = False,
) -> Loss | None:
    """What is lost in one partition between where the pipeline is and what the cluster has."""
    if seen is None:
        return None if known is None else _deleted(known, group_id_given)
    return _added(partition, seen) if known is None else _changed(known, seen)


def end_changed(partition: TopicPartition, known_end: int, end: int) -> Loss:
    """The log, or what a checkpoint says of it, ends before an offset that it had reached."""
    detail = f"the end of the log was changed from at least {known_end} to {end}"
    return Loss(PartitionOffsetChangedError, partition, end, known_end, detail)


def log_truncated(known: PartitionProgress, seen: PartitionSnapshot, *, from_offset: int = 0) -> Loss | None:
    """What is lost because the log was cut below where the pipeline is, and perhaps written again; None: it was not.

    Args:
        known: where the pipeline is.
        seen: what the cluster has.
        from_offset: what lies before it is of no interest.
    """
    ended = seen.ended
    # A snapshot says it of one epoch. Of a younger one, under which the pipeline has read since, it says nothing.
    if ended is None or ended.leader_epoch != known.leader_epoch or ended.end >= known.end:
        return None
    detail = (
        f"the log was cut at offset {ended.end} and written again from there: what the pipeline knows before offset "
        f"{known.end} was written under leader epoch {known.leader_epoch} at the latest, and in the log of the leader, "
        f"of epoch {seen.leader_epoch}, that ends at {ended.end}. The log has offsets [{seen.earliest}, "
        f"{seen.latest}); the records at the lost offsets are others now"
    )
    return Loss(LogTruncatedError, known.topic_partition, max(from_offset, ended.end), known.end, detail)


def is_same_topic(known: PartitionProgress, seen: PartitionSnapshot) -> bool:
    """Whether the topic was not made again, as far as topic ids say (brokers before 2.8 have none)."""
    return not known.topic_id or not seen.topic_id or known.topic_id == seen.topic_id


def resume_at(known: PartitionProgress | None, seen: PartitionSnapshot) -> int | None:
    """Where the next batch starts in a partition, given that losses are accepted; None: not at all."""
    if seen.earliest < 0:
        return None
    if known is None or not is_same_topic(known, seen):
        return seen.earliest
    return max(known.end, seen.earliest)


def _deleted(known: PartitionProgress, group_id_given: bool) -> Loss:
    detail = f"the partition is gone; the pipeline is at offset {known.end}"
    error_type: type[DataLossError] = PartitionsDeletedError
    if group_id_given:
        error_type = PartitionsDeletedAndGroupIdConfigPresentError
        detail += " (kafka.group.id is given, but is not used to read: it is not the cause)"
    return Loss(error_type, known.topic_partition, known.end, known.end, detail)


def _changed(known: PartitionProgress, seen: PartitionSnapshot) -> Loss | None:
    partition, end = known.topic_partition, known.end
    if not is_same_topic(known, seen):
        detail = (
            f"the topic was deleted and made again (topic id {known.topic_id} became "
            f"{seen.topic_id}); the pipeline is at offset {end} of the old one, the new one has "
            f"offsets [{seen.earliest}, {seen.latest})"
        )
        return Loss(TopicRecreatedError, partition, end, end, detail)
    if seen.latest < end:
        return end_changed(partition, end, seen.latest)
    if seen.earliest > end:
        detail = f"the log starts at {seen.earliest}, the pipeline is at {end}"
        return Loss(CouldNotReadOffsetRangeError, partition, end, seen.earliest, detail)
    if (truncated := log_truncated(known, seen)) is not None:
        return truncated
    if 0 <= seen.leader_epoch < known.leader_epoch:
        detail = (
            f"the leader epoch went back from {known.leader_epoch} to {seen.leader_epoch}: this is "
            "another cluster, or one restored from a copy"
        )
        return Loss(LeaderEpochWentBackError, partition, end, end, detail)
    return None


def _added(partition: TopicPartition, seen: PartitionSnapshot) -> Loss | None:
    if seen.earliest < 0:
        detail = "no earliest offset was found for this new partition"
        return Loss(InitialOffsetNotFoundForPartitionsError, partition, 0, 0, detail)
    if seen.earliest > 0:
        detail = f"this new partition starts at offset {seen.earliest}, not at 0"
        return Loss(AddedPartitionDoesNotStartFromOffsetZeroError, partition, 0, seen.earliest, detail)
    return None


def near_losses(
    positions: Mapping[TopicPartition, int], before: ClusterSnapshot, now: ClusterSnapshot
) -> tuple[str, ...]:
    """Warnings of partitions where a deletion as large as the one just seen would reach what is not read yet.

    Args:
        positions: the next offset to read, by partition.
        before, now: two snapshots, the older first.
    """
    warnings = []
    for partition, position in sorted(positions.items()):
        old, new = before.partitions.get(partition), now.partitions.get(partition)
        if old is None or new is None or old.topic_id != new.topic_id:
            continue
        deleted, is_behind = new.earliest - old.earliest, new.latest > position
        # A position below the earliest offset is a loss already, and told as one.
        if deleted > 0 and is_behind and 0 <= position - new.earliest <= deleted:
            warnings.append(
                f"{partition}: retention has just deleted {deleted} offsets, the log starts at {new.earliest} now; the "
                f"query is at {position}, with {new.latest - position} waiting. One more such deletion would lose "
                "records: raise retention.ms or retention.bytes of the topic, or let the query read faster"
            )
    return tuple(warnings)
