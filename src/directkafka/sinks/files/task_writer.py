"""What each task of a batch runs on an executor where rows are files: write one file, and tell its name.

The file lies in a folder that driver and executors share, and counts for nothing until the driver commits its name. Its
own name says whose it is (:mod:`directkafka.sinks.files.data_files`), so that a task which dies, a speculative twin, or
a zombie leaves a file that can be told apart and removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from directkafka.faults import reach
from directkafka.sinks.api import BatchName, TaskReport
from directkafka.sinks.files.data_files import data_file_name, temporary_name
from directkafka.sinks.files.formats import FileFormat
from directkafka.sinks.files.log_state import DataFile
from directkafka.sinks.files.posix import sync_file, translated

__all__ = ["BatchTries", "DataFileWriter", "reported_files", "sync_files", "whole_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileWriter:
    """Writes one task's rows into one file; picklable.

    Attributes:
        folder: where the file goes; it is there.
        batch: which try of which batch.
        format: how rows become a file.
        durable: sync the file before it is reported.
        store: label of the store, for messages.
    """

    folder: Path
    batch: BatchName
    format: FileFormat
    durable: bool
    store: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows; no rows, no file.

        Raises:
            RowRejectedError: a row that the format cannot hold.
            StoreUnavailableError, StoreAccessError: the folder cannot be written; the task may be run again.
        """
        attempt = uuid.uuid4().hex
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return TaskReport(rows=0, attempt=attempt, staged=False)
        with translated(self.store):
            written = self._write(attempt, chain([first], filled))
        reach("task.staged")
        return TaskReport(
            rows=written.rows, attempt=attempt, staged=True, payload=json.dumps([asdict(written)]).encode()
        )

    def _write(self, attempt: str, batches: Iterable[pa.RecordBatch]) -> DataFile:
        name = data_file_name(self.batch, attempt, self.format.suffix)
        temporary = self.folder / temporary_name(name)
        try:
            rows = self.format.write(temporary, batches)
            size = temporary.stat().st_size
            if self.durable:
                sync_file(temporary)
            reach("task.file_written")
            temporary.rename(self.folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return DataFile(name=name, rows=rows, bytes=size)


class BatchTries:
    """The tries of the batch under way whose tasks may have written, as a sink remembers them."""

    def __init__(self) -> None:
        self._batch: tuple[str, int, int] | None = None
        self._attempts: set[str] = set()

    def begin(self, batch: BatchName) -> None:
        """One more try of a batch; an earlier batch is forgotten."""
        if self._batch != (name := (batch.pipeline, batch.generation, batch.batch_id)):
            self._batch, self._attempts = name, set()
        self._attempts.add(batch.attempt)

    def besides(self, batch: BatchName) -> set[str]:
        """The tries of a batch that came to nothing once this one is committed."""
        return self._attempts - {batch.attempt}


def reported_files(reports: Sequence[TaskReport]) -> list[DataFile]:
    """The files that a batch's tasks have written."""
    return [DataFile(**one) for report in reports if report.payload for one in json.loads(report.payload)]


def sync_files(folder: Path, files: Sequence[DataFile]) -> None:
    """Make files survive a power cut that their tasks were not told to sync."""
    for file in files:
        sync_file(folder / file.name)


def whole_rows(folder: Path, file: DataFile, format: FileFormat) -> int:
    """Rows of a reported file as they are on the file system now; 0 if it is gone, or of another size.

    A file that would have to be read for it is believed by its size: the task counted while it wrote those bytes.

    Raises:
        OSError: the file system fails.
    """
    path = folder / file.name
    try:
        if path.stat().st_size != file.bytes:
            return 0
        return format.count(path) if format.is_counted_quickly else file.rows
    except (FileNotFoundError, pa.ArrowInvalid):
        return 0
