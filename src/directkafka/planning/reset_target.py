"""A reset: where a pipeline is to go on. Pure.

The words are those of Kafka's own tool, ``kafka-consumer-groups --reset-offsets`` (KIP-122).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from directkafka.errors import OptionError
from directkafka.offsets import Ago, AtTimestamp, Earliest, Exact, Latest, Positions, TopicPartition
from directkafka.options.spec import shown
from directkafka.options.texts import duration_ms, iso_duration_ms, whole_number
from directkafka.snapshot import ClusterSnapshot


class RowsPolicy(StrEnum):
    """What becomes of the rows of records that will be read again."""

    KEEP = "keep"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """This many offsets after the next one, or before it if the number is negative."""

    offset_count: int


@dataclass(frozen=True, slots=True)
class Listed:
    """These offsets, and no other partition."""

    offsets: Mapping[TopicPartition, int]


ResetTo = Earliest | Latest | Exact | AtTimestamp | Ago | ShiftBy | Listed


def parse_moment(text: str, *, option: str) -> AtTimestamp:
    """The first record at or after a time: ISO 8601, UTC where it has no zone.

    Args:
        text: ``2026-11-25T08:00`` or ``2026-11-25T08:00+01:00``.
        option: where it was given, for the message.

    Raises:
        OptionError: it is none, or before 1970.
    """
    try:
        moment = datetime.fromisoformat(text)
        in_zone = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        milliseconds = math.ceil(in_zone.timestamp() * 1000)
    except (ValueError, OverflowError):
        milliseconds = -1
    # Nor is a number of milliseconds one: some of them have the form of a time in an early century.
    if milliseconds < 0:
        examples = "2026-11-25T08:00 or 2026-11-25T08:00+01:00"
        reason = f"expected a time in ISO 8601 from 1970 on, such as {examples}, found {shown(text)}"
        raise OptionError(option=option, reason=reason)
    return AtTimestamp(milliseconds)


def parse_ago(text: str, *, option: str) -> Ago:
    """The first record of the last ``10m`` or ``PT10M``.

    Args:
        text: a duration.
        option: where it was given, for the message.

    Raises:
        OptionError: it is none.
    """
    milliseconds = duration_ms(text)
    if milliseconds is None:
        milliseconds = iso_duration_ms(text)
    if milliseconds is None:
        raise OptionError(option=option, reason=f"expected a duration, such as 10m or PT10M, found {shown(text)}")
    return Ago(milliseconds)


def parse_offsets(lines: Iterable[str], *, option: str, where: str) -> dict[TopicPartition, int]:
    """The offsets in lines of CSV, ``topic,partition,offset``.

    Args:
        lines: empty ones are passed over.
        option: where they were given, for messages.
        where: what the lines are of, for messages.

    Raises:
        OptionError: a line is none, or names a partition a second time; or there is no line.
    """
    offsets: dict[TopicPartition, int] = {}
    try:
        read = list(csv.reader(lines))
    except csv.Error as error:
        raise OptionError(option=option, reason=f"{where} cannot be read: {error}") from None
    for number, line in enumerate(read, start=1):
        if not line:
            continue
        partition, offset = (whole_number(part.strip()) for part in line[1:]) if len(line) == 3 else (None, None)
        if partition is None or offset is None or min(partition, offset) < 0 or max(partition >> 31, offset >> 63):
            reason = f"line {number} of {where}: expected topic,partition,offset, found {shown(','.join(line))}"
            raise OptionError(option=option, reason=reason)
        topic_partition = TopicPartition(line[0].strip(), partition)
        if topic_partition in offsets:
            raise OptionError(option=option, reason=f"line {number} of {where} names {topic_partition} a second time")
        offsets[topic_partition] = offset
    if not offsets:
        raise OptionError(option=option, reason=f"{where} names no partition")
    return offsets


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """A topic whose partitions are reset: these, or all of them for none."""

    topic: str
    partitions: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> TopicChoice:
        """``topic`` or ``topic:0,1``.

        Raises:
            OptionError: it is neither.
        """
        topic, colon, numbers = text.partition(":")
        parts = numbers.split(",") if colon else []
        if not topic or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            raise OptionError(option="--topic", reason=f"expected topic or topic:0,1, found {text!r}")
        return cls(topic, tuple(sorted({int(part) for part in parts})))


def chosen_partitions(
    choices: Sequence[TopicChoice], to: ResetTo, snapshot: ClusterSnapshot
) -> tuple[TopicPartition, ...]:
    """The partitions that are reset, sorted: all that are read, or those that are chosen or listed.

    Raises:
        OptionError: a partition that is named is not read.
    """
    read = snapshot.partitions.keys()
    chosen: set[TopicPartition] = set()
    for choice in choices:
        named = {TopicPartition(choice.topic, number) for number in choice.partitions}
        chosen |= (
            named
            or {partition for partition in read if partition.topic == choice.topic}
            or {TopicPartition(choice.topic, 0)}
        )
    if isinstance(to, Listed):
        chosen = {partition for partition in to.offsets if not choices or partition in chosen}
    elif not choices:
        chosen = set(read)
    if not chosen:
        raise OptionError(option="--topic", reason="the pipeline's topics have no partition that could be reset")
    if unread := sorted(chosen - read):
        known = ", ".join(sorted({partition.topic for partition in read})) or "no topic"
        raise OptionError(
            option="--from-file" if isinstance(to, Listed) else "--topic",
            reason=f"the pipeline does not read {', '.join(map(str, unread[:5]))}; it reads {known}",
        )
    return tuple(sorted(chosen))


def reset_positions(
    to: ResetTo, chosen: Collection[TopicPartition], current: Mapping[TopicPartition, int], snapshot: ClusterSnapshot
) -> Positions:
    """Positions to be resolved as those of a start are.

    Args:
        to: where.
        chosen: which partitions.
        current: the next offset of each; the earliest where the pipeline has read nothing yet.
        snapshot: has the chosen partitions.
    """
    if isinstance(to, ShiftBy):
        starts = {partition: current.get(partition, snapshot.partitions[partition].earliest) for partition in chosen}
        return Positions(
            partitions={partition: Exact(max(start + to.offset_count, 0)) for partition, start in starts.items()},
            option="--shift-by",
        )
    if isinstance(to, Listed):
        return Positions(
            partitions={partition: Exact(to.offsets[partition]) for partition in chosen}, option="--from-file"
        )
    return Positions(default=to, latest_if_no_match=True, option="--to")


def only(snapshot: ClusterSnapshot, chosen: Collection[TopicPartition]) -> ClusterSnapshot:
    """The snapshot of these partitions alone."""
    return replace(snapshot, partitions={partition: snapshot.partitions[partition] for partition in sorted(chosen)})
