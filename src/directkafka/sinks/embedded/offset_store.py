"""Offsets in a file of SQLite or DuckDB, for :class:`~directkafka.sinks.offset_store.OffsetStore`."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from directkafka.errors import DirectKafkaError
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.texts import check_installed
from directkafka.sinks.databases import ErrorClass, error_for, load_blocks
from directkafka.sinks.embedded.file.client import describe_holders
from directkafka.sinks.embedded.file.connection import resolved

if TYPE_CHECKING:
    import duckdb

_SQL: Final = load_blocks("directkafka.sinks.embedded", "offset_store.sql")


class FileOffsets(ABC):
    """A file; see :class:`~directkafka.sinks.offset_store.OffsetDatabase`.

    It is opened in the program's own process and by the library that the program uses itself, which then knows of both
    connections: another copy of it would drop the program's lock when it closes the file.
    """

    #: The database's name.
    name: ClassVar[str]

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        self._path = resolved(path, kind=self.name)
        self._lock_timeout_s = lock_timeout_s

    @property
    def label(self) -> str:
        """The file."""
        return f"{self.name.lower()} {self._path}"

    @contextmanager
    def session(self, *, make: bool) -> Iterator[Any]:
        """A connection, if there is a file or one may be made."""
        if not make and not self._path.exists():
            yield None
            return
        with self._opened() as connection:
            if make:
                self._change(connection, _SQL["create"])
            is_there = make or self._rows(connection, _SQL["exists"])[0][0]
            yield connection if is_there else None

    def stored(self, connection: Any, stream: str) -> Iterable[tuple[str, int, int]]:
        """All rows of the stream."""
        return self._rows(connection, _SQL["load"], stream)

    def start(self, connection: Any, stream: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        """Row by row: a stream has few partitions."""
        for partition_offset in offsets:
            self._change(connection, _SQL["preload"], stream, *partition_offset)

    def advance(self, connection: Any, stream: str, ranges: Sequence[OffsetRange]) -> set[TopicPartition]:
        """Row by row; the first one keeps other programs from writing until the transaction ends."""
        return {
            offset_range.topic_partition
            for offset_range in ranges
            if self._change(
                connection,
                _SQL["advance"],
                offset_range.until_offset,
                stream,
                offset_range.topic,
                offset_range.partition,
                offset_range.from_offset,
            )
        }

    @abstractmethod
    def _opened(self) -> Any:
        """A context with a connection; its transaction is committed at the end."""

    @abstractmethod
    def _rows(self, connection: Any, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a query returns."""

    @abstractmethod
    def _change(self, connection: Any, statement: str, *parameters: object) -> int:
        """How many rows a statement has changed."""

    def _locked(self) -> str:
        holders = describe_holders(self._path) or "another connection"
        return f"the file has been kept for {self._lock_timeout_s:g} s by {holders}"


_DUCKDB_REMEDY: Final = (
    "Check that the file is a database of a DuckDB that this one reads, and that you may write to it."
)


class DuckDBOffsets(FileOffsets):
    """A DuckDB file where a stream's offsets are kept; connections are duckdb's.

    For programs that write on the driver: DuckDB lets one process at a time write to a file. The statements run on the
    program's own connection, since a cursor of it has another transaction: fetch what you still want to fetch before.

    Args:
        path: the file; made by ``preload`` when it does not exist.
        lock_timeout_s: how long to wait for another process that has the file open, in seconds.

    Raises:
        OptionError: the path names no file, or the package duckdb is missing.
    """

    name = "DuckDB"

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        check_installed("duckdb", extra="duckdb")
        super().__init__(path, lock_timeout_s=lock_timeout_s)

    def is_in_transaction(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """DuckDB does not say; but without a transaction each statement is one, with a number of its own."""
        first, second = (self._rows(connection, "SELECT txid_current()") for _ in range(2))
        return first == second

    def translate(self, error: Exception) -> DirectKafkaError | None:
        """By the error's class, and for a file's own errors by its words."""
        from directkafka.sinks.embedded.file.duckdb_connection import as_database_error

        told = as_database_error(error)
        if told is None:
            return None
        cause = self._locked() if told.is_locked else told.message
        remedy = (
            "Check that the file is a DuckDB database of a version that this one reads, and that you may write to it."
        )
        return error_for(told.error_class, store=self.label, sink="", cause=cause, remedy=remedy, code=told.code)

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        from directkafka.sinks.embedded.file.duckdb_connection import connect

        with connect(str(self._path), lock_timeout_s=self._lock_timeout_s) as connection:
            connection.begin()
            yield connection
            connection.commit()

    def _rows(self, connection: duckdb.DuckDBPyConnection, statement: str, *parameters: object) -> list[Any]:
        return connection.execute(statement, list(parameters)).fetchall()

    def _change(self, connection: duckdb.DuckDBPyConnection, statement: str, *parameters: object) -> int:
        rows = connection.execute(statement, list(parameters)).fetchall()
        return int(rows[0][0]) if rows else 0


_SQLITE_REMEDY: Final = (
    "Check that the file is an SQLite database, and that this user may write to it and to its folder."
)

#: By the part of the code that says the kind of error. https://www.sqlite.org/rescode.html
_ERROR_CLASSES: Final[dict[int, ErrorClass]] = {
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
        error_class = _ERROR_CLASSES.get(code & 0xFF, "request") if code is not None else "request"
        is_locked = error_class == "unavailable" and "locked" in str(error)
        return error_for(
            error_class,
            store=self.label,
            sink="",
            cause=self._locked() if is_locked else str(error),
            remedy=_SQLITE_REMEDY,
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
