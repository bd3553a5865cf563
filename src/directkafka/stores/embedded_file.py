"""What an embedded database is to the store and its sinks: one file, opened for a moment, with transactions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from directkafka.errors import DirectKafkaError, OptionError

__all__ = ["DatabaseFile", "FileConnection", "FileTransaction", "Row", "quoted", "resolved"]

#: What the driver returns for a row.
Row = tuple[Any, ...]


class FileConnection(Protocol):
    """An open file. Statements outside :meth:`begin` are transactions of their own."""

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement with parameters ``$1, $2, ...``; what it returns, empty for nothing."""
        ...

    def insert(self, statement: str) -> int:
        """Run one INSERT; how many rows it has put or changed."""
        ...

    def fill(self, table: Sequence[str], reader: pa.RecordBatchReader, *, is_temporary: bool = False) -> int:
        """Append the reader's batches to a table's columns of the same names, without a Python object per row.

        Args:
            table: the parts of its name, unquoted.
            reader: the rows; what it raises ends the statement, as an error of the database's.
            is_temporary: whether the table is this connection's own.

        Returns:
            How many rows the table has taken, if it has no triggers.
        """
        ...

    def begin(self) -> None:
        """Begin a transaction; it takes no lock before its first statement."""
        ...

    def commit(self) -> None:
        """Make the transaction's changes durable and visible."""
        ...

    def rollback(self) -> None:
        """Undo the transaction."""
        ...

    def close(self) -> None:
        """Let the file go; an open transaction is undone."""
        ...


class DatabaseFile(Protocol):
    """A file of one kind of database."""

    @property
    def kind(self) -> str:
        """``sqlite`` or ``duckdb``."""
        ...

    @property
    def path(self) -> Path:
        """Absolute, without symbolic links, so that one file has one name."""
        ...

    @property
    def label(self) -> str:
        """For messages."""
        ...

    def connect(self, *, durable: bool = False) -> FileConnection:
        """Open the file, and make it if it is not there.

        Args:
            durable: commits survive a crash of the machine, whatever the file's own settings are.

        Raises:
            StoreUnavailableError: another process keeps it; it is named where the system tells.
            StoreAccessError: it may not be opened, or is no database.
        """
        ...

    def translate(self, error: Exception, *, sink: str = "") -> DirectKafkaError | None:
        """The project's error for one of the database's; None for what is not the database's."""
        ...


@dataclass(frozen=True, slots=True)
class FileTransaction:
    """The committing transaction, as sinks see it.

    Attributes:
        connection: inside the transaction.
        after_commit: called once the commit is certain, for what must not go before; errors are logged, no more.
    """

    connection: FileConnection
    after_commit: list[Callable[[], None]] = field(default_factory=list)


def resolved(path: str | Path, *, kind: str) -> Path:
    """The path of a database file, absolute and without symbolic links.

    Raises:
        OptionError: it is empty, or means a database that is in no file.
    """
    text = str(path)
    if not text or text.startswith((":", "file:", "md:")) or "://" in text:
        # Not repeated: what looks like an address may hold a password.
        raise OptionError(
            option="path",
            where=f"a {kind} sink",
            reason="expected the path of a file on this machine, found nothing, an address or a database in memory",
        )
    return Path(os.path.realpath(text))


def quoted(*names: str) -> str:
    """A name as SQL, in parts with dots between them."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
