"""Short ways to write what the planning tests are about: partitions, views, progress."""

from __future__ import annotations

from collections.abc import Mapping

from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.snapshot import ClusterSnapshot, EndedEpoch, PartitionSnapshot

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
U0 = TopicPartition("u", 0)


def seen(
    earliest: int,
    latest: int,
    *,
    topic_id: str = "id-1",
    leader_epoch: int = 5,
    ended: tuple[int, int] | None = None,
) -> PartitionSnapshot:
    return PartitionSnapshot(
        topic_id=topic_id,
        leader=1,
        leader_host="broker",
        leader_port=9092,
        leader_epoch=leader_epoch,
        earliest=earliest,
        latest=latest,
        ended=EndedEpoch(*ended) if ended is not None else None,
    )


def snapshot(partitions: Mapping[TopicPartition, PartitionSnapshot]) -> ClusterSnapshot:
    return ClusterSnapshot(cluster_id="c", partitions=partitions, taken_at_ms=0)


def at(
    topic_partition: TopicPartition, end: int, *, topic_id: str = "id-1", leader_epoch: int = 5, origin: int = 0
) -> PartitionProgress:
    return PartitionProgress(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        topic_id=topic_id,
        start=end,
        end=end,
        leader_epoch=leader_epoch,
        origin=origin,
    )


def known(*progress: PartitionProgress) -> dict[TopicPartition, PartitionProgress]:
    return {partition.topic_partition: partition for partition in progress}
