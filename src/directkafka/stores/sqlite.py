"""SQLite as a store: its file, through ADBC, which takes Arrow batches as they are.

Python's own ``sqlite3`` binds one Python object for each cell; the ADBC driver binds from Arrow's buffers, six times
as fast here. Both write the same file. https://arrow.apache.org/adbc/current/driver/sqlite.html
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import adbc_driver_manager
import adbc_driver_sqlite.dbapi
import pyarrow as pa

from directkafka.errors import DirectKafkaError
from directkafka.stores.embedded import EmbeddedStore
from directkafka.stores.embedded_file import Row, resolved
from directkafka.stores.file_locks import describe_holders
from directkafka.stores.meanings import Meaning, meant

__all__ = ["SQLiteFile", "SQLiteStore"]

_REMEDY: Final = "Check that the file is an SQLite database, and that this user may write to it and to its folder."

#: Parts of SQLite's messages and what they mean: ADBC passes no result code on.
_MEANINGS: Final[tuple[tuple[str, Meaning], ...]] = (
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


class SQLiteStore(EmbeddedStore):
    """An SQLite file as the place where a pipeline commits; see :mod:`directkafka.stores.embedded`.

    Args:
        path: the file; made when it does not exist.
        lock_timeout_s: bound on waiting for another process that keeps the file locked, in seconds.

    Raises:
        OptionError: the path names no file.
    """

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        super().__init__(SQLiteFile(path, lock_timeout_s=lock_timeout_s), lock_timeout_s=lock_timeout_s)


class SQLiteFile:
    """A file; see :class:`~directkafka.stores.embedded_file.DatabaseFile`."""

    kind = "sqlite"

    def __init__(self, path: str | Path, *, lock_timeout_s: float) -> None:
        self.path = resolved(path, kind="SQLite")
        self.label = f"sqlite {self.path}"
        self._lock_timeout_ms = round(lock_timeout_s * 1000)

    def connect(self, *, durable: bool = False) -> SQLiteConnection:
        """Open the file; nothing is locked before the first statement."""
        try:
            connection = adbc_driver_sqlite.dbapi.connect(str(self.path), autocommit=True)
            opened = SQLiteConnection(connection)
            opened.rows(f"PRAGMA busy_timeout = {self._lock_timeout_ms}")
            if durable:
                opened.rows("PRAGMA synchronous = FULL")
        except adbc_driver_manager.Error as error:
            raise self.translate(error) or error from None
        return opened

    def translate(self, error: Exception, *, sink: str = "") -> DirectKafkaError | None:
        """By the words of the message."""
        if not isinstance(error, adbc_driver_manager.Error):
            return None
        said = " ".join(str(error).split())
        meaning: Meaning = next((known for part, known in _MEANINGS if part in said), "request")
        if meaning == "unavailable" and "is locked" in said:
            holders = describe_holders(self.path) or "another process"
            said = f"the file has been locked for {self._lock_timeout_ms / 1000:g} s by {holders}"
        code = str(error.vendor_code or "none")
        return meant(meaning, store=self.label, sink=sink, cause=said, remedy=_REMEDY, code=code)


class SQLiteConnection:
    """An open file; see :class:`~directkafka.stores.embedded_file.FileConnection`."""

    def __init__(self, connection: adbc_driver_sqlite.dbapi.Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """A statement is read to its end: one that is not would keep its lock."""
        self._cursor.execute(statement, tuple(parameters) or None)
        return [tuple(row) for row in self._cursor.fetchall()]

    def insert(self, statement: str) -> int:
        """``changes()`` leaves out what triggers did, and what a trigger or a clause of the table left out."""
        self.rows(statement)
        return int(self.rows("SELECT changes()")[0][0])

    def fill(self, table: Sequence[str], reader: pa.RecordBatchReader, *, is_temporary: bool = False) -> int:
        """ADBC names the reader's columns in its INSERT, and runs that for each row: ``changes()`` knows the last."""
        before = self._total_changes()
        self._cursor.adbc_ingest(table[-1], reader, mode="append", temporary=is_temporary)
        return self._total_changes() - before

    def begin(self) -> None:
        """A deferred transaction: its first statement writes, so nothing was read that could be out of date."""
        self._connection.adbc_connection.set_autocommit(False)

    def commit(self) -> None:
        """ADBC opens the next transaction at once; leaving that mode ends it, and it holds nothing."""
        self._connection.adbc_connection.commit()
        self._connection.adbc_connection.set_autocommit(True)

    def rollback(self) -> None:
        """As :meth:`commit`."""
        self._connection.adbc_connection.rollback()
        self._connection.adbc_connection.set_autocommit(True)

    def close(self) -> None:
        """SQLite undoes what is open."""
        self._cursor.close()
        self._connection.close()

    def _total_changes(self) -> int:
        return int(self.rows("SELECT total_changes()")[0][0])
