"""Whether retention is about to overtake a query: seen by comparing two views of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from directkafka.offsets import TopicPartition
from directkafka.view import ClusterView

__all__ = ["NearLoss", "near_losses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearLoss:
    """A partition in which the next deletion by retention may take records that are not read yet.

    Attributes:
        topic_partition: where.
        position: the next offset the query reads.
        earliest, latest: the offsets that the log has, the latter exclusive.
        deleted: how many offsets retention took between the two views.
    """

    topic_partition: TopicPartition
    position: int
    earliest: int
    latest: int
    deleted: int

    def __str__(self) -> str:
        return (
            f"{self.topic_partition}: retention has just deleted {self.deleted} offsets, the log starts at "
            f"{self.earliest} now; the query is at {self.position}, with {self.latest - self.position} waiting. One "
            "more such deletion would lose records: raise retention.ms or retention.bytes of the topic, or let the "
            "query read faster"
        )


def near_losses(positions: Mapping[TopicPartition, int], before: ClusterView, now: ClusterView) -> tuple[NearLoss, ...]:
    """The partitions where a deletion as large as the one just seen would reach what is not read yet.

    Args:
        positions: the next offset to read, by partition.
        before, now: two views, the older first.
    """
    found = []
    for one, position in sorted(positions.items()):
        old, new = before.partitions.get(one), now.partitions.get(one)
        if old is None or new is None or old.topic_id != new.topic_id:
            continue
        deleted, is_behind = new.earliest - old.earliest, new.latest > position
        # A position below the earliest offset is a loss already, and told as one.
        if deleted > 0 and is_behind and 0 <= position - new.earliest <= deleted:
            found.append(
                NearLoss(
                    topic_partition=one,
                    position=position,
                    earliest=new.earliest,
                    latest=new.latest,
                    deleted=deleted,
                )
            )
    return tuple(found)
