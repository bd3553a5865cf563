"""Positions of a pipeline in its partitions: what is read, what is unread, and since when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.sinks.api import LedgerEntry
from directkafka.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """One partition, and how far a pipeline is in it.

    Attributes:
        topic, partition: which partition.
        earliest: the first offset that can be read; None where the topic is not there or is not read any more.
        current: the next offset that the pipeline reads; None where it has read nothing yet.
        end: one past the last offset that can be read; None as for ``earliest``.
        lag: the offsets from ``current`` to ``end``; where nothing was read yet, from where the pipeline would start.
        lag_seconds: how old the first unread record is; 0 where there is none.
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


def next_offsets(entries: Iterable[LedgerEntry]) -> dict[TopicPartition, int]:
    """Where a pipeline goes on, by partition: where the store is that is behind the others, if one is.

    Args:
        entries: of its stores.
    """
    found: dict[TopicPartition, int] = {}
    for entry in entries:
        for partition, end in entry.ends().items():
            found[partition] = min(end, found.get(partition, end))
    return found


def unread_ranges(snapshot: ClusterSnapshot, starts: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """What is unread of each partition that is read; a range may be empty.

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
        first_timestamps_ms: the timestamps of the first unread records.
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
                # As Kafka's own tools count it: with what retention has taken from an unread part.
                lag=max(seen.latest - current.get(partition, unread_range.from_offset), 0)
                if seen and unread_range
                else None,
                lag_seconds=_age_s(first_timestamps_ms.get(partition), snapshot.taken_at_ms) if seen else None,
            )
        )
    return tuple(positions)


def _age_s(timestamp_ms: int | None, now_ms: int) -> float:
    """A record's age; one whose timestamp lies in the future has none."""
    return 0.0 if timestamp_ms is None else max(now_ms - timestamp_ms, 0) / 1000
