"""The task that writes, as it travels to executors and back: a sink's writer, its reports, the proofs of reading."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from directkafka.arrow_columns import column_of
from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import OffsetRange
from directkafka.row_chunks import BatchesOfChunk, DecompressedChunks, compressed, packed
from directkafka.row_files import BatchesOfFile, PiecesOfFile, RowFile, RowFolder, write_batches, write_pieces
from directkafka.sinks.api import TaskReport, TaskWriter

_Proofs = dict[tuple[str, OffsetRange], ReadCount]

#: Rows of a report on their way: a chunk, or the file that they are in.
Carried = bytes | RowFile

#: Of fewer bytes a file would cost more than it saves.
_FILE_BYTES_MIN: Final = 64 * 1024

#: The column that says of which of the output's partitions a row is, where a task writes several.
PART: Final = "directkafka_part"


class WriteTask:
    """A function for ``mapInArrow``: one task's rows become one row, its pickled report.

    Rows that have the column :data:`PART` become a report for each of its numbers, so that reports can be put into the
    order of the partitions, which is not the one in which a task that writes several of them gets these.

    Args:
        writer: the sink's.
        folder: of the driver, for rows that reports hold; None where it may be on another machine.
    """

    def __init__(self, writer: TaskWriter, folder: Path | None = None) -> None:
        self._writer = writer
        self._folder = folder
        self._notes = Notes.of_this_process()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume the task's rows; errors of ours keep their fields on the way to the driver."""
        with self._notes.signing():
            reports = [(part, self._writer(map(itemgetter(1), rows))) for part, rows in _by_part(batches)]
            # A writer that is given nothing says so.
            reports = reports or [(0, self._writer(iter(())))]
        pickled = [pickle.dumps((part, *without_its_rows(report, self._folder))) for part, report in reports]
        yield pa.record_batch({"report": column_of(pickled, pa.binary())})


def reports_of(collected: pa.Table, folder: RowFolder | None = None) -> tuple[TaskReport, ...]:
    """What the tasks of a job have reported, in the order of the output's partitions.

    Args:
        collected: the rows that :class:`WriteTask` gave.
        folder: where the tasks have left rows.
    """
    reports = [_unpickled(report, folder) for report in collected.column("report").to_pylist()]
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


def _unpickled(pickled: bytes, folder: RowFolder | None) -> tuple[int, TaskReport]:
    part, report, rows = pickle.loads(pickled)
    return part, with_its_rows(report, rows, folder)


def without_its_rows(report: TaskReport, folder: Path | None = None) -> tuple[TaskReport, tuple[Carried, ...]]:
    """A report as it travels: without the rows that it holds, and these as chunks, or the file that they are in.

    Args:
        report: a task's.
        folder: for the file; None: rows travel as chunks.
    """
    bare = replace(report, inline=(), encoded=report.encoded and replace(report.encoded, chunks=()))
    file = None if folder is None else _in_file(report, folder)
    if file is not None:
        return bare, (file,)
    if report.encoded is not None:
        return bare, tuple(map(compressed, report.encoded.chunks))
    return bare, (packed(tuple(report.inline)),) if report.inline else ()


def _in_file(report: TaskReport, folder: Path) -> RowFile | None:
    """The rows of a report in a file; None where they are few, or cannot be written there."""
    pieces, batches = tuple(report.encoded.chunks) if report.encoded else (), tuple(report.inline)
    if sum(map(len, pieces)) + sum(int(batch.nbytes) for batch in batches) < _FILE_BYTES_MIN:
        return None
    # A disk that is full ends no batch, and a task whose batch is over writes for nobody.
    with suppress(OSError):
        return write_batches(folder, batches) if batches else write_pieces(folder, pieces)
    return None


def with_its_rows(report: TaskReport, rows: Sequence[Carried], folder: RowFolder | None = None) -> TaskReport:
    """The report with its rows, which are read or unpacked when somebody asks for them.

    Args:
        report: as it came.
        rows: that came with it.
        folder: where tasks have left rows; it stays as long as the report.
    """
    if not rows:
        return report
    chunks = tuple(each for each in rows if isinstance(each, bytes))
    files = tuple(each for each in rows if isinstance(each, RowFile))
    if report.encoded is not None:
        pieces = PiecesOfFile(files[0], folder) if files else DecompressedChunks(chunks)
        return replace(report, encoded=replace(report.encoded, chunks=pieces))
    return replace(report, inline=BatchesOfFile(files[0], folder) if files else BatchesOfChunk(*chunks))


class ProofUnion(AccumulatorParam):  # type: ignore[type-arg]  # its type variable cannot name a dict's
    """Dicts that grow by union: adding the same proof twice changes nothing."""

    def zero(self, value: Mapping[tuple[str, OffsetRange], ReadCount]) -> _Proofs:
        """No proof."""
        return {}

    def addInPlace(self, value1: _Proofs, value2: _Proofs) -> _Proofs:  # noqa: N802 - Spark's name
        """Both."""
        value1.update(value2)
        return value1
