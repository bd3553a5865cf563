"""Cut ranges into the tasks of a batch: ``minPartitions`` and ``maxRecordsPerPartition``.

The arithmetic is that of Spark's ``KafkaOffsetRangeCalculator``: first every range is cut into pieces
of at most ``maxRecordsPerPartition`` offsets, then large pieces are cut in proportion to their size
until there are about ``minPartitions``. Pieces of a range lie end to end: no offset is left out or
read twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from directkafka.offsets import OffsetRange, total_count

__all__ = ["split"]


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> tuple[OffsetRange, ...]:
    """The ranges as tasks read them, in the order given; empty ranges are left out.

    Args:
        ranges: at most one per partition.
        min_partitions: about how many pieces there should be at least; rounding may give fewer or
            more, and a range of n offsets never gives more than n.
        max_records_per_partition: most offsets of a piece.
    """
    pieces = [one for one in ranges if one.count() > 0]
    if max_records_per_partition is not None:
        pieces = [piece for one in pieces for piece in _cut(one, -(-one.count() // max_records_per_partition))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _cut_in_proportion(pieces, min_partitions)
    return tuple(pieces)


def _cut_in_proportion(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    total = total_count(ranges)
    # Small ranges stay whole. They are left out of the sums that the large ones are cut by, else the
    # large ones would get pieces that the small ones never use (SPARK-36576).
    large = [one for one in ranges if _piece_count(one.count(), total, wanted) > 1]
    large_total = total_count(large)
    large_wanted = max(wanted - (len(ranges) - len(large)), 1)
    cut = set(large)
    return [
        piece
        for one in ranges
        for piece in _cut(one, _piece_count(one.count(), large_total, large_wanted) if one in cut else 1)
    ]


def _piece_count(count: int, total: int, wanted: int) -> int:
    # Half is rounded up as Java's Math.round does, not to even as Python's round does.
    return max(math.floor(count / total * wanted + 0.5), 1)


def _cut(one: OffsetRange, pieces: int) -> Iterator[OffsetRange]:
    """Cut into pieces whose sizes differ by one at most; fewer when there are fewer offsets."""
    start = one.from_offset
    for piece in range(pieces):
        # Each piece takes its share of what is left, so the last takes exactly the rest.
        end = start + (one.until_offset - start) // (pieces - piece)
        if end > start:
            yield OffsetRange(one.topic, one.partition, start, end)
        start = end
