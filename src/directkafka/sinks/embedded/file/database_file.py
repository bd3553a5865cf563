"""The file of an embedded database: how it is opened, and what its errors mean here."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from directkafka.errors import DirectKafkaError
from directkafka.sinks.databases import ErrorClass, error_for
from directkafka.sinks.embedded.file.client import connect, describe_holders
from directkafka.sinks.embedded.file.connection import DatabaseSaidError, FileConnection, resolved
from directkafka.sinks.embedded.file.process import Opening

Kind = Literal["sqlite", "duckdb"]

_NAMES: Final[dict[Kind, str]] = {"sqlite": "SQLite", "duckdb": "DuckDB"}

#: A driver that stands still loses its open transaction before the next one has waited ``lock_timeout_s`` for it.
_SILENCE_SHARE: Final = 0.5
#: A busy machine may keep a driver waiting for longer than one thinks, and a lost transaction is done again.
_SILENCE_S_MIN: Final = 5.0


class DatabaseFile:
    """A file of one kind of database, opened in a process of its own (:mod:`directkafka.sinks.embedded.file.process`).

    Attributes:
        kind: of database.
        path: absolute, without symbolic links, so that one file has one name.
        label: for messages.

    Args:
        kind: of database.
        path: of the file.
        lock_timeout_s: how long to wait for another process that keeps the file, in seconds.

    Raises:
        OptionError: the path names no file.
    """

    def __init__(self, kind: Kind, path: str | Path, *, lock_timeout_s: float) -> None:
        self.kind = kind
        self.path = resolved(path, kind=_NAMES[kind])
        self.label = f"{kind} {self.path}"
        self._lock_timeout_s = lock_timeout_s

    def connect(self, *, durable: bool = False) -> FileConnection:
        """Open the file, and make it if it is not there.

        Args:
            durable: commits survive a crash of the machine, whatever the file's own settings are.

        Raises:
            StoreUnavailableError: another process keeps it; it is named where the system tells.
            StoreAccessError: it may not be opened, or is no database.
        """
        opening = Opening(
            kind=self.kind,
            path=str(self.path),
            lock_timeout_s=self._lock_timeout_s,
            durable=durable,
            silence_s_max=max(_SILENCE_S_MIN, self._lock_timeout_s * _SILENCE_SHARE),
        )
        try:
            return connect(opening)
        except DatabaseSaidError as error:
            raise self._translated(error, sink="") from None

    def translate(self, error: Exception, *, sink: str = "") -> DirectKafkaError | None:
        """The project's error for one of the database's; None for what is not the database's."""
        return self._translated(error, sink=sink) if isinstance(error, DatabaseSaidError) else None

    def _translated(self, error: DatabaseSaidError, *, sink: str) -> DirectKafkaError:
        cause = error.message
        if error.is_locked:
            holders = describe_holders(self.path) or "another process"
            cause = f"the file has been kept for {self._lock_timeout_s:g} s by {holders}"
        error_class: ErrorClass = error.error_class
        if error_class == "rows" and not sink:
            # Two drivers of one process made the pipeline's row at one moment: DuckDB lets both try.
            error_class = "unavailable"
        name = _NAMES[self.kind]
        remedy = f"Check that the file is a database of a {name} that this one reads, and that you may write to it."
        return error_for(error_class, store=self.label, sink=sink, cause=cause, remedy=remedy, code=error.code)
