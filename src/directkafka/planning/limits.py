"""How far a batch may go: limits, shared among partitions by their backlog."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from directkafka.offsets import TopicPartition
from directkafka.options import OffsetLimits

__all__ = ["limited_ends"]

Offsets = Mapping[TopicPartition, int]


def limited_ends(starts: Offsets, latest: Offsets, limits: OffsetLimits) -> dict[TopicPartition, int]:
    """The end of each partition's range.

    The limits count one after the other: a partition's own, then its topic's, then that of all together. A limit
    of several partitions is shared under Spark's rule: a partition's share is ``limit * backlog / total backlog``,
    rounded up when it is under 1, so that small partitions are not starved, and down otherwise. All ends together
    may therefore exceed a limit by less than the number of partitions. No end is below its start or past latest.

    Args:
        starts: where the batch starts in each partition.
        latest: one past the last offset of each of these partitions. One that lies below its start
            stands for no backlog.
        limits: most offsets of the batch.
    """
    counts = {one: max(latest[one] - start, 0) for one, start in starts.items()}
    counts = {one: min(count, limits.partitions.get(one, count)) for one, count in counts.items()}
    by_topic: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for one, count in counts.items():
        by_topic[one.topic][one] = count
    for topic, limit in limits.topics.items():
        counts |= _shares(by_topic[topic], limit)
    if limits.total is not None:
        counts = _shares(counts, limits.total)
    return {one: start + counts[one] for one, start in starts.items()}


def _shares(counts: Offsets, limit: int) -> dict[TopicPartition, int]:
    total = sum(counts.values())
    if total <= limit:
        return dict(counts)
    return {one: _share(count, total, limit) for one, count in counts.items()}


def _share(backlog: int, total: int, limit: int) -> int:
    # Floating point, and in this order, because Spark's shares are: 100 * (29 / 100) is 28 there, and
    # a query that moves over should cut its batches as before. Near 2**63 a float is coarse, so the
    # share is held to the backlog (SPARK-26718 is the same cut against overflow).
    share = limit * (backlog / total)
    return min(math.ceil(share) if share < 1 else math.floor(share), backlog)
