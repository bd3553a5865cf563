"""What the tests of direct streams share: places of records, what batches had, a running context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import RDD
from pyspark.streaming import DStream, StreamingContext
from tests.waiting import until

import directkafka as dk
from directkafka import OffsetRange

Place = tuple[str, int, int]
#: Gives the tests' context a program's settings; see the fixture of this name.
Settings = Callable[[dict[str, object]], None]
INTERVAL_S = 0.3


def place_of(record: dk.ConsumerRecord) -> Place:
    return record.topic, record.partition, record.offset


def places(topic: str, count: int, *, start: int = 0, partitions: int = 2) -> set[Place]:
    return {(topic, partition, offset) for partition in range(partitions) for offset in range(start, count)}


class Collected:
    """What a stream's batches had."""

    def __init__(self) -> None:
        self.ranges: list[tuple[OffsetRange, ...]] = []
        self.records: list[Any] = []

    def add(self, rdd: RDD[Any]) -> None:
        ranges, records = dk.offset_ranges(rdd), rdd.collect()
        self.ranges.append(ranges)
        self.records += records

    def of(self, stream: DStream[Any]) -> Collected:
        # Spark counts the arguments of a function's code, and a method's has one more.
        stream.foreachRDD(lambda rdd: self.add(rdd))  # noqa: PLW0108
        return self

    def wait_for(self, count: int) -> list[Any]:
        until(lambda: len(self.records) >= count, f"{count} items, found {len(self.records)}")
        return self.records

    def not_empty(self) -> list[tuple[OffsetRange, ...]]:
        return [ranges for ranges in self.ranges if ranges]


@contextmanager
def running(context: StreamingContext) -> Iterator[StreamingContext]:
    context.start()
    try:
        yield context
    finally:
        context.stop(stopSparkContext=False)
