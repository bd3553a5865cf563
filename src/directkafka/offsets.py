"""Offsets as values: partitions, half-open ranges, positions, and their JSON.

Pure vocabulary: nothing here does I/O or knows a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from directkafka.html_table import html_table


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic.

    Attributes:
        topic (str): the topic's name.
        partition (int): its number, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The records ``[from_offset, until_offset)`` of one partition.

    Attributes:
        topic (str): the topic's name.
        partition (int): its number, from 0.
        from_offset (int): first offset, inclusive, >= 0.
        until_offset (int): end, exclusive, >= ``from_offset``.

    Raises:
        ValueError: when it is made with ``from_offset`` > ``until_offset`` or a negative offset.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    def __post_init__(self) -> None:
        """Refuse a range that ends before it starts."""
        if not 0 <= self.from_offset <= self.until_offset:
            raise ValueError(
                f"an offset range needs 0 <= from_offset <= until_offset: {self.topic}-{self.partition} has "
                f"from_offset {self.from_offset}, until_offset {self.until_offset}"
            )

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition this range lies in."""
        return TopicPartition(self.topic, self.partition)

    def count(self) -> int:
        """Number of offsets in the range; records may be fewer where the log has gaps."""
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.from_offset}, {self.until_offset})"


class OffsetRangeList(list[OffsetRange]):
    """A list of ranges; a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        return _html_of_ranges(self)


class OffsetRangeTuple(tuple[OffsetRange, ...]):
    """The same as a tuple."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return _html_of_ranges(self)


def _html_of_ranges(ranges: Sequence[OffsetRange]) -> str:
    caption = f"{len(ranges):,} offset ranges, {sum(each.count() for each in ranges):,} offsets"
    heads = ("topic", "partition", "from_offset", "until_offset", "offsets")
    rows = ((each.topic, each.partition, each.from_offset, each.until_offset, each.count()) for each in ranges)
    return html_table(caption, heads, rows)


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset that the partition still has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """One past the last offset: the high watermark, or the last stable offset under read_committed."""


@dataclass(frozen=True, slots=True)
class Exact:
    """This offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record whose timestamp is at or after this instant (milliseconds since 1970, UTC)."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class BeforeLatest:
    """So many offsets before :class:`Latest`, or the earliest where the log is shorter."""

    offset_count: int


@dataclass(frozen=True, slots=True)
class Ago:
    """The first record whose timestamp is at most this old (milliseconds) when the read is planned."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class Committed:
    """What a consumer group has committed, and ``otherwise`` where it has committed nothing: None is an error."""

    group: str
    otherwise: Earliest | Latest | Ago | None = None


Position = Earliest | Latest | Exact | AtTimestamp | BeforeLatest | Ago | Committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where to start or to end: for all partitions, per topic, per partition; the closest one counts.

    Attributes:
        default: for every partition that is not named; None when all must be named.
        topics: for the partitions of a topic.
        partitions: for single partitions. When it is not empty, it must name exactly the partitions that are
            read and have no topic-level position (Spark's rule).
        latest_if_no_match: for :class:`AtTimestamp`: take the latest offset where no record is that young,
            instead of an error. With :class:`Ago` it always is so: nothing recent is no mistake.
        option: the option this came from, for messages.
    """

    default: Position | None = None
    topics: Mapping[str, Position] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    latest_if_no_match: bool = False
    option: str = ""

    def of(self, topic_partition: TopicPartition) -> Position | None:
        """The position that counts for this partition, or None when none does."""
        named = self.partitions.get(topic_partition)
        return named or self.topics.get(topic_partition.topic) or self.default


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionProgress:
    """How far a pipeline is in one partition.

    Attributes:
        topic, partition: which partition.
        topic_id: Kafka's UUID of the topic when the batch was planned; empty if the broker has none.
        start, end: the offsets ``[start, end)`` of the entry's batch; equal when it read nothing here.
        leader_epoch: leader epoch when the batch was planned, or -1.
        origin: the offset at which the pipeline began in this partition, so that ``verify`` can recount.
    """

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    leader_epoch: int
    origin: int

    @classmethod
    def at(cls, topic_partition: TopicPartition, offset: int) -> PartitionProgress:
        """Progress that says no more than this offset."""
        return cls(
            topic=topic_partition.topic, partition=topic_partition.partition, topic_id="",
            start=offset, end=offset, leader_epoch=-1, origin=offset,
        )  # fmt: skip

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as a key."""
        return TopicPartition(self.topic, self.partition)


def to_nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Spark's JSON form of offsets, ``{"topic": {"0": 23}}``, sorted by topic and partition number."""
    nested: dict[str, dict[str, int]] = {}
    for topic_partition in sorted(offsets):
        nested.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return nested


def from_nested(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The reverse of :func:`to_nested`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def total_count(ranges: Iterable[OffsetRange]) -> int:
    """Number of offsets in all the ranges."""
    return sum(offset_range.count() for offset_range in ranges)
