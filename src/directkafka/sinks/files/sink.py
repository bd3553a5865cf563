"""The Parquet sink: a DataFrame's rows as files of a directory, which count from the entry of their batch on.

Rights that the executors' user needs: to write into the table's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args

import pyarrow as pa

from directkafka.errors import OptionError, SchemaMismatchError
from directkafka.sinks.api import BatchName, TaskReport
from directkafka.sinks.clonable import Clonable
from directkafka.sinks.files.formats import FileFormat, JsonFormat, ParquetFormat, TextFormat
from directkafka.sinks.files.log_state import TableState
from directkafka.sinks.files.posix import require_writable, sync_directory, translated
from directkafka.sinks.files.reader import ROOT, committed_in
from directkafka.sinks.files.schema import Format, SchemaPolicy, grown_columns, storage_problems
from directkafka.sinks.files.store import FilesStore, FilesTransaction
from directkafka.sinks.files.task_writer import BatchTries, DataFileWriter, reported_files, sync_files, whole_rows
from directkafka.sinks.recount import TableCount, doubled_records

__all__ = ["ParquetSink"]

Compression = Literal["zstd", "snappy", "lz4", "gzip", "none"]

_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_COMPRESSIONS: Final[dict[Format, tuple[Compression, ...]]] = {
    "parquet": get_args(Compression),
    "json": ("none", "gzip"),
    "text": ("none", "gzip"),
}


class ParquetSink(Clonable):
    """Rows into the files of one directory, exactly once.

    Only files that the directory's log lists count. :func:`directkafka.read_parquet` reads those, and
    :func:`~directkafka.sinks.files.reader.committed_files` lists them. Whoever lists the directory instead sees rows of
    batches that are under way or were given up, too.

    Args:
        path: a directory of a local file system, or of one that driver and executors share under one path. Made when
            it does not exist.
        mode: ``append``; files are never changed, so there is no other.
        table: a sub-folder, so that several tables of one directory change together; None: the directory itself.
        format: ``parquet``; ``json`` (an object a line); ``text`` (the DataFrame's only column, a row a line).
        compression: ``zstd``, ``snappy``, ``lz4``, ``gzip`` or ``none``; for lines ``gzip`` or ``none``. None: zstd
            for Parquet, none for lines.
        row_group_bytes: of Parquet; a row group's rows take about so many bytes of a task's memory.
        schema_policy: what happens to columns the table lacks: ``fail`` or ``add-columns``.
        durable: sync files and log before a step counts. Without it, a power cut may take committed batches.

    Raises:
        OptionError: path, mode, format or compression make no sense.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "append",
        *,
        table: str | None = None,
        format: Format = "parquet",
        compression: Compression | None = None,
        row_group_bytes: int = 64 * 1024 * 1024,
        schema_policy: SchemaPolicy = "fail",
        durable: bool = True,
    ) -> None:
        if row_group_bytes < 1:
            raise OptionError(option="row_group_bytes", reason=f"expected at least 1, found {row_group_bytes}")
        _check_options(mode, table, format, compression, schema_policy)
        self._store = FilesStore(path, durable=durable)
        self._table = ROOT if table is None else table
        self._format = format
        self._file_format = _file_format(format, compression, row_group_bytes, self._store.label, self._table)
        self._schema_policy = schema_policy
        self._tries = BatchTries()

    def __repr__(self) -> str:
        return f"ParquetSink({str(self._store.folder)!r}, table={self._table!r}, format={self._format!r})"

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
            self._folder.mkdir(parents=True, exist_ok=True)

    def task_writer(self, batch: BatchName, schema: pa.Schema, *, task_count: int = 1) -> DataFileWriter:
        """What each task of this batch runs: it writes one file."""
        self._tries.begin(batch)
        return DataFileWriter(
            folder=self._folder,
            batch=batch,
            format=self._file_format,
            durable=self._store.durable,
            store=self._store.label,
        )

    def apply(self, transaction: FilesTransaction, batch: BatchName, reports: Sequence[TaskReport]) -> int:
        """Look whether every reported file is there in full, and let the batch's entry list them.

        Returns:
            The rows that the files hold, as their footers or line ends say.
        """
        files = reported_files(reports)
        rows = sum(whole_rows(self._folder, file, self._file_format) for file in files)
        if files and transaction.is_durable:
            # Only the first sink's store is told that several stores force durable commits.
            if not self._store.durable:
                sync_files(self._folder, files)
            sync_directory(self._folder)
        transaction.add(self._table, files)
        transaction.give_up(self._tries.besides(batch))
        return rows

    def recount(self) -> TableCount:
        """What the committed files have now: rows, and rows that name a record which another row names too.

        Raises:
            SchemaMismatchError: there is no such table.
            StoreUnavailableError: a file cannot be read.
        """
        found = committed_in(self._store, self._table)
        with translated(self._store.label):
            rows = sum(self._file_format.count(path) for path in found.paths)
            doubled = 0 if found.format == "text" else doubled_records(found.dataset())
        return TableCount(rows=rows, doubled=doubled)

    @property
    def _folder(self) -> Path:
        return self._store.folder / self._table

    def _grown(self, schema: pa.Schema, before: TableState | None) -> TableState:
        grown, problems = grown_columns(schema, before, format=self._format, policy=self._schema_policy)
        if problems := storage_problems(schema, self._format) + problems:
            raise SchemaMismatchError(store=self._store.label, sink=self._table, detail="; ".join(problems))
        return grown


def _file_format(
    format: Format, compression: Compression | None, row_group_bytes: int, store: str, sink: str
) -> FileFormat:
    if format == "parquet":
        return ParquetFormat(compression=compression or "zstd", row_group_bytes=row_group_bytes)
    of_lines: Literal["gzip", "none"] = "gzip" if compression == "gzip" else "none"
    if format == "json":
        return JsonFormat(compression=of_lines)
    return TextFormat(compression=of_lines, store=store, sink=sink)


def _check_options(
    mode: str,
    table: str | None,
    format: Format,
    compression: Compression | None,
    schema_policy: SchemaPolicy,
) -> None:
    if mode != "append":
        raise OptionError(
            option="mode",
            reason=f"expected append, found {mode!r}: committed files are never changed, so rows cannot meet the rows "
            "that are there; use a Delta table or a database for that",
        )
    if table is not None and _TABLE_NAME.fullmatch(table) is None:
        raise OptionError(
            option="table", reason=f"{table!r} is no name of a sub-folder: letters, digits, '.', '_' and '-'"
        )
    if format not in get_args(Format):
        raise OptionError(option="format", reason=f"expected one of {', '.join(get_args(Format))}, found {format!r}")
    if compression is not None and compression not in _COMPRESSIONS[format]:
        expected = ", ".join(_COMPRESSIONS[format])
        raise OptionError(
            option="compression", reason=f"expected one of {expected} for {format}, found {compression!r}"
        )
    if schema_policy not in get_args(SchemaPolicy):
        raise OptionError(
            option="schema_policy",
            reason=f"expected one of {', '.join(get_args(SchemaPolicy))}, found {schema_policy!r}",
        )
