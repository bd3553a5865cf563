"""The task of a native pipeline: it reads ranges, decodes, transforms and writes them, all in one Python worker.

The JVM gives it numbers of ranges, and carries its reports. A task with several sinks runs their writers side by side,
each in a thread of its own with a short queue before it, so that every batch is made once and held by nobody for long.

Executors import this module without ``pyspark.sql``.
"""

from __future__ import annotations

import itertools
import pickle
import queue
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from directkafka.arrow_columns import column_of
from directkafka.errors import RangeNotReadError, RowRejectedError
from directkafka.errors.transport import Notes
from directkafka.kafka.consumer.range_task import RangeTask, ReadCount
from directkafka.payloads.json.texts import json_texts
from directkafka.pipeline.execution.native.arrow_transform import ArrowTransform, Schemas, transformed
from directkafka.pipeline.execution.native.dead_letters import DeadLettersOfBatch
from directkafka.pipeline.execution.write_task import Carried, joined, split
from directkafka.row_chunks import CHUNK, chunks_of
from directkafka.row_files import RowFolder
from directkafka.sinks.api import TaskReport, TaskWriter
from directkafka.sinks.databases import is_json
from directkafka.spark.read_task import read_for_spark

#: Batches that wait before a writer.
_WAITING_MAX: Final = 2
#: How often a queue that is full is looked at, for a writer that has ended.
_LOOK_S: Final = 0.1

Outputs = dict[str, pa.RecordBatch]

#: The column that says what a row of a task's is, beside :data:`CHUNK`; and its value for the report of a range.
WRITER: Final = "writer"
OF_REPORT: Final = -1
NATIVE_ROWS: Final = f"{WRITER} int, {CHUNK} binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReport:
    """What became of one range.

    Attributes:
        number: of the range.
        read: how much of it was read.
        reports: of each writer.
    """

    number: int
    read: ReadCount
    reports: tuple[TaskReport, ...]


