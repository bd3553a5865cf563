"""The task that writes, as it travels to executors and back: a sink's writer, its reports, the proofs of reading."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from directkafka.arrow_columns import column_of
from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import OffsetRange
from directkafka.row_chunks import BatchesOfChunk, DecompressedChunks, compressed, packed
from directkafka.sinks.api import TaskReport, TaskWriter

_Proofs = dict[tuple[str, OffsetRange], ReadCount]

#: The column that says of which of the output's partitions a row is, where a task writes several.
PART: Final = "directkafka_part"


class WriteTask:
    """A function for ``mapInArrow``: one task's rows become one row, its pickled report.

    Rows that have the column :data:`PART` become a report for each of its numbers, so that reports can be put into the
    order of the partitions, which is not the one in which a task that writes several of them gets these.

    Args:
        writer: the sink's.
    """

    def __init__(self, writer: TaskWriter) -> None:
        self._writer = writer
        self._notes = Notes.of_this_process()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume the task's rows; errors of ours keep their fields on the way to the driver."""
        with self._notes.signing():
            reports = [(part, self._writer(map(itemgetter(1), rows))) for part, rows in _by_part(batches)]
            # A writer that is given nothing says so.
            reports = reports or [(0, self._writer(iter(())))]
        yield pa.record_batch({"report": column_of([_pickled(part, report) for part, report in reports], pa.binary())})


def reports_of(collected: pa.Table) -> tuple[TaskReport, ...]:
    """What the tasks of a job have reported, in the order of the output's partitions.

    Args:
        collected: the rows that :class:`WriteTask` gave.
    """
    reports = [_unpickled(report) for report in collected.column("report").to_pylist()]
    return tuple(report for _, report in sorted(reports, key=itemgetter(0)))


def _by_part(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[tuple[int, pa.RecordBatch]]]]:
    """Runs of rows of one partition, each to be consumed before the next is asked for."""
    return groupby(_parts(batches), key=itemgetter(0))


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        if PART not in batch.schema.names:
            yield 0, batch
            continue
        numbers = batch.column(PART).to_numpy()
        rows = batch.drop_columns([PART])
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)] if len(numbers) else []
        for start, end in pairwise([0, *ends]):
            yield int(numbers[start]), rows.slice(start, end - start)


def _pickled(part: int, report: TaskReport) -> bytes:
    return pickle.dumps((part, *without_its_rows(report)))


def _unpickled(pickled: bytes) -> tuple[int, TaskReport]:
    part, report, chunks = pickle.loads(pickled)
    return part, with_its_rows(report, chunks)


def without_its_rows(report: TaskReport) -> tuple[TaskReport, tuple[bytes, ...]]:
    """A report as it travels: without the rows that it holds, and these as chunks."""
    if report.encoded is not None:
        bare = replace(report, encoded=replace(report.encoded, chunks=()))
        return bare, tuple(map(compressed, report.encoded.chunks))
    return replace(report, inline=()), (packed(tuple(report.inline)),) if report.inline else ()


def with_its_rows(report: TaskReport, chunks: Sequence[bytes]) -> TaskReport:
    """The report with its rows, which are unpacked when somebody reads them."""
    if report.encoded is not None:
        return replace(report, encoded=replace(report.encoded, chunks=DecompressedChunks(tuple(chunks))))
    return replace(report, inline=BatchesOfChunk(*chunks)) if chunks else report


class ProofUnion(AccumulatorParam):  # type: ignore[type-arg]  # its type variable cannot name a dict's
    """Dicts that grow by union: adding the same proof twice changes nothing."""

    def zero(self, value: Mapping[tuple[str, OffsetRange], ReadCount]) -> _Proofs:
        """No proof."""
        return {}

    def addInPlace(self, value1: _Proofs, value2: _Proofs) -> _Proofs:  # noqa: N802 - Spark's name
        """Both."""
        value1.update(value2)
        return value1
