"""The task that reads planned ranges into Arrow batches, on executors, and the DataFrame that consists of such tasks.

A batch costs 80 to 130 ms by such a DataFrame, and 110 to 170 by the data source, which plans in a process of its own.
Tasks do not import here what makes DataFrames, and drivers do not import the kernels that read: numba alone takes
longer to import than everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext

from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.kafka.network.connection_pool import close_idle
from directkafka.offsets import OffsetRange
from directkafka.python_worker import freeze_imports


class Proof(Protocol):
    """Where a task says that it reached the end of its range: a Spark accumulator of dicts."""

    def add(self, term: dict[tuple[str, OffsetRange], ReadCount]) -> None:
        """Add ``{(attempt, range): how much was read}``."""


def read_for_spark(task: RangeTask, notes: Notes, read: ReadCount | None = None) -> Iterator[pa.RecordBatch]:
    """Read a range and decode its payloads. An error reaches the driver with its fields: in a signed note.

    Args:
        task: the range.
        notes: sign errors.
        read: is added up to while the range is read.
    """
    # Not above: drivers import this module too.
    from directkafka.kafka.consumer.range_reader import read_range

    freeze_imports("read")
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        # The task's attempt before this one may have failed on a connection that is broken and does not look so.
        close_idle()
    with notes.signing():
        records = read_range(task, read)
        yield from _decoded(records, task) if task.payloads else records


def _decoded(records: Iterator[pa.RecordBatch], task: RangeTask) -> Iterator[pa.RecordBatch]:
    # Not above: a process that reads bytes alone does not load the decoders.
    from directkafka.payloads.decode import decode_batches

    return decode_batches(records, task)


class ReadRanges:
    """A function for ``mapInArrow`` over a frame of range numbers: each number becomes its range's records.

    Args:
        tasks: the ranges; row ``i`` of the input stands for ``tasks[i]``.
        attempt: name of this try of the batch, under which the proof is filed.
        proof: told of each range that was read to its end.
    """

    def __init__(self, tasks: tuple[RangeTask, ...], attempt: str = "", proof: Proof | None = None) -> None:
        self._tasks = tasks
        self._attempt = attempt
        self._proof = proof
        self._notes = Notes.of_this_process()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records of the ranges that ``batches`` names, in that order."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._read(self._tasks[number])

    def _read(self, task: RangeTask) -> Iterator[pa.RecordBatch]:
        read = ReadCount()
        yield from read_for_spark(task, self._notes, read)
        # If the consumer stops early, this generator is closed at the yield above, and gives no proof.
        if self._proof is not None:
            self._proof.add({(self._attempt, task.range): read})
