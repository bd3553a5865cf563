"""DuckDB as a store: its file, which one process at a time may have open for writing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from directkafka.errors import DirectKafkaError
from directkafka.stores.embedded import EmbeddedStore
from directkafka.stores.embedded_file import Row, quoted, resolved
from directkafka.stores.file_locks import describe_holders
from directkafka.stores.meanings import Meaning, meant

__all__ = ["DuckDBFile", "DuckDBStore"]

_REMEDY: Final = (
    "Check that the file is a DuckDB database of a version that this one reads, and that you may write to it."
)
_LOCKED: Final = re.compile(r"[Cc]onflicting lock|Could not set lock")
_FULL: Final = re.compile(r"[Nn]o space left|disk|[Oo]ut of memory")
_READER: Final = "directkafka_coming"


class DuckDBStore(EmbeddedStore):
    """A DuckDB file as the place where a pipeline commits; see :mod:`directkafka.stores.embedded`.

    Args:
        path: the file; made when it does not exist.
        lock_timeout_s: bound on waiting for another process that has the file open, in seconds.

    Raises:
        OptionError: the path names no file.
    """

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        super().__init__(DuckDBFile(path, lock_timeout_s=lock_timeout_s), lock_timeout_s=lock_timeout_s)


class DuckDBFile:
    """A file; see :class:`~directkafka.stores.embedded_file.DatabaseFile`."""

    kind = "duckdb"

    def __init__(self, path: str | Path, *, lock_timeout_s: float) -> None:
        self.path = resolved(path, kind="DuckDB")
        self.label = f"duckdb {self.path}"
        self._lock_timeout_s = lock_timeout_s

    def connect(self, *, durable: bool = False) -> DuckDBConnection:
        """Open the file; DuckDB locks it until it is closed, and writes through at every commit."""
        try:
            for attempt in Retrying(
                retry=retry_if_exception(_is_locked),
                wait=wait_random_exponential(multiplier=0.02, max=0.2),
                stop=stop_after_delay(self._lock_timeout_s),
                reraise=True,
            ):
                with attempt:
                    return DuckDBConnection(duckdb.connect(str(self.path)))
        except duckdb.Error as error:
            raise self.translate(error) or error from None
        raise AssertionError("tenacity returns or raises")

    def translate(self, error: Exception, *, sink: str = "") -> DirectKafkaError | None:
        """By the class of the error, and for the file's own by the words of the message."""
        if not isinstance(error, duckdb.Error):
            return None
        said = " ".join(str(error).split())
        if _is_locked(error):
            holders = describe_holders(self.path) or "another process"
            said = f"the file has been open for {self._lock_timeout_s:g} s in {holders}"
        meaning, code = _meaning(error), type(error).__name__
        if meaning == "rows" and not sink:
            # Two drivers of one process made the pipeline's row at one moment: DuckDB lets both try.
            meaning = "unavailable"
        return meant(meaning, store=self.label, sink=sink, cause=said, remedy=_REMEDY, code=code)


class DuckDBConnection:
    """An open file; see :class:`~directkafka.stores.embedded_file.FileConnection`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """What DuckDB returns."""
        found: list[Row] = self._connection.execute(statement, list(parameters) or None).fetchall()
        return found

    def insert(self, statement: str) -> int:
        """An INSERT returns its count."""
        return int(self.rows(statement)[0][0])

    def fill(self, table: Sequence[str], reader: pa.RecordBatchReader, *, is_temporary: bool = False) -> int:
        """DuckDB pulls the reader's batches while it inserts."""
        names = ", ".join(quoted(column) for column in reader.schema.names)
        place = quoted("temp", *table) if is_temporary else quoted(*table)
        self._connection.register(_READER, reader)
        try:
            return self.insert(f"INSERT INTO {place} ({names}) SELECT {names} FROM {_READER}")
        finally:
            self._connection.unregister(_READER)

    def begin(self) -> None:
        """A transaction."""
        self._connection.execute("BEGIN")

    def commit(self) -> None:
        """Its end; DuckDB writes its log through before it returns."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo it."""
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Other processes may open the file from now on."""
        self._connection.close()


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, duckdb.IOException) and _LOCKED.search(str(error)) is not None


def _meaning(error: duckdb.Error) -> Meaning:
    """By the error's class; a file's own errors have one class, and differ by their words."""
    match error:
        case duckdb.TransactionException() | duckdb.OutOfMemoryException():
            return "unavailable"
        case duckdb.IOException():
            return "unavailable" if _is_locked(error) or _FULL.search(str(error)) else "access"
        case duckdb.PermissionException():
            return "access"
        case duckdb.ConstraintException() | duckdb.DataError():
            return "rows"
        case duckdb.CatalogException() | duckdb.BinderException():
            return "schema"
    return "request"
