"""Ranges of offsets that a reset is about, as Kafka's log has them now: how many records at most, and their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.snapshot import ClusterSnapshot
from directkafka.spark.source_cluster import SourceCluster

#: How far before a range's end its last record is looked for, one after the other: the last offsets may be markers of
#: transactions, which are no records.
_LAST_OFFSETS: Final = (1, 2, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsInLog:
    """What the log has of a range.

    Attributes:
        records_max: an upper bound on the number of records: compaction and markers of transactions leave offsets
            without one.
        first_at_ms, last_at_ms: timestamps of the first record and of the last one, in milliseconds since 1970; None
            where there is none, or where Kafka was not asked.
    """

    records_max: int = 0
    first_at_ms: int | None = None
    last_at_ms: int | None = None


def records_in_log(
    cluster: SourceCluster,
    snapshot: ClusterSnapshot,
    ranges: Sequence[OffsetRange],
    known: Mapping[OffsetRange, RecordsInLog] | None = None,
) -> dict[OffsetRange, RecordsInLog]:
    """What the log has of each range; at most one range of a partition is given.

    Args:
        cluster: is asked for timestamps.
        snapshot: the ends of the log.
        ranges: of offsets.
        known: from a look before: their timestamps are taken, and Kafka is not asked for any.

    Raises:
        BrokerUnreachableError, BrokerResponseError: after the options' retries.
    """
    held = {each: _held(each, snapshot) for each in ranges}
    if known is not None:
        return {
            each: replace(known.get(each, RecordsInLog()), records_max=there.count()) for each, there in held.items()
        }
    there = {each: part for each, part in held.items() if part.count()}
    firsts = cluster.first_timestamps(there.values())
    lasts: dict[TopicPartition, int | None] = {}
    for offsets in _LAST_OFFSETS:
        tails = [
            replace(part, from_offset=max(part.from_offset, part.until_offset - offsets))
            for part in there.values()
            if lasts.get(part.topic_partition) is None
        ]
        lasts |= cluster.first_timestamps(tails)
    return {
        each: RecordsInLog(
            records_max=part.count(),
            first_at_ms=firsts.get(each.topic_partition),
            last_at_ms=lasts.get(each.topic_partition),
        )
        for each, part in held.items()
    }


def _held(each: OffsetRange, snapshot: ClusterSnapshot) -> OffsetRange:
    """The part of a range that the log has; perhaps none."""
    seen = snapshot.partitions.get(each.topic_partition)
    low, high = (seen.earliest, seen.latest) if seen else (0, 0)
    start = min(max(each.from_offset, low), each.until_offset)
    return replace(each, from_offset=start, until_offset=max(min(each.until_offset, high), start))
