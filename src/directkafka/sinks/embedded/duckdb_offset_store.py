"""Offsets in a DuckDB file, for :class:`~directkafka.sinks.offset_store.OffsetStore`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from directkafka.errors import DirectKafkaError
from directkafka.options.arguments import check_installed
from directkafka.sinks.embedded.offset_store import FileOffsets
from directkafka.sinks.error_classes import meant

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDBOffsets"]

_REMEDY: Final = "Check that the file is a database of a DuckDB that this one reads, and that you may write to it."


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
        from directkafka.sinks.embedded.file.duckdb_connection import said

        told = said(error)
        if told is None:
            return None
        cause = self._locked() if told.is_locked else told.said
        remedy = (
            "Check that the file is a DuckDB database of a version that this one reads, and that you may write to it."
        )
        return meant(told.meaning, store=self.label, sink="", cause=cause, remedy=remedy, code=told.code)

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        from directkafka.sinks.embedded.file.duckdb_connection import connect

        with connect(str(self._path), lock_timeout_s=self._lock_timeout_s, may_share=True) as connection:
            connection.begin()
            yield connection
            connection.commit()

    def _rows(self, connection: duckdb.DuckDBPyConnection, statement: str, *parameters: object) -> list[Any]:
        return connection.execute(statement, list(parameters)).fetchall()

    def _change(self, connection: duckdb.DuckDBPyConnection, statement: str, *parameters: object) -> int:
        found = connection.execute(statement, list(parameters)).fetchall()
        return int(found[0][0]) if found else 0
