"""Rows of tasks on their way to a store that only the driver opens: few inside the report, many in a file.

A task does not know how many rows will come. It holds them while they are few; a task that ends so hands them to the
driver inside its report. As soon as they are more, it writes all of them, held and coming, to a file of its own in the
batch's folder, and reports that. Nobody reads the folder but the committing driver, and it reads the files of the
attempts whose reports have arrived: a task that dies, or a speculative twin, leaves a file that counts for nothing.

The files need not survive a crash of the machine: rows that are gone are counted, and the batch is done again.

Whoever may not read the database may not read its rows on their way: folders and files are as open as the database
is, whatever the umask.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from directkafka.errors import StoreAccessError, StoreUnavailableError
from directkafka.fault_points import fault_point
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.ledger import check_count
from directkafka.sinks.staging import buffer, report_inline, staging_name, stale_staging_pattern
from directkafka.sinks.write_modes import WriteMode

#: Writing to a disk costs more than LZ4 does.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read what lies beside a database.

    Attributes:
        mode: permissions of the database file.
        group: its group's number; what has another group gives that nothing.
    """

    mode: int = 0o600
    group: int = -1

    @classmethod
    def of(cls, database: Path) -> Access:
        """As a file is now; its owner's alone where there is none."""
        try:
            stat_result = database.stat()
        except FileNotFoundError:
            return cls()
        return cls(mode=stat.S_IMODE(stat_result.st_mode) & 0o666, group=stat_result.st_gid)

    def make_folder(self, folder: Path) -> None:
        """Make a folder if it is not there."""
        # Private until its group is known.
        with suppress(FileExistsError):
            folder.mkdir(mode=stat.S_IRWXU)
            folder.chmod(self._limited(folder.stat().st_gid, is_folder=True))

    def make_file(self, path: Path) -> None:
        """Make an empty file that is not there."""
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR)
        try:
            os.fchmod(descriptor, self._limited(os.fstat(descriptor).st_gid, is_folder=False))
        finally:
            os.close(descriptor)

    def _limited(self, group: int, *, is_folder: bool) -> int:
        mode = (self.mode if group == self.group else self.mode & ~stat.S_IRWXG) | stat.S_IRUSR | stat.S_IWUSR
        # Who may read a file may enter its folder.
        return mode | (mode & 0o444) >> 2 if is_folder else mode


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """Where the files of one sink's batches lie; driver and executors must see the same folder.

    Attributes:
        path: the folder; made when a task needs it.
    """

    path: Path

    def of(self, batch: BatchAttempt, sink: str) -> Path:
        """The folder of one try of one batch."""
        return self.path / staging_name(batch, sink)

    def remove(self, names: Iterable[str], *, is_last: bool = True) -> None:
        """Remove folders of batches, and this one if no batch is left and nothing is in it."""
        for name in names:
            shutil.rmtree(self.path / name, ignore_errors=True)
        if is_last:
            with suppress(OSError):
                self.path.rmdir()

    def remove_stale(self, batch: BatchAttempt) -> None:
        """Remove what older drivers of this pipeline have left."""
        pattern = re.compile(stale_staging_pattern(batch.pipeline))
        names = os.listdir(self.path) if self.path.is_dir() else []
        matches = ((name, pattern.match(name)) for name in names)
        self.remove(name for name, match in matches if match is not None and int(match[1]) < batch.generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTaskWriter:
    """Writes one task's rows; picklable.

    Attributes:
        store: its label, for messages.
        folder: of the batch.
        convert: what makes the store's columns of the DataFrame's.
        inline_bytes_max: up to this many bytes of Arrow data travel inside the report.
        mode: how rows meet those that are there.
        access: who may read what is staged.
    """

    store: str
    folder: Path
    convert: Convert
    inline_bytes_max: int
    mode: WriteMode
    access: Access = Access()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows.

        Raises:
            RowRejectedError: a row that the store cannot hold.
            StoreAccessError, StoreUnavailableError: the folder cannot be written.
        """
        converted = (self.convert(batch) for batch in batches if batch.num_rows)
        rows = buffer(converted, bytes_max=self.inline_bytes_max, mode=self.mode)
        if isinstance(rows.batches, tuple):
            return report_inline(rows.batches, rows.folded)
        return self._stage(uuid.uuid4().hex, rows.batches, rows.folded)

    def _stage(self, attempt: str, batches: Iterator[pa.RecordBatch], folded: int) -> TaskReport:
        path = self.folder / f"{attempt}.arrow"
        try:
            self.folder.parent.parent.mkdir(parents=True, exist_ok=True)
            self.access.make_folder(self.folder.parent)
            self.access.make_folder(self.folder)
            self.access.make_file(path.with_suffix(".unfinished"))
            staged = _write(path.with_suffix(".unfinished"), batches)
            path.with_suffix(".unfinished").rename(path)
        except PermissionError as error:
            raise StoreAccessError(
                store=self.store,
                cause=f"the staging folder cannot be written: {error}",
                remedy="Give driver and executors a folder that all of them may write to: staging = ...",
            ) from error
        except OSError as error:
            raise StoreUnavailableError(store=self.store, cause=f"staging rows in {self.folder}: {error}") from error
        fault_point("task.staged")
        return TaskReport(rows=staged + folded, attempt=attempt, staged=True, folded=folded)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The rows of a batch's reports, read by the process that has the file open.

    Attributes:
        store, sink: for messages.
        folder: of the batch.
        reports: of all its tasks.
    """

    store: str
    sink: str
    folder: Path
    reports: Sequence[TaskReport]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, counted attempt by attempt.

        Raises:
            RowCountError: an attempt has another number of rows than it reported.
            StoreAccessError: its file is not there.
        """
        for report in self.reports:
            row_count = 0
            for batch in self._of(report):
                row_count += batch.num_rows
                yield batch
            check_count(store=self.store, sink=self.sink, reported=report.rows - report.folded, stored=row_count)

    def _of(self, report: TaskReport) -> Iterator[pa.RecordBatch]:
        yield from report.inline
        if not report.staged:
            return
        path = self.folder / f"{report.attempt}.arrow"
        try:
            source = pa.memory_map(str(path))
        except FileNotFoundError as error:
            raise StoreAccessError(
                store=self.store,
                cause=f"{report.rows - report.folded} rows that a task staged in {path} are not there",
                remedy="Driver and executors must see the same folder: set staging to one that they share.",
            ) from error
        with source:
            yield from pa.ipc.open_stream(source)


def _write(path: Path, batches: Iterator[pa.RecordBatch]) -> int:
    first = next(batches)
    rows = int(first.num_rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, first.schema, options=_OPTIONS) as stream:
        stream.write_batch(first)
        for batch in batches:
            rows += batch.num_rows
            stream.write_batch(batch)
    return rows
