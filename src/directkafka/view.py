"""What the driver saw of the cluster at one moment: the value in which ``kafka`` and ``planning`` meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from directkafka.offsets import TopicPartition

__all__ = ["ClusterView", "PartitionView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as the cluster described it.

    Attributes:
        topic_id: Kafka's UUID of the topic as text; empty for brokers before 2.8. A topic that is deleted and
            made again has another one.
        leader: node id of the leader, or None while there is none.
        leader_host, leader_port: the leader's advertised address, empty and 0 while there is none.
        leader_epoch: number of leader elections so far, or -1 where the broker does not say; no record before
            ``latest`` was written under a later one.
        earliest: first offset that can be read.
        latest: one past the last offset that can be read: the high watermark, or the last stable offset when
            the view was taken under read_committed.
    """

    topic_id: str
    leader: int | None
    leader_host: str
    leader_port: int
    leader_epoch: int
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The partitions of the subscribed topics at one moment.

    Attributes:
        cluster_id: Kafka's id of the cluster.
        partitions: what was seen, by partition; a topic that does not exist has none.
        taken_at_ms: when, in milliseconds since 1970.
    """

    cluster_id: str
    partitions: Mapping[TopicPartition, PartitionView]
    taken_at_ms: int

    def earliest(self) -> dict[TopicPartition, int]:
        """First readable offset by partition."""
        return {topic_partition: seen.earliest for topic_partition, seen in self.partitions.items()}

    def latest(self) -> dict[TopicPartition, int]:
        """One past the last readable offset, by partition."""
        return {topic_partition: seen.latest for topic_partition, seen in self.partitions.items()}

    def until(self, ends: Mapping[TopicPartition, int]) -> ClusterView:
        """The same view, as if the logs ended at these offsets; a partition without one, as if it were empty.

        What came after the start of an "available now" run is so not seen by its planning.
        """
        capped = {
            one: replace(seen, latest=min(seen.latest, ends.get(one, seen.earliest)))
            for one, seen in self.partitions.items()
        }
        return replace(self, partitions=capped)