#: Rows, or the report that they are of, with the number of pieces of rows of each of its parts.
Piece = Carried | tuple[RangeReport, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTask:
    """Functions for Spark over numbers of ranges: each becomes a :class:`RangeReport`, in pieces.

    As a function for ``mapInArrow`` it gives rows with the columns of :data:`NATIVE_ROWS`: the number of a writer, and
    a chunk of its rows; or :data:`OF_REPORT`, and a piece of a report.

    Attributes:
        tasks: the ranges; row ``i`` of the input stands for ``tasks[i]``.
        transform: what becomes of the records.
        schemas: the columns of its outputs.
        dead_letters: sets apart what it rejects; None in a pipeline without a place for that.
        writers: which output goes to which sink's writer.
        kept: numbers of the writers whose rows are wanted as chunks, too.
        folder: of the driver, for files of rows; None: rows travel in the report.
        notes: sign errors on their way to the driver.
    """

    tasks: tuple[RangeTask, ...]
    transform: ArrowTransform
    schemas: Schemas
    writers: tuple[tuple[str, TaskWriter], ...]
    dead_letters: DeadLettersOfBatch | None = None
    kept: tuple[int, ...] = ()
    folder: Path | None = None
    notes: Notes = field(default_factory=Notes.of_this_process)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the ranges that ``batches`` names, in that order."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with self.notes.signing():
                    for chunk_or_report in self._range(number):
                        if isinstance(chunk_or_report, RangeReport):
                            yield from (_row(OF_REPORT, pickle.dumps(piece)) for piece in self._pieces(chunk_or_report))
                        else:
                            yield _row(*chunk_or_report)

    def reports(self, numbers: Iterable[int]) -> Iterator[Piece]:
        """A function for ``RDD.mapPartitions``, where nothing is kept: the pieces of the reports alone."""
        for number in numbers:
            with self.notes.signing():
                for report in self._range(number):
                    assert isinstance(report, RangeReport), "nothing is kept"
                    yield from self._pieces(report)

    def _range(self, number: int) -> Iterator[tuple[int, bytes] | RangeReport]:
        """Chunks of what is kept, and at last the report."""
        rows = _Rows(self.tasks[number], self)
        try:
            if len(self.writers) == 1 and not self.kept:
                ((output, writer),) = self.writers
                reports: tuple[TaskReport, ...] = (writer(outputs[output] for outputs in rows if output in outputs),)
            else:
                with SideBySide(self.writers) as running:
                    for outputs in rows:
                        running.put(outputs)
                        yield from self._kept_of(outputs)
                    reports = running.finish()
        except WriterEndedError:
            rows.is_at_end = False
        # What a sink's writer has not taken is not written, whatever it reports.
        if not rows.is_at_end:
            raise RangeNotReadError(ranges=(str(self.tasks[number].range),))
        yield RangeReport(number=number, read=rows.read, reports=reports)

    def _pieces(self, report: RangeReport) -> Iterator[Piece]:
        """The rows that a report holds, piece by piece, so that nothing copies all of them at once; then the rest."""
        bare, counts = [], []
        for task_report in report.reports:
            without_rows, rows = split(task_report, self.folder)
            yield from rows
            bare.append(without_rows)
            counts.append(len(rows))
        yield replace(report, reports=tuple(bare)), tuple(counts)

    def _kept_of(self, outputs: Outputs) -> Iterator[tuple[int, bytes]]:
        for number in self.kept:
            output, _ = self.writers[number]
            if output in outputs:
                for chunk in chunks_of(outputs[output]):
                    yield number, chunk


class _Rows:
    """The outputs of one range's batches, in order; counts what is read."""

    def __init__(self, task: RangeTask, native: NativeTask) -> None:
        self._task = task
        self._native = native
        self.read = ReadCount()
        self.is_at_end = False

    def __iter__(self) -> Iterator[Outputs]:
        task, native = self._task, self._native
        for batch in read_for_spark(task, native.notes, self.read):
            shown = batch if native.dead_letters is None else native.dead_letters.shown(batch)
            outputs = transformed(native.transform, shown, native.schemas, str(task.range))
            yield outputs if native.dead_letters is None else native.dead_letters.divert(outputs, batch)
        self.is_at_end = True


@dataclass(frozen=True, slots=True)
class JsonTextsWriter:
    """A sink's writer that is given nested columns as JSON, where the sink has no type for them; picklable.

    Attributes:
        inner: the sink's.
        schema: of the rows that it is given; the columns of JSON are marked.
    """

    inner: TaskWriter
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows.

        Raises:
            RowRejectedError: a value has no text.
        """
        return self.inner(map(self._written, batches))

    def _written(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            _json_of(column, field.name) if is_json(field) else column
            for field, column in zip(self.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _json_of(column: pa.Array, name: str) -> pa.Array:
    try:
        return json_texts(column)
    except pa.ArrowInvalid as error:
        store = "a sink that has no type for it but JSON"
        raise RowRejectedError(store=store, sink=f"column {name!r}", detail=str(error)) from error


class _GivenUpError(Exception):
    """Another sink's writer failed, or the reading did: this one's rows will not be complete."""


class SideBySide:
    """Several writers at once over the outputs of the same batches, each in a thread of its own.

    Left by an exception, the writers end without a report: theirs counts for nothing. What a writer has raised by
    itself is raised in the place of that.

    Args:
        writers: which output goes to which writer.
    """

    def __init__(self, writers: Sequence[tuple[str, TaskWriter]]) -> None:
        self._outputs = [output for output, _ in writers]
        self._waiting: list[_Waiting] = [queue.Queue(_WAITING_MAX) for _ in writers]
        self._writers = [writer for _, writer in writers]
        self._pool = ThreadPoolExecutor(len(writers), thread_name_prefix="writer")
        self._running: list[Future[TaskReport]] = []

    def __enter__(self) -> Self:
        try:
            for writer, before in zip(self._writers, self._waiting, strict=True):
                self._running.append(self._pool.submit(writer, _taken(before)))
        except BaseException:
            self._give_up()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._pool.shutdown(wait=True)
            return
        self._give_up()
        if issubclass(kind, Exception):
            _raise_first(self._running)

    def _give_up(self) -> None:
        """End the writers that run."""
        for before, future in zip(self._waiting, self._running, strict=False):
            _put(before, _GivenUpError(), future, is_ending=True)
        self._pool.shutdown(wait=True)

    def put(self, outputs: Outputs) -> None:
        """Hand over the outputs of the next batch.

        Raises:
            WriterEndedError: a writer has ended.
        """
        for output, before, future in zip(self._outputs, self._waiting, self._running, strict=True):
            if output in outputs:
                _put(before, outputs[output], future)

    def finish(self) -> tuple[TaskReport, ...]:
        """The writers' reports, once they have all rows.

        Raises:
            WriterEndedError: a writer has returned before it had them.
            Exception: what a writer has raised.
        """
        for before, future in zip(self._waiting, self._running, strict=True):
            _put(before, None, future)
        wait(self._running)
        _raise_first(self._running)
        if not all(before.empty() for before in self._waiting):
            raise WriterEndedError
        return tuple(future.result() for future in self._running)


class WriterEndedError(Exception):
    """A writer has ended before all rows were handed to it."""


_Waiting = queue.Queue["pa.RecordBatch | _GivenUpError | None"]


def _put(before: _Waiting, item: Any, future: Future[TaskReport], *, is_ending: bool = False) -> None:
    while True:
        if future.done():
            if is_ending:
                return
            raise WriterEndedError
        try:
            before.put(item, timeout=_LOOK_S)
        except queue.Full:
            continue
        return


def _taken(before: _Waiting) -> Iterator[pa.RecordBatch]:
    while (item := before.get()) is not None:
        if isinstance(item, _GivenUpError):
            raise item
        yield item


def _raise_first(running: Sequence[Future[TaskReport]]) -> None:
    """Raise what a writer has raised by itself, and not when it was given up."""
    for future in running:
        error = future.exception() if future.done() else None
        if error is not None and not _was_given_up(error):
            raise error


def _was_given_up(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, _GivenUpError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _row(writer: int, content: bytes) -> pa.RecordBatch:
    columns = [column_of([writer], pa.int32()), column_of([content], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, [WRITER, CHUNK])


def range_reports(pieces: Iterable[Piece], folder: RowFolder | None = None) -> list[RangeReport]:
    """What the tasks of a job have reported, in the order of the ranges; a range that was done twice counts once.

    Args:
        pieces: that :class:`NativeTask` gave, those of a report one behind the other.
        folder: where the tasks have left rows.
    """
    reports_by_number: dict[int, RangeReport] = {}
    rows: list[Carried] = []
    for piece in pieces:
        if not isinstance(piece, tuple):
            rows.append(piece)
            continue
        report, counts = piece
        coming = iter(rows)
        reports = (
            joined(bare, list(itertools.islice(coming, count)), folder)
            for bare, count in zip(report.reports, counts, strict=True)
        )
        reports_by_number[report.number] = replace(report, reports=tuple(reports))
        rows = []
    return [reports_by_number[number] for number in sorted(reports_by_number)]
