"""Ranges for tests: what a task has beside its range says nothing here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.offsets import OffsetRange
from directkafka.pipeline.isolation.ranges import RecordPlace


def range_tasks(*sizes: tuple[int, int]) -> list[RangeTask]:
    """A range of partition 0 of topic ``t0``, ``t1``, ... for each pair of a first offset and a number of offsets."""
    client: Any = None
    return [
        RangeTask(range=OffsetRange(f"t{number}", 0, start, start + count), topic_id="", host="", port=0, client=client)
        for number, (start, count) in enumerate(sizes)
    ]


def offsets_of(tasks: Sequence[RangeTask]) -> list[RecordPlace]:
    """All records of the ranges, in their order."""
    return [
        RecordPlace(task.range.topic, task.range.partition, offset)
        for task in tasks
        for offset in range(task.range.from_offset, task.range.until_offset)
    ]
