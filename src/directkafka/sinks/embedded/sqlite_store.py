"""SQLite as a store."""

from __future__ import annotations

from pathlib import Path

from directkafka.sinks.embedded.file.database_file import DatabaseFile
from directkafka.sinks.embedded.store import EmbeddedStore

__all__ = ["SQLiteStore"]


class SQLiteStore(EmbeddedStore):
    """An SQLite file as the place where a pipeline commits; see :mod:`directkafka.sinks.embedded.store`.

    Args:
        path: the file; made when it does not exist.
        lock_timeout_s: bound on waiting for another process that keeps the file locked, in seconds.

    Raises:
        OptionError: the path names no file.
    """

    def __init__(self, path: str | Path, *, lock_timeout_s: float = 10.0) -> None:
        super().__init__(DatabaseFile("sqlite", path, lock_timeout_s=lock_timeout_s), lock_timeout_s=lock_timeout_s)
