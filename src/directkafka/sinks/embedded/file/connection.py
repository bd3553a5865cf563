"""A connection to an embedded database, for the store and its sinks: one file, open for a moment, with transactions.

The file is opened by a process of its own (:mod:`directkafka.sinks.embedded.file.process`), so all that goes in or out
of a :class:`FileConnection` can be pickled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from directkafka.errors import DirectKafkaError, OptionError
from directkafka.options.texts import fault_of_path
from directkafka.sinks.databases import ErrorClass

#: What the driver returns for a row.
Row = tuple[Any, ...]


class DatabaseSaidError(Exception):
    """An error of the database's, as it comes out of the process that has the file open.

    Attributes:
        error_class: what kind of error it is here.
        message: the database's words, in one line.
        code: its own code or class.
        is_locked: whether another process keeps the file.
    """

    def __init__(self, error_class: ErrorClass, message: str, code: str = "none", is_locked: bool = False) -> None:
        super().__init__(error_class, message, code, is_locked)
        self.error_class: ErrorClass = error_class
        self.message = message
        self.code = code
        self.is_locked = is_locked

    def __str__(self) -> str:
        return self.message


class RowSource(Protocol):
    """Rows for :meth:`FileConnection.fill`. Picklable: it is read by the process that has the file open."""

    @property
    def schema(self) -> pa.Schema:
        """Of every batch."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; what this raises comes out of ``fill`` if it is a DirectKafkaError."""


class FileConnection(Protocol):
    """An open file. Statements outside :meth:`begin` are transactions of their own.

    Raises:
        DatabaseSaidError: every method, for what the database refuses.
    """

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement with parameters ``$1, $2, ...``; what it returns, empty for nothing."""

    def insert(self, statement: str) -> int:
        """Run one INSERT; how many rows it has put or changed."""

    def fill(self, table: Sequence[str], source: RowSource, *, is_temporary: bool = False) -> int:
        """Append rows to a table's columns of the same names, without a Python object per row.

        Args:
            table: the parts of its name, unquoted.
            source: the rows.
            is_temporary: whether the table is this connection's own.

        Returns:
            How many rows the table has taken, if it has no triggers.
        """

    def begin(self) -> None:
        """Begin a transaction; it takes no lock before its first statement."""

    def commit(self) -> None:
        """Make the transaction's changes durable and visible."""

    def rollback(self) -> None:
        """Undo the transaction."""

    def close(self) -> None:
        """Let the file go; an open transaction is undone."""


@dataclass(frozen=True, slots=True)
class FileTransaction:
    """The committing transaction, as sinks see it.

    Attributes:
        connection: inside the transaction.
        commit_id: of the commit that it is for.
        after_commit: called once the commit is certain, for what must not go before; errors are logged, no more.
    """

    connection: FileConnection
    commit_id: str = ""
    after_commit: list[Callable[[], None]] = field(default_factory=list)


@contextmanager
def reader_of(source: RowSource) -> Iterator[pa.RecordBatchReader]:
    """The rows of a source as a stream for the database, which would hide what the source raises.

    Raises:
        DirectKafkaError: what the source raised, in place of the database's error about it.
    """
    raised: list[DirectKafkaError] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from source.batches()
        except DirectKafkaError as error:
            raised.append(error)
            raise

    try:
        yield pa.RecordBatchReader.from_batches(source.schema, batches())
    except Exception as error:
        if raised:
            raise raised[0] from error
        raise


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
    real_path = Path(os.path.realpath(text))
    if fault := fault_of_path(real_path):
        raise OptionError(option="path", where=f"a {kind} sink", reason=fault)
    return real_path


def quoted(*names: str) -> str:
    """A name as SQL, in parts with dots between them."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)
