"""Positions made into offsets: where a new query starts, and where a batch read ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import assert_never

from directkafka.errors import OptionError
from directkafka.offsets import (
    AtTimestamp,
    Earliest,
    Exact,
    Latest,
    OffsetRange,
    Positions,
    TopicPartition,
)
from directkafka.planning.loss import Condition, Loss
from directkafka.view import ClusterView, PartitionView

__all__ = [
    "ResolvedRanges",
    "ResolvedStarts",
    "needed_timestamps",
    "resolve_ranges",
    "resolve_starts",
]

#: What a lookup by timestamp found: the first offset at or after it, None when no record is that young.
Timestamps = Mapping[TopicPartition, int | None]


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


def needed_timestamps(positions: Positions, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The lookups by timestamp (milliseconds since 1970) that must be done before resolving."""
    wanted = {one: positions.of(one) for one in partitions}
    return {one: position.timestamp_ms for one, position in wanted.items() if isinstance(position, AtTimestamp)}


def resolve_starts(positions: Positions, view: ClusterView, timestamps: Timestamps) -> ResolvedStarts:
    """Where a new query starts in each partition of the view.

    Args:
        positions: from the options.
        view: the partitions that are read.
        timestamps: the answers to :func:`needed_timestamps`.

    Raises:
        OptionError: positions and partitions do not match, or no record is young enough.
    """
    wanted = _offsets(positions, view, timestamps)
    found = {one: _held_start(one, offset, view.partitions[one]) for one, offset in wanted.items()}
    return ResolvedStarts(
        offsets={one: start for one, (start, _) in found.items()},
        losses=tuple(loss for _, loss in found.values() if loss is not None),
    )


def resolve_ranges(
    starting: Positions,
    ending: Positions,
    view: ClusterView,
    start_timestamps: Timestamps,
    end_timestamps: Timestamps,
) -> ResolvedRanges:
    """What a batch read reads of each partition of the view.

    Args:
        starting, ending: from the options.
        view: the partitions that are read.
        start_timestamps, end_timestamps: the answers to :func:`needed_timestamps` of either.

    Raises:
        OptionError: positions and partitions do not match, no record is young enough to start at, or
            a start lies behind an end that was asked for.
    """
    starts = _offsets(starting, view, start_timestamps)
    ends = _offsets(ending, view, end_timestamps)
    ranges, losses = [], []
    for one, start in starts.items():
        end, seen = ends[one], view.partitions[one]
        if start > end and not isinstance(ending.of(one), Latest):
            raise OptionError(
                option=ending.option,
                reason=f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] {one} starts at {start} "
                f"({starting.option}) and would end before {end}",
            )
        held_range, lost = _held_range(one, start, end, seen)
        ranges.append(held_range)
        losses.extend(lost)
    return ResolvedRanges(ranges=tuple(ranges), losses=tuple(losses))


def _offsets(positions: Positions, view: ClusterView, timestamps: Timestamps) -> dict[TopicPartition, int]:
    _check_names(positions, view.partitions)
    return {one: _offset(positions, one, view.partitions[one], timestamps) for one in sorted(view.partitions)}


def _offset(positions: Positions, one: TopicPartition, seen: PartitionView, timestamps: Timestamps) -> int:
    position = positions.of(one)
    assert position is not None, f"{one} has no position although the names were checked"
    match position:
        case Earliest():
            return seen.earliest
        case Latest():
            return seen.latest
        case Exact(offset):
            return offset
        case AtTimestamp(timestamp_ms):
            return _at_timestamp(positions, one, timestamp_ms, timestamps[one], seen)
        case _:
            assert_never(position)


def _at_timestamp(
    positions: Positions,
    one: TopicPartition,
    timestamp_ms: int,
    offset: int | None,
    seen: PartitionView,
) -> int:
    if offset is not None:
        return offset
    if positions.latest_if_no_match:
        return seen.latest
    raise OptionError(
        option=positions.option,
        reason=f"{one} has no record at or after timestamp {timestamp_ms} (its offsets end before "
        f"{seen.latest}); give an earlier one, or set startingOffsetsByTimestampStrategy to latest",
    )


def _check_names(positions: Positions, partitions: Collection[TopicPartition]) -> None:
    """Spark's rule: positions by partition name exactly the partitions read that no topic's covers."""
    read_topics = {one.topic for one in partitions}
    unread = sorted(positions.topics.keys() - read_topics)
    if unread:
        raise OptionError(
            option=positions.option,
            reason="[KAFKA_TOPIC_OFFSET_DOES_NOT_MATCH_ASSIGNED] no partition is read of the topics "
            + ", ".join(unread),
        )
    if positions.default is not None and not positions.partitions:
        return
    to_name = {one for one in partitions if one.topic not in positions.topics}
    missing = sorted(to_name - positions.partitions.keys())
    unknown = sorted(positions.partitions.keys() - to_name)
    if missing or unknown:
        by_time = any(isinstance(one, AtTimestamp) for one in positions.partitions.values())
        raise OptionError(
            option=positions.option,
            reason=f"[KAFKA_{'TIMESTAMP' if by_time else 'START'}_OFFSET_DOES_NOT_MATCH_ASSIGNED] "
            "it must name exactly the partitions that are read. "
            f"Not named: {_names(missing)}. Named but not read: {_names(unknown)}",
        )


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "none"


def _held_start(one: TopicPartition, start: int, seen: PartitionView) -> tuple[int, Loss | None]:
    """The start within what the log has, and what was asked for beside it."""
    if start < seen.earliest:
        return seen.earliest, _starts_early(one, start, seen.earliest, seen)
    if start > seen.latest:
        return seen.latest, _starts_late(one, start, seen)
    return start, None


def _held_range(one: TopicPartition, start: int, end: int, seen: PartitionView) -> tuple[OffsetRange, list[Loss]]:
    """The range within what the log has, and what was asked for beside it."""
    losses = []
    if start < min(end, seen.earliest):
        losses.append(_starts_early(one, start, min(end, seen.earliest), seen))
    if max(start, seen.latest) < end:
        losses.append(_ends_late(one, max(start, seen.latest), end, seen))
    if start > max(end, seen.latest):
        losses.append(_starts_late(one, start, seen))
    held_start = min(max(start, seen.earliest), seen.latest)
    held_end = min(max(end, held_start), seen.latest)
    return OffsetRange(one.topic, one.partition, held_start, held_end), losses


def _starts_early(one: TopicPartition, start: int, lost_until: int, seen: PartitionView) -> Loss:
    return Loss(
        condition=Condition.START_OFFSET_RESET,
        topic_partition=one,
        lost_from=start,
        lost_until=lost_until,
        detail=f"start offset {start} was asked for, the log starts at {seen.earliest}",
    )


def _starts_late(one: TopicPartition, start: int, seen: PartitionView) -> Loss:
    return Loss(
        condition=Condition.START_OFFSET_RESET,
        topic_partition=one,
        lost_from=seen.latest,
        lost_until=start,
        detail=f"start offset {start} was asked for, the log ends before {seen.latest}",
    )


def _ends_late(one: TopicPartition, lost_from: int, end: int, seen: PartitionView) -> Loss:
    return Loss(
        condition=Condition.RANGE_AGED_OUT,
        topic_partition=one,
        lost_from=lost_from,
        lost_until=end,
        detail=f"end offset {end} was asked for, the log ends before {seen.latest}",
    )
