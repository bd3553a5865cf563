"""The plan of a direct stream's batch: where partitions start, and which ranges a batch of a DStream has.

Pure functions over values, as in :mod:`directkafka.planning.plan`, whose rules on losses and topics hold here too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from directkafka.errors import OptionError
from directkafka.offsets import Committed, Exact, OffsetRange, PartitionProgress, Position, Positions, TopicPartition
from directkafka.options.consumer import ConsumerOptions
from directkafka.options.limits import OffsetLimits, RatePolicy
from directkafka.planning.plan import PlanPolicy, plan, plan_origin, plan_pinned
from directkafka.planning.rates import PartitionRates, rated_ends
from directkafka.planning.starts import LookupAnswers
from directkafka.snapshot import ClusterSnapshot

Progress = Mapping[TopicPartition, PartitionProgress]


@dataclass(frozen=True, slots=True)
class DirectBatch:
    """What a batch reads, and where the stream is after it.

    Attributes:
        ranges: sorted; one for each partition that has something to read, and an empty one for each new partition that
            has nothing, so that whoever stores the offsets of each batch has them all.
        progress: of every partition that the stream knows; new ones are in it before their first record is read.
        added: the partitions that are new in this batch.
    """

    ranges: tuple[OffsetRange, ...]
    progress: Progress
    added: tuple[TopicPartition, ...] = ()

    def start_of(self, added: TopicPartition) -> int:
        """Where an added partition starts."""
        return self.progress[added].origin


def added_partitions(progress: Progress, snapshot: ClusterSnapshot) -> tuple[TopicPartition, ...]:
    """The partitions that the stream has not read yet, sorted."""
    return tuple(sorted(snapshot.partitions.keys() - progress.keys()))


def start_positions(options: ConsumerOptions, partitions: Collection[TopicPartition]) -> Positions:
    """Where to start in partitions that are new: at the program's offset, at the group's, or where the reset says.

    Raises:
        OptionError: a partition is given no offset, there is no group, and ``auto.offset.reset`` is none.
    """
    positions: dict[TopicPartition, Position] = {}
    for partition in partitions:
        given = options.offsets.get(partition)
        # A checkpoint of an earlier version has numbers.
        position = options.otherwise if given is None else Exact(given) if isinstance(given, int) else given
        if position is None:
            raise _no_start(partition)
        positions[partition] = position
    return Positions(partitions=positions, latest_if_no_match=True, option="offsets")


def plan_direct(
    progress: Progress,
    snapshot: ClusterSnapshot,
    *,
    starts: Positions,
    answers: LookupAnswers,
    rates: RatePolicy,
    interval_ms: int,
    rate: float | None = None,
    partition_rates: PartitionRates | None = None,
) -> DirectBatch:
    """The next batch; one without ranges when there is nothing to read.

    Args:
        progress: where the stream is.
        snapshot: the partitions that are read, as the cluster has them now.
        starts: where the added partitions start.
        answers: to the lookups of :func:`~directkafka.planning.starts.needed_lookups` for ``starts``.
        rates, interval_ms, rate, partition_rates: see :func:`~directkafka.planning.rates.rated_ends`.

    Raises:
        OptionError: a partition for which the group has no offset, and ``auto.offset.reset`` is none.
        DataLossError: records that the stream would read are gone, or a start is not in the log.
    """
    added = tuple(sorted(starts.partitions))
    for partition, position in starts.partitions.items():
        if isinstance(position, Committed) and position.otherwise is None and answers.get(partition) is None:
            raise _no_start(partition)
    new = replace(snapshot, partitions={partition: snapshot.partitions[partition] for partition in added})
    policy = PlanPolicy()
    origin = plan_origin(starts, new, answers, policy) if added else None
    known = dict(progress) | {partition.topic_partition: partition for partition in (origin.progress if origin else ())}
    ends, latest = {partition: here.end for partition, here in known.items()}, snapshot.latest()
    readable = {partition: end for partition, end in ends.items() if partition in latest}
    rated = rated_ends(readable, latest, rates, interval_ms=interval_ms, rate=rate, partitions=partition_rates)
    limits = OffsetLimits(partitions={partition: end - readable[partition] for partition, end in rated.items()})
    batch = plan(known, snapshot, replace(policy, limits=limits))
    ranges = batch.ranges if batch else ()
    read = {offset_range.topic_partition for offset_range in ranges}
    empty = [
        OffsetRange(partition.topic, partition.partition, ends[partition], ends[partition])
        for partition in added
        if partition not in read
    ]
    after = {partition.topic_partition: partition for partition in batch.progress} if batch else known
    return DirectBatch(tuple(sorted([*ranges, *empty])), after, added)


def check_planned(progress: Progress, ranges: Iterable[OffsetRange], snapshot: ClusterSnapshot) -> None:
    """Check that ranges that were planned before can be read (again), and that no topic was made again since.

    Args:
        progress: where the stream is; it must have every partition of the ranges.
        ranges: of one batch.
        snapshot: the partitions as the cluster has them now.

    Raises:
        DataLossError: a part of them is no longer in the log, or the topic was made again.
    """
    plan_pinned(
        (
            replace(
                progress[offset_range.topic_partition], start=offset_range.from_offset, end=offset_range.until_offset
            )
            for offset_range in ranges
        ),
        snapshot,
        PlanPolicy(),
    )


def unread(progress: Progress, unfinished: Iterable[Iterable[OffsetRange]]) -> dict[TopicPartition, int]:
    """The first offset of each partition that no finished batch has read.

    Args:
        progress: where the stream is.
        unfinished: the ranges of each batch that waits or runs.
    """
    offsets = {partition: here.end for partition, here in progress.items()}
    for partition in chain.from_iterable(unfinished):
        offsets[partition.topic_partition] = min(partition.from_offset, offsets[partition.topic_partition])
    return offsets


def reads_up_to(offset_range: OffsetRange, end: int) -> bool:
    """Whether the record before an end is in the range; an empty range's only end is its own offset."""
    return (
        offset_range.from_offset < end <= offset_range.until_offset
        or offset_range.from_offset == end == offset_range.until_offset
    )


def _no_start(partition: TopicPartition) -> OptionError:
    return OptionError(
        option="auto.offset.reset",
        reason=f"is none, and nothing says where to start in {partition}: give it in offsets, commit an offset to the "
        "group, or set it to earliest or latest",
    )
