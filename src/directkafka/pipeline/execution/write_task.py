"""Write tasks: a sink's writer as Spark runs it, its reports and their rows, and the proofs of reading."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Final, cast

import numpy as np
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from directkafka.arrow_columns import column_of
from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import ReadCount
from directkafka.offsets import OffsetRange
from directkafka.row_chunks import BatchesOfChunk, DecompressedChunks, compressed, packed
from directkafka.row_files import BatchesOfFile, EncodedOfFile, RowFile, RowFolder, write_batches, write_encoded
from directkafka.sinks.api import TaskReport, TaskWriter

_Proofs = dict[tuple[str, OffsetRange], ReadCount]

#: Rows of a report on their way: a chunk, or the file that they are in.
Carried = bytes | RowFile

#: A file for fewer bytes than this costs more than it saves.
_FILE_BYTES_MIN: Final = 64 * 1024

#: The column with the number of a row's partition in the output; only where a task writes several partitions.
PART: Final = "directkafka_part"


class WriteTask:
    """A function for ``mapInArrow``: one task's rows become one row, its pickled report.

    A task may write several of the output's partitions, and gets them in any order. Its rows have the column
    :data:`PART` then, and it gives a report for each partition. The driver sorts the reports by it.

    Args:
        writer: the sink's.
        folder: of the driver, for files of rows; None: rows travel in the report.
    """

    def __init__(self, writer: TaskWriter, folder: Path | None = None) -> None:
        self._writer = writer
        self._folder = folder
        self._notes = Notes.of_this_process()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Consume the task's rows; errors of ours keep their fields on the way to the driver."""
        with self._notes.signing():
            reports = [(part, self._writer(map(itemgetter(1), rows))) for part, rows in _by_part(batches)]
            # Without rows there is no group; the driver needs a report all the same.
            reports = reports or [(0, self._writer(iter(())))]
        pickled = [pickle.dumps((part, *split(report, self._folder))) for part, report in reports]
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
    return part, joined(report, rows, folder)


def split(report: TaskReport, folder: Path | None = None) -> tuple[TaskReport, tuple[Carried, ...]]:
    """Split a report from its rows. The rows become chunks, or are written to a file that is named instead.

    Args:
        report: a task's.
        folder: for the file; None: chunks.
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
    encoded, batches = tuple(report.encoded.chunks) if report.encoded else (), tuple(report.inline)
    if sum(map(len, encoded)) + sum(int(batch.nbytes) for batch in batches) < _FILE_BYTES_MIN:
        return None
    # A full disk must not fail the batch. If the folder is gone, the batch has ended, and nobody reads the report.
    with suppress(OSError):
        return write_batches(folder, batches) if report.encoded is None else write_encoded(folder, encoded)
    return None


def joined(report: TaskReport, rows: Sequence[Carried], folder: RowFolder | None = None) -> TaskReport:
    """The report with its rows, which are read or unpacked when somebody asks for them.

    Args:
        report: without rows.
        rows: that :func:`split` gave with it.
        folder: where tasks have written files; held by the report.
    """
    if not rows:
        return report
    first = rows[0]
    if report.encoded is None:
        batches = BatchesOfFile(first, folder) if isinstance(first, RowFile) else BatchesOfChunk(first)
        return replace(report, inline=batches)
    if isinstance(first, RowFile):
        return replace(report, encoded=replace(report.encoded, chunks=EncodedOfFile(first, folder)))
    chunks = DecompressedChunks(cast("tuple[bytes, ...]", tuple(rows)))
    return replace(report, encoded=replace(report.encoded, chunks=chunks))


class ProofUnion(AccumulatorParam):  # type: ignore[type-arg]  # its type variable cannot name a dict's
    """Dicts that grow by union: adding the same proof twice changes nothing."""

    def zero(self, value: Mapping[tuple[str, OffsetRange], ReadCount]) -> _Proofs:
        """No proof."""
        return {}

    def addInPlace(self, value1: _Proofs, value2: _Proofs) -> _Proofs:  # noqa: N802 - Spark's name
        """Both."""
        value1.update(value2)
        return value1
