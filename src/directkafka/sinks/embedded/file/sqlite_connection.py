"""An SQLite file opened through ADBC, which takes Arrow batches as they are; only :mod:`file_process` does this.

Python's own ``sqlite3`` binds one Python object for each cell; the ADBC driver binds from Arrow's buffers, six times
as fast here. Both write the same file. https://arrow.apache.org/adbc/current/driver/sqlite.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from directkafka.arrow_columns import column_of
from directkafka.sinks.databases import ErrorClass
from directkafka.sinks.embedded.file.connection import DatabaseSaidError, Row, RowSource, reader_of

#: Parts of SQLite's messages and what they mean: ADBC passes no result code on.
_ERROR_CLASSES: Final[tuple[tuple[str, ErrorClass], ...]] = (
    ("is locked", "unavailable"),
    ("disk I/O error", "unavailable"),
    ("disk is full", "unavailable"),
    ("out of memory", "unavailable"),
    ("unable to open", "access"),
    ("failed to open", "access"),
    ("readonly", "access"),
    ("not a database", "access"),
    ("malformed", "access"),
    ("constraint failed", "rows"),
    ("cannot store", "rows"),
    ("datatype mismatch", "rows"),
    ("integer overflow", "rows"),
    ("too big", "rows"),
    ("no such table", "schema"),
    ("no such column", "schema"),
    ("has no column", "schema"),
    ("ON CONFLICT clause does not match", "schema"),
)

#: ADBC takes a column's type from the rows of its first batch, and nulls alone for numbers: a text behind them is an
#: error. No query of ours has more rows than this.
_ROWS_OF_A_BATCH: Final = "adbc.sqlite.query.batch_rows"
_ROWS_MAX: Final = "65536"

_PARAMETER_TYPES: Final = {str: pa.string(), bytes: pa.binary(), int: pa.int64()}


class SQLiteConnection:
    """An open file; see :class:`~directkafka.sinks.embedded.file.connection.FileConnection`.

    ADBC's own DB-API is left alone: it imports pyarrow.dataset, and so pandas where that is installed, which triples
    the time until the first file is open.
    """

    def __init__(self, path: str) -> None:
        self._database = adbc_driver_sqlite.connect(path)
        try:
            self._connection = adbc_driver_manager.AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """A statement is read to its end: one that is not would keep its lock."""
        with adbc_driver_manager.AdbcStatement(self._connection) as prepared:
            prepared.set_sql_query(statement)
            prepared.set_options(**{_ROWS_OF_A_BATCH: _ROWS_MAX})
            if parameters:
                prepared.prepare()
                names = [str(index) for index in range(len(parameters))]
                prepared.bind(pa.record_batch([_column(value) for value in parameters], names=names))
            stream, _ = prepared.execute_query()
            with pa.RecordBatchReader.from_stream(stream) as reader:
                return list(zip(*(column.to_pylist() for column in reader.read_all().columns), strict=True))

    def insert(self, statement: str) -> int:
        """``changes()`` leaves out what triggers did, and what a trigger or a clause of the table left out."""
        self.rows(statement)
        return int(self.rows("SELECT changes()")[0][0])

    def fill(self, table: Sequence[str], source: RowSource, *, is_temporary: bool = False) -> int:
        """ADBC names the source's columns in its INSERT, and runs that for each row: ``changes()`` knows the last."""
        before = self._total_changes()
        options = {
            adbc_driver_manager.INGEST_OPTION_TARGET_TABLE: table[-1],
            adbc_driver_manager.INGEST_OPTION_MODE: adbc_driver_manager.INGEST_OPTION_MODE_APPEND,
        }
        if is_temporary:
            options[adbc_driver_manager.StatementOptions.INGEST_TEMPORARY.value] = "true"
        with reader_of(source) as reader, adbc_driver_manager.AdbcStatement(self._connection) as prepared:
            prepared.set_options(**options)
            prepared.bind_stream(reader)
            prepared.execute_update()
        return self._total_changes() - before

    def begin(self) -> None:
        """A deferred transaction: its first statement writes, so nothing was read that could be out of date."""
        self._connection.set_autocommit(False)

    def commit(self) -> None:
        """ADBC opens the next transaction at once; leaving that mode ends it, and it holds nothing."""
        self._connection.commit()
        self._connection.set_autocommit(True)

    def rollback(self) -> None:
        """As :meth:`commit`."""
        self._connection.rollback()
        self._connection.set_autocommit(True)

    def close(self) -> None:
        """SQLite undoes what is open."""
        try:
            self._connection.close()
        finally:
            self._database.close()

    def _total_changes(self) -> int:
        return int(self.rows("SELECT total_changes()")[0][0])


def _column(value: Any) -> pa.Array:
    if value is None:
        return pa.nulls(1)
    arrow_type = _PARAMETER_TYPES.get(type(value))
    return column_of([value], arrow_type) if arrow_type is not None else pa.array([value])


def opened(path: str, *, lock_timeout_s: float, durable: bool) -> SQLiteConnection:
    """Open the file; nothing is locked before the first statement.

    Args:
        path: of the file; made if it is not there.
        lock_timeout_s: how long a statement waits for another process's lock.
        durable: commits survive a crash of the machine.
    """
    connection = SQLiteConnection(path)
    try:
        connection.rows(f"PRAGMA busy_timeout = {round(lock_timeout_s * 1000)}")
        if durable:
            connection.rows("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def as_database_error(error: Exception) -> DatabaseSaidError | None:
    """By the words of the message; None for what is not the database's."""
    if not isinstance(error, adbc_driver_manager.Error):
        return None
    text = " ".join(str(error).split())
    error_class: ErrorClass = next((known for part, known in _ERROR_CLASSES if part in text), "request")
    is_locked = error_class == "unavailable" and "is locked" in text
    return DatabaseSaidError(error_class, text, str(error.vendor_code or "none"), is_locked)
