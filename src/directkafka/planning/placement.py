"""Places for tasks: how ranges are cut into tasks, location strategies, and the executor that each range prefers.

The strategies are those of Spark's direct API (``LocationStrategies``). Spark takes a preference as a wish: a task
runs elsewhere when its executor stays busy for longer than ``spark.locality.wait``.

Ranges are cut by ``maxRecordsPerPartition`` and ``minPartitions``, as Spark's ``KafkaOffsetRangeCalculator`` does it:
first into pieces of at most ``maxRecordsPerPartition`` offsets, then large pieces in proportion to their size until
there are about ``minPartitions``. Pieces of a range lie end to end: no offset is left out or read twice.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from directkafka.offsets import OffsetRange, TopicPartition, total_count

#: Reading fewer records takes less time than Spark takes for a task in Python.
_RECORDS_OF_A_TASK: Final = 50_000
#: Tasks for each that runs at a time, so that a long one at the end does not leave the others idle.
_TASKS_OF_A_SLOT: Final = 2


@dataclass(frozen=True, slots=True)
class PreferConsistent:
    """A partition prefers the same executor in every batch, so that its connection is found there again."""


@dataclass(frozen=True, slots=True)
class PreferBrokers:
    """An executor on the host of the partition's leader; for executors that run beside the brokers."""


@dataclass(frozen=True, slots=True)
class PreferFixed:
    """An executor on a host that is named; as :class:`PreferConsistent` for partitions that are not.

    Attributes:
        hosts: a host by partition, spelled as Spark spells it (see the executors' page).
    """

    hosts: Mapping[TopicPartition, str] = field(default_factory=dict)


LocationStrategy = PreferBrokers | PreferConsistent | PreferFixed


@dataclass(frozen=True, slots=True, order=True)
class Executor:
    """One of Spark's executors.

    Attributes:
        host: as Spark knows it.
        executor_id: Spark's identifier of it.
    """

    host: str
    executor_id: str

    @property
    def location(self) -> str:
        """How Spark writes a preference for one executor (``ExecutorCacheTaskLocation``)."""
        return f"executor_{self.host}_{self.executor_id}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Which executors ranges prefer.

    Attributes:
        locations: Spark's text by range, in the ranges' order; empty where there is no preference.
        hosts_without_executors: hosts that a strategy asked for, and that have none.
    """

    locations: tuple[str, ...] = ()
    hosts_without_executors: tuple[str, ...] = ()


def place(
    ranges: Sequence[OffsetRange],
    strategy: LocationStrategy,
    executors: Iterable[Executor],
    leader_hosts: Mapping[TopicPartition, str],
) -> Placement:
    """Choose an executor for each range.

    Neighbouring partitions of a topic go to different executors, and a partition stays with its executor for as
    long as there are the same ones.

    Args:
        ranges: what is read.
        strategy: the user's.
        executors: those that are there; with none (``local`` mode) there is no preference.
        leader_hosts: the host of each partition's leader.
    """
    there = sorted(executors)
    if not there:
        return Placement()
    wanted = _wanted_hosts(strategy, leader_hosts)
    on_host = {host: [executor for executor in there if executor.host == host] for host in set(wanted.values())}
    locations = []
    for offset_range in ranges:
        candidates = on_host.get(wanted.get(offset_range.topic_partition, "")) or there
        locations.append(candidates[_number(offset_range.topic_partition) % len(candidates)].location)
    named = {wanted[offset_range.topic_partition] for offset_range in ranges if offset_range.topic_partition in wanted}
    return Placement(tuple(locations), tuple(sorted(host for host in named if not on_host[host])))


def _wanted_hosts(
    strategy: LocationStrategy, leader_hosts: Mapping[TopicPartition, str]
) -> Mapping[TopicPartition, str]:
    match strategy:
        case PreferFixed(hosts):
            return hosts
        case PreferBrokers():
            return leader_hosts
        case PreferConsistent():
            return {}


def _number(partition: TopicPartition) -> int:
    # Not hash(), which another process has otherwise.
    return zlib.crc32(partition.topic.encode()) + partition.partition


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
    pieces = [offset_range for offset_range in ranges if offset_range.count() > 0]
    if max_records_per_partition is not None:
        pieces = [
            piece
            for offset_range in pieces
            for piece in _cut(offset_range, -(-offset_range.count() // max_records_per_partition))
        ]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _cut_in_proportion(pieces, min_partitions)
    return tuple(pieces)


def task_count(ranges: Sequence[OffsetRange], *, parallelism: int, min_partitions: int | None = None) -> int:
    """How many tasks read the ranges of a batch: one for each, or fewer where the ranges are small.

    A task in Python costs Spark some 10 ms besides its records, so that a topic of many partitions with few new records
    each would spend its time on tasks. A task of several ranges reads one after the other.

    Args:
        ranges: of the batch.
        parallelism: how many tasks run at a time.
        min_partitions: the user's wish; with it, each range has a task.
    """
    if min_partitions is not None:
        return len(ranges)
    worth_while = -(-total_count(ranges) // _RECORDS_OF_A_TASK)
    return min(len(ranges), max(worth_while, _TASKS_OF_A_SLOT * parallelism))


def _cut_in_proportion(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    total = total_count(ranges)
    # Small ranges stay whole. They are left out of the sums that the large ones are cut by, else the
    # large ones would get pieces that the small ones never use (SPARK-36576).
    large = [offset_range for offset_range in ranges if _piece_count(offset_range.count(), total, wanted) > 1]
    large_total = total_count(large)
    large_wanted = max(wanted - (len(ranges) - len(large)), 1)
    cut = set(large)
    return [
        piece
        for offset_range in ranges
        for piece in _cut(
            offset_range, _piece_count(offset_range.count(), large_total, large_wanted) if offset_range in cut else 1
        )
    ]


def _piece_count(count: int, total: int, wanted: int) -> int:
    # Half is rounded up as Java's Math.round does, not to even as Python's round does.
    return max(math.floor(count / total * wanted + 0.5), 1)


def _cut(offset_range: OffsetRange, pieces: int) -> Iterator[OffsetRange]:
    """Cut into pieces whose sizes differ by one at most; fewer when there are fewer offsets."""
    start = offset_range.from_offset
    for piece in range(pieces):
        # Each piece takes its share of what is left, so the last takes exactly the rest.
        end = start + (offset_range.until_offset - start) // (pieces - piece)
        if end > start:
            yield OffsetRange(offset_range.topic, offset_range.partition, start, end)
        start = end
