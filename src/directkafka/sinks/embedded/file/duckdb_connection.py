"""DuckDB files, opened: those of a store only by the process for files.

DuckDB keeps other processes out as long as the file is open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from directkafka.sinks.databases import ErrorClass
from directkafka.sinks.embedded.file.connection import DatabaseSaidError, Row, RowSource, quoted, reader_of

#: DuckDB's words where this process has the file open already; ``_LOCKED`` matches those and another process's lock.
_OPEN_HERE: Final = "Unique file handle conflict"
_LOCKED: Final = re.compile(rf"[Cc]onflicting lock|Could not set lock|{_OPEN_HERE}")
_FULL: Final = re.compile(r"[Nn]o space left|[Dd]isk (is )?full|[Oo]ut of memory")
_READER: Final = "directkafka_coming"

#: Rows of a row group, DuckDB's unit of storage. A larger INSERT writes whole groups, and a small one for the rest.
_ROW_GROUP_ROWS: Final = 122_880
#: ``max_vacuum_tasks`` for a commit of few rows: two merges at its checkpoint.
_MERGE_TASKS_MAX: Final = 8

#: Name of the empty database in memory that an instance has beside its file, or while it has none.
_NO_FILE: Final = "directkafka_no_file"
#: Names that are taken in an instance: a file with such a stem is attached as ``STEM_db``.
_RESERVED: Final = frozenset({"main", "memory", "system", "temp", _NO_FILE})

#: Instances of DuckDB that have no file now. To make one takes 25 ms of a core, which is longer than a small commit; to
#: give it another file takes less than one. Each has threads of its own, so only a few are kept.
_idle: Final[list[duckdb.DuckDBPyConnection]] = []
_IDLE_MAX: Final = 2

Opened = TypeVar("Opened")


class DuckDBConnection:
    """An open file; see :class:`~directkafka.sinks.embedded.file.connection.FileConnection`.

    Args:
        instance: of DuckDB; this connection's alone until it is closed.
        database: the file's name in the instance.
    """

    def __init__(self, instance: duckdb.DuckDBPyConnection, database: str) -> None:
        self._instance = instance
        self._database = database
        self._connection = instance.cursor()
        self._connection.execute(f"USE {database}")
        self._is_open = True
        #: Whether the instance is closed with the file. After a failure its state is unknown. After a large INSERT it
        #: keeps 80 MB, and perhaps a folder of spilled rows; a new instance costs less.
        self._discards_instance = False
        #: Of this transaction: rows of the smallest ``fill`` of a table that stays; whether rows may go or be replaced.
        self._filled_rows_min: int | None = None
        self._may_replace = False

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """What DuckDB returns."""
        rows = self._execute(statement, list(parameters) or None)
        self._may_replace |= statement.lstrip()[:6].upper() == "DELETE"
        return rows

    def insert(self, statement: str) -> int:
        """DuckDB returns the count. The INSERT may replace rows (``ON CONFLICT``)."""
        self._may_replace = True
        return self._count(statement)

    def fill(self, table: Sequence[str], source: RowSource, *, is_temporary: bool = False) -> int:
        """DuckDB pulls the source's batches while it inserts."""
        names = ", ".join(quoted(column) for column in source.schema.names)
        target = quoted("temp", *table) if is_temporary else quoted(*table)
        with reader_of(source) as reader:
            self._connection.register(_READER, reader)
            try:
                count = self._count(f"INSERT INTO {target} ({names}) SELECT {names} FROM {_READER}")
            except duckdb.Error:
                # In a transaction that has failed nothing works, and that must not hide why it has.
                with suppress(duckdb.Error):
                    self._connection.unregister(_READER)
                raise
            self._connection.unregister(_READER)
        if not is_temporary:
            least = self._filled_rows_min
            self._filled_rows_min = count if least is None else min(least, count)
        self._discards_instance |= count >= _ROW_GROUP_ROWS
        return count

    def begin(self) -> None:
        """A transaction."""
        self._filled_rows_min, self._may_replace = None, False
        self._execute("BEGIN")

    def commit(self) -> None:
        """Its end; DuckDB writes its log through before it returns."""
        self._bound_merges()
        self._execute("COMMIT")

    def rollback(self) -> None:
        """Undo it."""
        self._execute("ROLLBACK")

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
            self._execute(f"SET max_vacuum_tasks = {tasks_max}")

    def _execute(self, statement: str, parameters: list[Any] | None = None) -> list[Row]:
        try:
            rows: list[Row] = self._connection.execute(statement, parameters).fetchall()
            return rows
        except BaseException:
            self._discards_instance = True
            raise

    def close(self) -> None:
        """Other processes may open the file from now on. What was begun is undone."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._connection.close()
            # DuckDB releases the file when the last reference to it is gone.
            self._instance.execute(f"DETACH {self._database}")
            self._instance.execute("RESET max_vacuum_tasks")
        except duckdb.Error:
            self._discards_instance = True
        if self._discards_instance or len(_idle) >= _IDLE_MAX:
            self._instance.close()
        else:
            _idle.append(self._instance)


def opened(path: str, *, lock_timeout_s: float, durable: bool) -> DuckDBConnection:
    """Open the file; DuckDB locks it until it is closed, and writes through at every commit.

    Args:
        path: of the file; made if it is not there.
        lock_timeout_s: how long to try again while somebody else has it open, in this process or another.
        durable: ignored, DuckDB's commits always are.
    """
    instance = _take_instance()
    try:
        return DuckDBConnection(instance, _when_unlocked(lambda: _attach(instance, path), lock_timeout_s))
    except BaseException:
        instance.close()
        raise


def connect(path: str, *, lock_timeout_s: float) -> duckdb.DuckDBPyConnection:
    """A connection of DuckDB's own; beside others of this process, if it has the file open already.

    Args:
        path: of the file; made if it is not there.
        lock_timeout_s: how long to try again while somebody else has it open, in this process or another.
    """
    return _when_unlocked(lambda: _connected(path), lock_timeout_s)


def _when_unlocked(work: Callable[[], Opened], timeout_s: float) -> Opened:
    """DuckDB itself does not wait where somebody else has the file open."""
    for attempt in Retrying(
        retry=retry_if_exception(_is_locked),
        wait=wait_random_exponential(multiplier=0.02, max=0.2),
        stop=stop_after_delay(timeout_s),
        reraise=True,
    ):
        with attempt:
            return work()
    raise AssertionError("tenacity returns or raises")


def _take_instance() -> duckdb.DuckDBPyConnection:
    with suppress(IndexError):
        return _idle.pop()
    instance = duckdb.connect()
    instance.execute(f"ATTACH ':memory:' AS {_NO_FILE}")
    instance.execute(f"USE {_NO_FILE}")
    # Otherwise memory.flights would name a table in memory, which is lost at close.
    instance.execute("DETACH memory")
    return instance


def _connected(path: str) -> duckdb.DuckDBPyConnection:
    """The file in an instance of its own. If the program has it open by ``duckdb.connect``, its instance is shared."""
    instance = _take_instance()
    try:
        instance.execute(f"USE {_attach(instance, path)}")
    except BaseException as error:
        instance.close()
        if isinstance(error, duckdb.Error) and _OPEN_HERE in str(error):
            return duckdb.connect(path)
        raise
    return instance


def _attach(instance: duckdb.DuckDBPyConnection, path: str) -> str:
    """Give an instance the file, and read nothing of it before its lock is held; its name there, quoted.

    ``duckdb.connect(path)`` looks into the file to see of which kind it is, and lets it go again. DuckDB 2.0 keeps the
    header that it saw there. Sequence of events: it looks; a process that has the file open commits, checkpoints and
    closes it; now it gets the lock, goes on from the header of before, and its own checkpoint writes over that commit.
    Where the kind is told, it does not look. (``DatabaseManager::GetDatabaseType``, ``DatabaseHandle::OpenFile``.)
    """
    stem = Path(path).stem
    name = quoted(f"{stem}_db" if stem.lower() in _RESERVED else stem)
    instance.execute("ATTACH '{}' AS {} (TYPE duckdb)".format(path.replace("'", "''"), name))
    return name


def as_database_error(error: Exception) -> DatabaseSaidError | None:
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
