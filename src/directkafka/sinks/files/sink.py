"""The files sink: a DataFrame's rows as files of a directory, which count from the entry of their batch on.

Rights that the executors' user needs: to write into the table's folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args

import pyarrow as pa

from directkafka.errors import OptionError, SchemaMismatchError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.capabilities import TableCount
from directkafka.sinks.files.config import FilesConfig
from directkafka.sinks.files.formats import FileFormat, JsonFormat, ParquetCompression, ParquetFormat, TextFormat
from directkafka.sinks.files.log_state import TableState
from directkafka.sinks.files.posix import make_folder, require_writable, sync_directory, translated
from directkafka.sinks.files.reader import ROOT, committed_in
from directkafka.sinks.files.schema import Format, grown_columns, storage_problems
from directkafka.sinks.files.store import FilesStore, FilesTransaction
from directkafka.sinks.files.task_writer import AttemptTracker, DataFileWriter, reported_files, sync_files, whole_rows
from directkafka.sinks.ledger import doubled_records
from directkafka.sinks.wrapped_sink import Clonable

_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_COMPRESSIONS: Final[dict[Format, tuple[ParquetCompression, ...]]] = {
    "parquet": get_args(ParquetCompression),
    "json": ("none", "gzip"),
    "text": ("none", "gzip"),
}


class FilesSink(FilesConfig, Clonable):
    """Rows into the files of one directory, exactly once.

    Only files that the directory's log lists count. :func:`directkafka.read_parquet` reads those, and
    :func:`~directkafka.sinks.files.reader.committed_files` lists them. Whoever lists the directory instead sees rows of
    batches that are under way or were given up, too.

    Raises:
        OptionError: path, mode, format or compression make no sense.
    """

    @classmethod
    def store_at(cls, url: str) -> FilesStore:
        """The store of ``files:PATH``."""
        return FilesStore(url.partition(":")[2])

    def __post_init__(self) -> None:
        _check_options(self.table, self.format, self.compression)
        self._store = FilesStore(self.path, durable=self.durable)
        self._table = ROOT if self.table is None else self.table
        self._file_format = _file_format(
            self.format, self.compression, self.row_group_bytes, self._store.label, self._table
        )
        self._tries = AttemptTracker()

    def __repr__(self) -> str:
        return f"FilesSink({str(self._store.folder)!r}, table={self._table!r}, format={self.format!r})"

    @property
    def name(self) -> str:
        """The table's folder, relative to the directory; ``.`` is the directory itself."""
        return self._table

    @property
    def store(self) -> FilesStore:
        """The directory's ledger."""
        return self._store

    def check(self, schema: pa.Schema) -> None:
        """Find what :meth:`prepare` would refuse, making and changing nothing.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as :meth:`prepare`.
        """
        self._grown(schema, self._store.table(self._table))
        require_writable(self._folder, store=self._store.label)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the folder, and enter the columns into the log where the table lacks them.

        Raises:
            SchemaMismatchError: all that does not fit, in one message.
            StoreAccessError, StoreUnavailableError: the directory cannot be made or written.
        """
        is_set = False
        while not is_set:
            before = self._store.table(self._table)
            wanted = self._grown(schema, before)
            is_set = wanted == before or self._store.set_table(self._table, wanted, before=before)
        with translated(self._store.label):
            make_folder(self._folder, root=self._store.folder, durable=self._store.durable)

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> DataFileWriter:
        """What each task of this batch runs: it writes one file."""
        self._tries.begin(batch)
        return DataFileWriter(
            folder=self._folder,
            batch=batch,
            format=self._file_format,
            durable=self._store.durable,
            store=self._store.label,
        )

    def apply(self, transaction: FilesTransaction, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Look whether every reported file is there in full, and let the batch's entry list them.

        Returns:
            The rows that the files hold, as their footers or line ends say.
        """
        files = reported_files(reports)
        rows = sum(whole_rows(self._folder, file, self._file_format) for file in files)
        if files and transaction.is_durable:
            # Only the first sink's store is told that several stores force durable commits.
            if not self._store.durable:
                make_folder(self._folder, root=self._store.folder, durable=True)
                sync_files(self._folder, files)
            sync_directory(self._folder)
        transaction.add(self._table, files)
        transaction.discard_attempts(self._tries.besides(batch))
        return rows

    def recount(self) -> TableCount:
        """What the committed files have now: rows, and rows that name a record which another row names too.

        Raises:
            SchemaMismatchError: there is no such table.
            StoreUnavailableError: a file cannot be read.
        """
        files = committed_in(self._store, self._table)
        with translated(self._store.label):
            rows = sum(self._file_format.count(path) for path in files.paths)
            doubled = 0 if files.format == "text" else doubled_records(files.dataset())
        return TableCount(rows=rows, doubled=doubled)

    @property
    def _folder(self) -> Path:
        return self._store.folder / self._table

    def _grown(self, schema: pa.Schema, before: TableState | None) -> TableState:
        grown, problems = grown_columns(schema, before, format=self.format, policy=self.schema_policy)
        if problems := storage_problems(schema, self.format) + problems:
            raise SchemaMismatchError(store=self._store.label, sink=self._table, detail="; ".join(problems))
        return grown


#: Its name when it wrote nothing but Parquet.
ParquetSink = FilesSink


def _file_format(
    format: Format, compression: ParquetCompression | None, row_group_bytes: int, store: str, sink: str
) -> FileFormat:
    if format == "parquet":
        return ParquetFormat(compression=compression or "zstd", row_group_bytes=row_group_bytes)
    of_lines: Literal["gzip", "none"] = "gzip" if compression == "gzip" else "none"
    if format == "json":
        return JsonFormat(compression=of_lines, store=store, sink=sink)
    return TextFormat(compression=of_lines, store=store, sink=sink)


def _check_options(table: str | None, format: Format, compression: ParquetCompression | None) -> None:
    if table is not None and _TABLE_NAME.fullmatch(table) is None:
        raise OptionError(
            option="table", reason=f"{table!r} is no name of a sub-folder: letters, digits, '.', '_' and '-'"
        )
    if compression is not None and compression not in _COMPRESSIONS[format]:
        expected = ", ".join(_COMPRESSIONS[format])
        raise OptionError(
            option="compression", reason=f"expected one of {expected} for {format}, found {compression!r}"
        )
