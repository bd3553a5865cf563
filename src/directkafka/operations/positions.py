"""Positions of a pipeline in its partitions: what is read, what is unread, and since when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.planning.loss import is_same_topic
from directkafka.sinks.api import LedgerEntry
from directkafka.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """One partition, and how far a pipeline is in it.

    Attributes:
        topic, partition: which partition.
        earliest: the first offset that can be read; None where the topic is not there or is not read any more.
        current: the next offset that the pipeline reads; None where it has read nothing yet, also of a topic that was
            made again.
        end: one past the last offset that can be read; None as for ``earliest``.
        lag: the offsets from ``current`` to ``end``; where nothing was read yet, from where the pipeline would start.
        lag_seconds: the age of the first unread record; 0 if there is none, None if it could not be found, or has no
            timestamp.
    """

    topic: str
    partition: int
    earliest: int | None
    current: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None

    def as_record(self) -> dict[str, Any]:
        """For printing."""
        return asdict(self)


def next_offsets(entries: Sequence[LedgerEntry], snapshot: ClusterSnapshot) -> dict[TopicPartition, int]:
    """The next offset by partition; of stores that differ, the lowest.

    Args:
        entries: one for each store that has one.
        snapshot: says which topics were made again: the ledger's offsets are not theirs.
    """
    offsets: dict[TopicPartition, int] = {}
    ends = [entry.ends() for entry in entries]
    newest = max(entries, key=lambda entry: entry.batch_id, default=None)
    for partition, progress in newest.by_partition().items() if newest else ():
        seen = snapshot.partitions.get(partition)
        if seen is None or is_same_topic(progress, seen):
            # A store that is one batch behind, and does not know the partition yet, begins where that batch begins.
            offsets[partition] = min(each.get(partition, progress.start) for each in ends)
    return offsets


def unread_ranges(snapshot: ClusterSnapshot, starts: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The unread range of each partition that is read, perhaps empty.

    Args:
        snapshot: the partitions that are read.
        starts: where the pipeline goes on; the earliest offset for a partition that is missing here.
    """
    ranges = []
    for partition, seen in sorted(snapshot.partitions.items()):
        start = min(max(starts.get(partition, seen.earliest), seen.earliest), seen.latest)
        ranges.append(OffsetRange(partition.topic, partition.partition, start, seen.latest))
    return ranges


def partition_positions(
    snapshot: ClusterSnapshot,
    current: Mapping[TopicPartition, int],
    unread: Iterable[OffsetRange],
    first_timestamps_ms: Mapping[TopicPartition, int | None],
) -> tuple[PartitionPosition, ...]:
    """The positions, sorted by topic and partition.

    Args:
        snapshot: the partitions that are read, and the time from which lags are counted.
        current: what the ledger says.
        unread: see :func:`unread_ranges`.
        first_timestamps_ms: of the first unread records; None where there is none. A partition that is missing here is
            one of which nothing could be found.
    """
    ranges = {unread_range.topic_partition: unread_range for unread_range in unread}
    positions = []
    for partition in sorted({*snapshot.partitions, *current}):
        seen, unread_range = snapshot.partitions.get(partition), ranges.get(partition)
        positions.append(
            PartitionPosition(
                topic=partition.topic,
                partition=partition.partition,
                earliest=seen.earliest if seen else None,
                current=current.get(partition),
                end=seen.latest if seen else None,
                # As kafka-consumer-groups counts: records that retention has deleted are in it.
                lag=max(seen.latest - current.get(partition, unread_range.from_offset), 0)
                if seen and unread_range
                else None,
                lag_seconds=_age_s(first_timestamps_ms[partition], snapshot.taken_at_ms)
                if seen and partition in first_timestamps_ms
                else None,
            )
        )
    return tuple(positions)


def positions_in_ledgers(entries: Sequence[LedgerEntry]) -> tuple[PartitionPosition, ...]:
    """The positions where Kafka is not asked, sorted; of stores that differ, the lowest."""
    unseen = ClusterSnapshot(cluster_id="", partitions={}, taken_at_ms=0)
    return partition_positions(unseen, next_offsets(entries, unseen), (), {})


def topic_totals(positions: Iterable[PartitionPosition]) -> list[dict[str, Any]]:
    """For each topic, for printing: its partitions, the offsets that can be read, and those that are unread.

    The two last are None where they are not known of a partition.
    """
    totals: dict[str, dict[str, Any]] = {}
    for position in positions:
        total = totals.setdefault(position.topic, {"topic": position.topic, "partitions": 0, "offsets": 0, "lag": 0})
        total["partitions"] += 1
        end, earliest = position.end, position.earliest
        offsets = None if end is None or earliest is None else end - earliest
        for name, number in (("offsets", offsets), ("lag", position.lag)):
            total[name] = None if number is None or total[name] is None else total[name] + number
    return list(totals.values())


def _age_s(timestamp_ms: int | None, now_ms: int) -> float | None:
    """A record's age in seconds: 0 without a record, and where its timestamp lies in the future; None without one."""
    if timestamp_ms is None:
        return 0.0
    return None if timestamp_ms < 0 else max(now_ms - timestamp_ms, 0) / 1000
