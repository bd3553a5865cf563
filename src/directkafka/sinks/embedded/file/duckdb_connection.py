"""DuckDB files, opened: those of a store only by the process for files.

DuckDB keeps other processes out as long as the file is open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import duckdb
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from directkafka.sinks.databases import ErrorClass
from directkafka.sinks.embedded.file.connection import DatabaseSaidError, Row, RowSource, quoted, reader_of

#: What DuckDB says of a file that is open in this process already, and of one that is locked in whatever process.
_OPEN_HERE: Final = "Unique file handle conflict"
_LOCKED: Final = re.compile(rf"[Cc]onflicting lock|Could not set lock|{_OPEN_HERE}")
_FULL: Final = re.compile(r"[Nn]o space left|[Dd]isk (is )?full|[Oo]ut of memory")
_READER: Final = "directkafka_coming"

#: Rows of a row group, DuckDB's unit of storage. A larger INSERT writes whole groups, and a small one for the rest.
_ROW_GROUP_ROWS: Final = 122_880
#: DuckDB's tasks for merges in the checkpoint of a commit of few rows: enough for two merges.
_MERGE_TASKS_MAX: Final = 8

#: Names that DuckDB has for databases of its own.
_RESERVED: Final = frozenset({"main", "memory", "system", "temp"})


class DuckDBConnection:
    """An open file; see :class:`~directkafka.sinks.embedded.file.connection.FileConnection`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        #: Of this transaction: rows of the smallest ``fill`` of a table that stays; whether rows may go or be replaced.
        self._filled_rows_min: int | None = None
        self._may_replace = False

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """What DuckDB returns."""
        found: list[Row] = self._connection.execute(statement, list(parameters) or None).fetchall()
        self._may_replace |= statement.lstrip()[:6].upper() == "DELETE"
        return found

    def insert(self, statement: str) -> int:
        """DuckDB returns the count. The INSERT may replace rows (``ON CONFLICT``)."""
        self._may_replace = True
        return self._count(statement)

    def fill(self, table: Sequence[str], source: RowSource, *, is_temporary: bool = False) -> int:
        """DuckDB pulls the source's batches while it inserts."""
        names = ", ".join(quoted(column) for column in source.schema.names)
        place = quoted("temp", *table) if is_temporary else quoted(*table)
        with reader_of(source) as reader:
            self._connection.register(_READER, reader)
            try:
                count = self._count(f"INSERT INTO {place} ({names}) SELECT {names} FROM {_READER}")
            except duckdb.Error:
                # In a transaction that has failed nothing works, and that must not hide why it has.
                with suppress(duckdb.Error):
                    self._connection.unregister(_READER)
                raise
            self._connection.unregister(_READER)
        if not is_temporary:
            least = self._filled_rows_min
            self._filled_rows_min = count if least is None else min(least, count)
        return count

    def begin(self) -> None:
        """A transaction."""
        self._filled_rows_min, self._may_replace = None, False
        self._connection.execute("BEGIN")

    def commit(self) -> None:
        """Its end; DuckDB writes its log through before it returns."""
        self._bound_merges()
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo it."""
        self._connection.execute("ROLLBACK")

    def _count(self, statement: str) -> int:
        return int(self.rows(statement)[0][0])

    def _bound_merges(self) -> None:
        """Limit the merges at this commit's checkpoint, if its transaction only appended rows to tables.

        A large INSERT leaves a small row group behind its whole ones. DuckDB would merge it with whole ones at each
        checkpoint, which takes as long as the INSERT. So a commit of large INSERTs alone merges nothing. Other commits
        must merge, or each would leave a small group; they merge a few older groups too. Without a limit they would
        merge all, and hold the file for many seconds. (``RowGroupCollection::ScheduleVacuumTasks``.)
        """
        if self._filled_rows_min is not None and not self._may_replace:
            tasks_max = 0 if self._filled_rows_min >= _ROW_GROUP_ROWS else _MERGE_TASKS_MAX
            self._connection.execute(f"SET max_vacuum_tasks = {tasks_max}")

    def close(self) -> None:
        """Other processes may open the file from now on."""
        self._connection.close()


def opened(path: str, *, lock_timeout_s: float, durable: bool) -> DuckDBConnection:
    """Open the file; DuckDB locks it until it is closed, and writes through at every commit.

    Args:
        path: of the file; made if it is not there.
        lock_timeout_s: how long to try again while another process has it open.
        durable: it always is.
    """
    return DuckDBConnection(connect(path, lock_timeout_s=lock_timeout_s))


def connect(path: str, *, lock_timeout_s: float, may_share: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection of DuckDB's own; DuckDB itself does not wait where somebody else has the file open.

    Args:
        path: of the file; made if it is not there.
        lock_timeout_s: how long to try again.
        may_share: whether a file that this process has open already is used as it is, beside those who have it open.
    """
    for attempt in Retrying(
        retry=retry_if_exception(_is_locked),
        wait=wait_random_exponential(multiplier=0.02, max=0.2),
        stop=stop_after_delay(lock_timeout_s),
        reraise=True,
    ):
        with attempt:
            return _shared(path) if may_share else _attached(path)
    raise AssertionError("tenacity returns or raises")


def _shared(path: str) -> duckdb.DuckDBPyConnection:
    """What :func:`_attached` gives, or another connection to what this process has open: that has been read."""
    try:
        return _attached(path)
    except duckdb.Error as error:
        if _OPEN_HERE not in str(error):
            raise
        return duckdb.connect(path)


def _attached(path: str) -> duckdb.DuckDBPyConnection:
    """The file as the one database of an instance, and nothing read of it before its lock is held.

    ``duckdb.connect(path)`` looks into the file to see of which kind it is, and lets it go again. DuckDB 2.0 keeps the
    header that it saw there. Sequence of events: it looks; a process that has the file open commits, checkpoints and
    closes it; now it gets the lock, goes on from the header of before, and its own checkpoint writes over that commit.
    Where the kind is told, it does not look. (``DatabaseManager::GetDatabaseType``, ``DatabaseHandle::OpenFile``.)
    """
    stem = Path(path).stem
    name = quoted(f"{stem}_db" if stem.lower() in _RESERVED else stem)
    connection = duckdb.connect()
    try:
        connection.execute("ATTACH '{}' AS {} (TYPE duckdb)".format(path.replace("'", "''"), name))
        connection.execute(f"USE {name}")
        # Or a table that is called memory.flights would be one that nobody keeps.
        connection.execute("DETACH memory")
    except BaseException:
        connection.close()
        raise
    return connection


def said(error: Exception) -> DatabaseSaidError | None:
    """By the class of the error, and for the file's own by the words of the message; None for what is not DuckDB's."""
    if not isinstance(error, duckdb.Error):
        return None
    text = " ".join(str(error).split())
    return DatabaseSaidError(_error_class(error), text, type(error).__name__, _is_locked(error))


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, duckdb.Error) and _LOCKED.search(str(error)) is not None


def _error_class(error: duckdb.Error) -> ErrorClass:
    """By the error's class; a file's own errors have one class, and differ by their words."""
    if _is_locked(error) or isinstance(error, duckdb.TransactionException | duckdb.OutOfMemoryException):
        return "unavailable"
    match error:
        case duckdb.IOException():
            return "unavailable" if _FULL.search(str(error)) else "access"
        case duckdb.PermissionException():
            return "access"
        case duckdb.ConstraintException() | duckdb.DataError():
            return "rows"
        case duckdb.CatalogException() | duckdb.BinderException():
            return "schema"
    return "request"
