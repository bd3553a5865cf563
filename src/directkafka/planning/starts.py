"""Starts and ends: positions made into offsets, and ranges that a program gives itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from directkafka.errors import OptionError
from directkafka.errors.data_loss import (
    CouldNotReadOffsetRangeError,
    KafkaStartOffsetDoesNotMatchAssignedError,
    KafkaTimestampOffsetDoesNotMatchAssignedError,
    KafkaTopicOffsetDoesNotMatchAssignedError,
    PartitionOffsetChangedError,
    PartitionsDeletedError,
    ResolvedStartOffsetGreaterThanEndOffsetError,
    StartOffsetResetError,
)
from directkafka.offsets import (
    Ago,
    AtTimestamp,
    BeforeLatest,
    Committed,
    Earliest,
    Exact,
    Latest,
    OffsetRange,
    Positions,
    TopicPartition,
)
from directkafka.options.texts import list_of
from directkafka.planning.loss import Loss
from directkafka.snapshot import ClusterSnapshot, PartitionSnapshot

#: What the cluster answered where a position must be looked up: the first offset at or after a timestamp, None when
#: no record is that young; the offset that a group has committed, None when it has none.
LookupAnswers = Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class Lookups:
    """What must be asked before positions can be resolved.

    Attributes:
        timestamps_ms: for the first offset at or after a timestamp (milliseconds since 1970), by partition.
        groups: for committed offsets: partitions by consumer group. Where the group has none, what is found for the
            partition's timestamp counts, if there is one.
    """

    timestamps_ms: Mapping[TopicPartition, int]
    groups: Mapping[str, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class ResolvedStarts:
    """Where a new query starts.

    Attributes:
        offsets: by partition, each within what the log has.
        losses: where an offset that was asked for is not in the log; the next best one is taken.
    """

    offsets: Mapping[TopicPartition, int]
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class ResolvedRanges:
    """What a batch read reads.

    Attributes:
        ranges: one per partition, sorted, some perhaps empty, each within what the log has.
        losses: what was asked for and is not in the log.
    """

    ranges: tuple[OffsetRange, ...]
    losses: tuple[Loss, ...]


def needed_lookups(positions: Positions, snapshot: ClusterSnapshot) -> Lookups:
    """What must be asked before :func:`resolve_starts`; a time ago counts from the moment of the snapshot."""
    timestamps_ms: dict[TopicPartition, int] = {}
    groups: dict[str, tuple[TopicPartition, ...]] = {}
    for partition in sorted(snapshot.partitions):
        match positions.of(partition):
            case AtTimestamp(timestamp_ms):
                timestamps_ms[partition] = timestamp_ms
            case Ago(duration_ms):
                timestamps_ms[partition] = max(snapshot.taken_at_ms - duration_ms, 0)
            case Committed(group, otherwise):
                groups[group] = (*groups.get(group, ()), partition)
                if isinstance(otherwise, Ago):
                    timestamps_ms[partition] = max(snapshot.taken_at_ms - otherwise.duration_ms, 0)
    return Lookups(timestamps_ms, groups)


def resolve_starts(positions: Positions, snapshot: ClusterSnapshot, answers: LookupAnswers) -> ResolvedStarts:
    """Where a new query starts in each partition of the snapshot.

    Args:
        positions: from the options.
        snapshot: the partitions that are read.
        answers: to the lookups of :func:`needed_lookups`.

    Raises:
        OptionError: positions and partitions do not match, or no record is young enough.
    """
    wanted = _offsets(positions, snapshot, answers)
    held = {
        partition: _held_start(partition, offset, snapshot.partitions[partition])
        for partition, offset in wanted.items()
    }
    return ResolvedStarts(
        offsets={partition: start for partition, (start, _) in held.items()},
        losses=tuple(loss for _, loss in held.values() if loss is not None),
    )


def resolve_ranges(
    starting: Positions,
    ending: Positions,
    snapshot: ClusterSnapshot,
    start_answers: LookupAnswers,
    end_answers: LookupAnswers,
) -> ResolvedRanges:
    """What a batch read reads of each partition of the snapshot.

    Args:
        starting, ending: from the options.
        snapshot: the partitions that are read.
        start_answers, end_answers: to the lookups of :func:`needed_lookups` for either.

    Raises:
        OptionError: positions and partitions do not match, no record is young enough to start at, or
            a start lies behind an end that was asked for.
    """
    starts = _offsets(starting, snapshot, start_answers)
    ends = _offsets(ending, snapshot, end_answers)
    ranges, losses = [], []
    for partition, start in starts.items():
        end, seen = ends[partition], snapshot.partitions[partition]
        if start > end and not isinstance(ending.of(partition), Latest):
            raise ResolvedStartOffsetGreaterThanEndOffsetError(
                option=ending.option,
                reason=f"{partition} starts at {start} ({starting.option}) and would end before {end}",
            )
        held_range, lost = _held_range(partition, start, end, seen)
        ranges.append(held_range)
        losses.extend(lost)
    return ResolvedRanges(ranges=tuple(ranges), losses=tuple(losses))


def _offsets(positions: Positions, snapshot: ClusterSnapshot, answers: LookupAnswers) -> dict[TopicPartition, int]:
    _check_names(positions, snapshot.partitions)
    return {
        partition: _offset(positions, partition, snapshot.partitions[partition], answers)
        for partition in sorted(snapshot.partitions)
    }


def _offset(positions: Positions, partition: TopicPartition, seen: PartitionSnapshot, answers: LookupAnswers) -> int:
    position = positions.of(partition)
    assert position is not None, f"{partition} has no position although the names were checked"
    match position:
        case Earliest():
            return seen.earliest
        case Latest():
            return seen.latest
        case Exact(offset):
            return offset
        case BeforeLatest(offset_count):
            return max(seen.latest - offset_count, seen.earliest)
        case AtTimestamp() | Ago() | Committed():
            at = answers[partition]
            return _otherwise(positions, partition, position, seen) if at is None else at
        case _:
            assert_never(position)


def _otherwise(
    positions: Positions, partition: TopicPartition, position: AtTimestamp | Ago | Committed, seen: PartitionSnapshot
) -> int:
    """Where to start when the cluster has no answer."""
    if isinstance(position, Ago) or (isinstance(position, AtTimestamp) and positions.latest_if_no_match):
        return seen.latest
    if isinstance(position, AtTimestamp):
        raise OptionError(
            option=positions.option,
            reason=f"{partition} has no record at or after timestamp {position.timestamp_ms} (its offsets end before "
            f"{seen.latest}); give an earlier one, or set startingOffsetsByTimestampStrategy to latest",
        )
    if position.otherwise is None:
        raise OptionError(
            option=positions.option,
            reason=f"the group {position.group!r} has committed no offset of {partition}; write committed-or-earliest "
            "or committed-or-latest to say where to start then",
        )
    return seen.earliest if isinstance(position.otherwise, Earliest) else seen.latest


def _check_names(positions: Positions, partitions: Collection[TopicPartition]) -> None:
    """Spark's rule: positions by partition name exactly the partitions read that no topic's covers."""
    read_topics = {partition.topic for partition in partitions}
    unread = sorted(positions.topics.keys() - read_topics)
    if unread:
        raise KafkaTopicOffsetDoesNotMatchAssignedError(
            option=positions.option, reason=f"no partition is read of the topics {', '.join(unread)}"
        )
    if positions.default is not None and not positions.partitions:
        return
    to_name = {partition for partition in partitions if partition.topic not in positions.topics}
    missing = sorted(to_name - positions.partitions.keys())
    unknown = sorted(positions.partitions.keys() - to_name)
    if missing or unknown:
        by_time = any(isinstance(partition, AtTimestamp) for partition in positions.partitions.values())
        error_type = (
            KafkaTimestampOffsetDoesNotMatchAssignedError if by_time else KafkaStartOffsetDoesNotMatchAssignedError
        )
        raise error_type(
            option=positions.option,
            reason="it must name exactly the partitions that are read. "
            f"Not named: {_names(missing)}. Named but not read: {_names(unknown)}",
        )


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "none"


def _held_start(partition: TopicPartition, start: int, seen: PartitionSnapshot) -> tuple[int, Loss | None]:
    """The start within what the log has, and what was asked for beside it."""
    if start < seen.earliest:
        return seen.earliest, _starts_early(partition, start, seen.earliest, seen)
    if start > seen.latest:
        return seen.latest, _starts_late(partition, start, seen)
    return start, None


def _held_range(
    partition: TopicPartition, start: int, end: int, seen: PartitionSnapshot
) -> tuple[OffsetRange, list[Loss]]:
    """The range within what the log has, and what was asked for beside it."""
    losses = []
    if start < min(end, seen.earliest):
        losses.append(_starts_early(partition, start, min(end, seen.earliest), seen))
    if max(start, seen.latest) < end:
        losses.append(_ends_late(partition, max(start, seen.latest), end, seen))
    if start > max(end, seen.latest):
        losses.append(_starts_late(partition, start, seen))
    held_start = min(max(start, seen.earliest), seen.latest)
    held_end = min(max(end, held_start), seen.latest)
    return OffsetRange(partition.topic, partition.partition, held_start, held_end), losses


def _starts_early(partition: TopicPartition, start: int, lost_until: int, seen: PartitionSnapshot) -> Loss:
    detail = f"start offset {start} was asked for, the log starts at {seen.earliest}"
    return Loss(StartOffsetResetError, partition, start, lost_until, detail)


def _starts_late(partition: TopicPartition, start: int, seen: PartitionSnapshot) -> Loss:
    detail = f"start offset {start} was asked for, the log ends before {seen.latest}"
    return Loss(StartOffsetResetError, partition, seen.latest, start, detail)


def _ends_late(partition: TopicPartition, lost_from: int, end: int, seen: PartitionSnapshot) -> Loss:
    detail = f"end offset {end} was asked for, the log ends before {seen.latest}"
    return Loss(CouldNotReadOffsetRangeError, partition, lost_from, end, detail)


def checked_ranges(values: object, *, option: str) -> list[OffsetRange]:
    """The ranges that a program gives; refused are other things, and ranges that have a record in common.

    Args:
        values: what it gives.
        option: under which name, for messages.

    Raises:
        OptionError: names the type that was found, or the first two that overlap.
    """
    ranges = list_of(OffsetRange, values, option=option, wanted="a list of OffsetRange")
    in_order = sorted(offset_range for offset_range in ranges if offset_range.count())
    for offset_range, following in pairwise(in_order):
        if (
            offset_range.topic_partition == following.topic_partition
            and following.from_offset < offset_range.until_offset
        ):
            raise OptionError(
                option=option, reason=f"{offset_range} and {following} overlap: records would be read twice"
            )
    return ranges


def losses_of_ranges(ranges: Sequence[OffsetRange], snapshot: ClusterSnapshot) -> tuple[Loss, ...]:
    """What of the ranges is not in the log: before its start, after its end, or in a partition that is not there."""
    losses = (_loss_of(offset_range, snapshot) for offset_range in ranges if offset_range.count())
    return tuple(loss for loss in losses if loss is not None)


def _loss_of(offset_range: OffsetRange, snapshot: ClusterSnapshot) -> Loss | None:
    partition, start, end = offset_range.topic_partition, offset_range.from_offset, offset_range.until_offset
    seen = snapshot.partitions.get(partition)
    if seen is None:
        return Loss(PartitionsDeletedError, partition, start, end, "there is no such partition")
    has = f"{offset_range} was asked for, the log has [{seen.earliest}, {seen.latest})"
    if start < seen.earliest:
        return Loss(CouldNotReadOffsetRangeError, partition, start, min(end, seen.earliest), has)
    if end > seen.latest:
        return Loss(PartitionOffsetChangedError, partition, max(start, seen.latest), end, has)
    return None
