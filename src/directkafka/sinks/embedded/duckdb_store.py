"""DuckDB as a store: one process at a time may have its file open for writing."""

from __future__ import annotations

from pathlib import Path

from directkafka.options.arguments import check_installed
from directkafka.sinks.embedded.file.database_file import DatabaseFile
from directkafka.sinks.embedded.store import EmbeddedStore

__all__ = ["DuckDBStore"]


class DuckDBStore(EmbeddedStore):
    """A DuckDB file as the place where a pipeline commits; see :mod:`directkafka.sinks.embedded.store`.

    Args:
        path: the file; made when it does not exist.
        lock_timeout_s: bound on waiting for another process that has the file open, in seconds.

    Raises:
        OptionError: the path names no file, or the package duckdb is missing.
    """

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        check_installed("duckdb", extra="duckdb")
        super().__init__(DatabaseFile("duckdb", path, lock_timeout_s=lock_timeout_s), lock_timeout_s=lock_timeout_s)
