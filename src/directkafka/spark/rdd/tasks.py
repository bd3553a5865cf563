"""Tasks of an RDD, on executors: from a range to what the program's function makes of its records.

Executors import this module without ``pyspark.sql``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from directkafka.errors.streams import NonConsecutiveOffsetsError
from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.spark.rdd.consumer_record import ConsumerRecord, consumer_records
from directkafka.spark.read_task import read_for_spark

MessageHandler = Callable[[ConsumerRecord], Any]
ArrowHandler = Callable[[pa.RecordBatch], Iterable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecords:
    """A function for an RDD of ranges: each range becomes its records, or what a handler makes of them.

    Attributes:
        message_handler: called with each record; None for the record itself.
        arrow_handler: called with each Arrow batch of records, gives any number of items; in place of the other.
        is_strict: whether a range must have a record at every offset.
        notes: signs errors on their way to the driver.
    """

    message_handler: MessageHandler | None = None
    arrow_handler: ArrowHandler | None = None
    is_strict: bool = False
    notes: Notes = field(default_factory=Notes.of_this_process)

    def __call__(self, _partition: int, tasks: Iterable[RangeTask]) -> Iterator[Any]:
        """The items of the ranges, in order; read as they are taken, and no further."""
        # Not "yield from": a record then passes no Python frame of ours on its way.
        return chain.from_iterable(self._items(task) for task in tasks)

    def _items(self, task: RangeTask) -> Iterator[Any]:
        return chain.from_iterable(map(self._made_of, _batches(task, self.notes, is_strict=self.is_strict)))

    def _made_of(self, batch: pa.RecordBatch) -> Iterable[Any]:
        if self.arrow_handler is not None:
            return self.arrow_handler(batch)
        records = consumer_records(batch)
        return records if self.message_handler is None else map(self.message_handler, records)


@dataclass(frozen=True, slots=True)
class CountRecords:
    """A function for an RDD of ranges: how many records each of them has.

    Attributes:
        is_strict: whether a range must have a record at every offset.
        notes: signs errors on their way to the driver.
    """

    is_strict: bool = False
    notes: Notes = field(default_factory=Notes.of_this_process)

    def __call__(self, _partition: int, tasks: Iterable[RangeTask]) -> Iterator[int]:
        """One number for each range."""
        return (sum(batch.num_rows for batch in _batches(task, self.notes, is_strict=self.is_strict)) for task in tasks)


def _batches(task: RangeTask, notes: Notes, *, is_strict: bool) -> Iterator[pa.RecordBatch]:
    record_count = 0
    for batch in read_for_spark(task, notes):
        record_count += batch.num_rows
        yield batch
    if is_strict and record_count != task.range.count():
        raise notes.on(NonConsecutiveOffsetsError(range=str(task.range), records=record_count))
