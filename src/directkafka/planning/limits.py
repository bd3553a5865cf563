"""How far a batch may go: ``maxOffsetsPerTrigger``, shared among partitions by their backlog."""

from __future__ import annotations

import math
from collections.abc import Mapping

from directkafka.offsets import TopicPartition

__all__ = ["limited_ends"]


def limited_ends(
    starts: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """The end of each partition's range, under Spark's rule.

    A partition's share is ``limit * backlog / total backlog``, rounded up when it is under 1, so that
    small partitions are not starved, and down otherwise. All ends together may therefore exceed the
    limit by less than the number of partitions. No end is below its start or past latest.

    Args:
        starts: where the batch starts in each partition.
        latest: one past the last offset of each of these partitions. One that lies below its start
            stands for no backlog.
        limit: most offsets of the batch; None for no limit.
    """
    backlogs = {one: max(latest[one] - start, 0) for one, start in starts.items()}
    total = sum(backlogs.values())
    if limit is None or total <= limit:
        return {one: start + backlogs[one] for one, start in starts.items()}
    return {one: start + _share(backlogs[one], total, limit) for one, start in starts.items()}


def _share(backlog: int, total: int, limit: int) -> int:
    # Floating point, and in this order, because Spark's shares are: 100 * (29 / 100) is 28 there, and
    # a query that moves over should cut its batches as before. Near 2**63 a float is coarse, so the
    # share is held to the backlog (SPARK-26718 is the same cut against overflow).
    share = limit * (backlog / total)
    return min(math.ceil(share) if share < 1 else math.floor(share), backlog)
