"""The task writer of files, on executors: it writes one file, and reports the file's name to the driver.

The file lies in a folder that driver and executors share, and counts for nothing until the driver commits its name. The
name also says who wrote the file and for which batch (:class:`FileOwner`), so that a file of a dead task, a speculative
attempt or a zombie task can be recognised and removed.

Names: ``part-<pipeline>-<generation>-<batch>-<attempt>-<task>.<suffix>``, where pipeline and attempt are short hashes
and task is the start of the task attempt's UUID. While a file is written, its name begins with a dot: Spark, Hive and
Arrow ignore such files. The generation shows which files an older driver left; a file's age would not show it.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

from directkafka.fault_points import fault_point
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.files.formats import FileFormat
from directkafka.sinks.files.log_state import DataFile
from directkafka.sinks.files.posix import sync_file, translated

_NAME: Final = re.compile(r"\.?part-([0-9a-f]{10})-(\d+)-(\d+)-([0-9a-f]{12})-[0-9a-f]+\..+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOwner:
    """What a data file's name says.

    Attributes:
        pipeline, attempt: :func:`pipeline_key` and :func:`attempt_key` of the batch's pipeline and attempt.
        generation, batch_id: as in :class:`~directkafka.sinks.api.BatchAttempt`.
    """

    pipeline: str
    generation: int
    batch_id: int
    attempt: str


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def pipeline_key(pipeline: str) -> str:
    """What stands for a pipeline in file names."""
    return _hash(pipeline, 10)


def attempt_key(attempt: str) -> str:
    """What stands for one try of a batch in file names."""
    return _hash(attempt, 12)


def data_file_name(batch: BatchAttempt, task_attempt: str, suffix: str) -> str:
    """The name of the file that one task attempt writes.

    Args:
        batch: which try of which batch.
        task_attempt: a UUID of the task attempt, as hex; its first 12 digits are used.
        suffix: the format's ``suffix``, for example ``zstd.parquet``.
    """
    owner = f"{pipeline_key(batch.pipeline)}-{batch.generation}-{batch.batch_id}-{attempt_key(batch.attempt)}"
    return f"part-{owner}-{task_attempt[:12]}.{suffix}"


def temporary_name(name: str) -> str:
    """The name that a file has until it is whole."""
    return f".{name}"


def owner_of(name: str) -> FileOwner | None:
    """What a file's name says, temporary or not; None for a file of somebody else's."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    pipeline, generation, batch_id, attempt = match.groups()
    return FileOwner(pipeline=pipeline, generation=int(generation), batch_id=int(batch_id), attempt=attempt)


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
    batch: BatchAttempt
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
        fault_point("task.staged")
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
            fault_point("task.file_written")
            temporary.rename(self.folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return DataFile(name=name, rows=rows, bytes=size)


class AttemptTracker:
    """A sink's record of the current batch: those of its tries whose tasks may have written files."""

    def __init__(self) -> None:
        self._batch: tuple[str, int, int] | None = None
        self._attempts: set[str] = set()

    def begin(self, batch: BatchAttempt) -> None:
        """One more try of a batch; an earlier batch is forgotten."""
        if self._batch != (name := (batch.pipeline, batch.generation, batch.batch_id)):
            self._batch, self._attempts = name, set()
        self._attempts.add(batch.attempt)

    def besides(self, batch: BatchAttempt) -> set[str]:
        """The other tries of the batch; once this one is committed, their files count for nothing."""
        return self._attempts - {batch.attempt}


def reported_files(reports: Sequence[TaskReport]) -> list[DataFile]:
    """The files that a batch's tasks have written."""
    return [DataFile(**load) for report in reports if report.payload for load in json.loads(report.payload)]


def sync_files(folder: Path, files: Sequence[DataFile]) -> None:
    """Sync files that their tasks were not told to sync, so that they survive a power cut."""
    for file in files:
        sync_file(folder / file.name)


def whole_rows(folder: Path, file: DataFile, format: FileFormat) -> int:
    """The number of rows that a reported file has now; 0 if it is gone, has another size or no Parquet footer.

    A file that would have to be read to be counted is only compared by size: then the task's own count is returned.

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
