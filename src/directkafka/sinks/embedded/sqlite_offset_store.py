"""Offsets in an SQLite file, for :class:`~directkafka.sinks.offset_store.OffsetStore`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from directkafka.errors import DirectKafkaError
from directkafka.sinks.embedded.offset_store import FileOffsets
from directkafka.sinks.error_classes import Meaning, meant

__all__ = ["SQLiteOffsets"]

_REMEDY: Final = "Check that the file is an SQLite database, and that this user may write to it and to its folder."

#: By the part of the code that says the kind of error. https://www.sqlite.org/rescode.html
_MEANINGS: Final[dict[int, Meaning]] = {
    sqlite3.SQLITE_BUSY: "unavailable",
    sqlite3.SQLITE_LOCKED: "unavailable",
    sqlite3.SQLITE_IOERR: "unavailable",
    sqlite3.SQLITE_FULL: "unavailable",
    sqlite3.SQLITE_PERM: "access",
    sqlite3.SQLITE_READONLY: "access",
    sqlite3.SQLITE_CANTOPEN: "access",
    sqlite3.SQLITE_NOTADB: "access",
    sqlite3.SQLITE_CORRUPT: "access",
}


class SQLiteOffsets(FileOffsets):
    """An SQLite file where a stream's offsets are kept; connections are those of Python's ``sqlite3``.

    For programs that write on the driver, or whose executors are on the driver's machine.

    Args:
        path: the file; made by ``preload`` when it does not exist.
        lock_timeout_s: how long ``load`` and ``preload`` wait for another program's transaction, in seconds.

    Raises:
        OptionError: the path names no file.
    """

    name = "SQLite"

    def is_in_transaction(self, connection: sqlite3.Connection) -> bool:
        """A connection that begins transactions by itself does so at the first change."""
        begins = getattr(connection, "autocommit", -1)  # since Python 3.12; -1: as isolation_level says
        does_begin = connection.isolation_level is not None if begins == -1 else not begins
        return does_begin or connection.in_transaction

    def translate(self, error: Exception) -> DirectKafkaError | None:
        """By SQLite's code."""
        if not isinstance(error, sqlite3.Error):
            return None
        code = getattr(error, "sqlite_errorcode", None)
        meaning = _MEANINGS.get(code & 0xFF, "request") if code is not None else "request"
        is_locked = meaning == "unavailable" and "locked" in str(error)
        return meant(
            meaning,
            store=self.label,
            sink="",
            cause=self._locked() if is_locked else str(error),
            remedy=_REMEDY,
            code=str(getattr(error, "sqlite_errorname", "none")),
        )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=self._lock_timeout_s)) as connection, connection:
            yield connection

    def _rows(self, connection: sqlite3.Connection, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return _cursor(connection).execute(statement, parameters).fetchall()

    def _change(self, connection: sqlite3.Connection, statement: str, *parameters: object) -> int:
        return _cursor(connection).execute(statement, parameters).rowcount


def _cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    # The program's connection may make something else of rows than tuples.
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor
