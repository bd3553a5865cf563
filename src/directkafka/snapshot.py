"""The snapshot of the cluster at one moment: the value that ``kafka`` makes and ``planning`` works on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from directkafka.offsets import PartitionProgress, TopicPartition


@dataclass(frozen=True, slots=True)
class EndedEpoch:
    """An earlier leader epoch, and where it ends in the current leader's log.

    Attributes:
        leader_epoch: its number.
        end: one past the last offset that was written under it, or under an earlier one.
    """

    leader_epoch: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSnapshot:
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
            the snapshot was taken under read_committed.
        ended: where the leader epoch that the reader knows has ended; None if there was no election since, or if
            the leader does not know. If it ended before the reader's position, the log was cut there.
    """

    topic_id: str
    leader: int | None
    leader_host: str
    leader_port: int
    leader_epoch: int
    earliest: int
    latest: int
    ended: EndedEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The partitions of the subscribed topics at one moment.

    Attributes:
        cluster_id: Kafka's id of the cluster.
        partitions: what was seen, by partition; a topic that does not exist has none.
        taken_at_ms: when, in milliseconds since 1970.
        deleted: partitions that the reader knows, and whose topic id no broker knows any more; looked for only where
            losses are accepted.
        too_young: offset of the first record that is not to be read yet, by partition that has such a record.
    """

    cluster_id: str
    partitions: Mapping[TopicPartition, PartitionSnapshot]
    taken_at_ms: int
    deleted: frozenset[TopicPartition] = frozenset()
    too_young: Mapping[TopicPartition, int] = field(default_factory=dict)

    def earliest(self) -> dict[TopicPartition, int]:
        """First readable offset by partition."""
        return {topic_partition: seen.earliest for topic_partition, seen in self.partitions.items()}

    def latest(self) -> dict[TopicPartition, int]:
        """One past the last readable offset, by partition."""
        return {topic_partition: seen.latest for topic_partition, seen in self.partitions.items()}

    def readable(self) -> dict[TopicPartition, int]:
        """One past the last offset that is to be read now, by partition."""
        return {
            partition: min(seen.latest, self.too_young.get(partition, seen.latest))
            for partition, seen in self.partitions.items()
        }

    def with_ended(self, ended: Mapping[TopicPartition, EndedEpoch | None]) -> ClusterSnapshot:
        """The same snapshot, which also says where leader epochs that a reader knows have ended."""
        asked = {
            partition: replace(self.partitions[partition], ended=ended_epoch)
            for partition, ended_epoch in ended.items()
        }
        return replace(self, partitions={**self.partitions, **asked})

    def planned_under(self, progress: Iterable[PartitionProgress]) -> ClusterSnapshot:
        """The same snapshot with no leader epoch above that of ``progress``, for ranges that were planned earlier.

        So a reader of these ranges notices records of a later epoch: they are not the records that were planned.
        """
        capped = {
            partition.topic_partition: replace(seen, leader_epoch=min(partition.leader_epoch, seen.leader_epoch))
            for partition in progress
            if partition.leader_epoch >= 0 and (seen := self.partitions.get(partition.topic_partition)) is not None
        }
        return replace(self, partitions={**self.partitions, **capped})

    def until(self, ends: Mapping[TopicPartition, int]) -> ClusterSnapshot:
        """The same snapshot, as if the logs ended at these offsets; a partition without an offset, as if it were empty.

        So the planning of an "available now" run does not see what came after the run's start.
        """
        capped = {
            partition: replace(seen, latest=min(seen.latest, ends.get(partition, seen.earliest)))
            for partition, seen in self.partitions.items()
        }
        return replace(self, partitions=capped)
