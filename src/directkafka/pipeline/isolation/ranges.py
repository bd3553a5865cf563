"""Cuts of a batch's ranges: in halves, without some records, those records alone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange


class RecordPlace(NamedTuple):
    """Which record; so ordered, records come in the order of their partitions."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> RecordPlace:
        """The place that a text stands for; no topic's name has an ``@``.

        Raises:
            ValueError: the text is none.
        """
        partition, _, offset = text.rpartition("@")
        topic, _, number = partition.rpartition("-")
        return cls(topic, int(number), int(offset))


def offset_count(tasks: Sequence[RangeTask]) -> int:
    """The offsets of all ranges; there may be fewer records."""
    return sum(task.range.count() for task in tasks)


def first_place(tasks: Sequence[RangeTask]) -> RecordPlace:
    """The first offset of ranges, none of which is empty."""
    first = tasks[0].range
    return RecordPlace(first.topic, first.partition, first.from_offset)


def halved(tasks: Sequence[RangeTask]) -> tuple[list[RangeTask], list[RangeTask]]:
    """Two halves of the same number of offsets, or the first one larger by one, in the order of the ranges.

    Args:
        tasks: ranges with two offsets or more together.
    """
    left: list[RangeTask] = []
    right: list[RangeTask] = []
    wanted = (offset_count(tasks) + 1) // 2
    for task in tasks:
        cut = task.range.from_offset + min(wanted, task.range.count())
        left += _cut(task, task.range.from_offset, cut)
        right += _cut(task, cut, task.range.until_offset)
        wanted -= cut - task.range.from_offset
    return left, right


def without(tasks: Sequence[RangeTask], places: Collection[RecordPlace]) -> list[RangeTask]:
    """The ranges with some records taken out of them."""
    pieces: list[RangeTask] = []
    for task in tasks:
        start = task.range.from_offset
        for record_place in within([task], places):
            pieces += _cut(task, start, record_place.offset)
            start = record_place.offset + 1
        pieces += _cut(task, start, task.range.until_offset)
    return pieces


def alone(tasks: Sequence[RangeTask], places: Collection[RecordPlace]) -> list[RangeTask]:
    """A range for each of some records, in the order of the ranges."""
    return [
        piece for task in tasks for record_place in within([task], places) for piece in _cut(task, record_place.offset)
    ]


def within(tasks: Sequence[RangeTask], places: Collection[RecordPlace]) -> list[RecordPlace]:
    """Those of the records that lie in the ranges, each once, in the order of the ranges."""
    return [record_place for task in tasks for record_place in sorted(set(places)) if _holds(task.range, record_place)]


def _holds(offsets: OffsetRange, record_place: RecordPlace) -> bool:
    is_of_partition = (offsets.topic, offsets.partition) == (record_place.topic, record_place.partition)
    return is_of_partition and offsets.from_offset <= record_place.offset < offsets.until_offset


def _cut(task: RangeTask, start: int, end: int | None = None) -> Iterator[RangeTask]:
    """A part of a range, if there is one; without an end, one offset."""
    end = start + 1 if end is None else end
    if start < end:
        yield replace(task, range=replace(task.range, from_offset=start, until_offset=end))
