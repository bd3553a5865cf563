"""The ledger in the file of an embedded database (SQLite, DuckDB): one row per pipeline, changed with the sinks' rows.

Only a process of the driver's opens the file (:mod:`directkafka.sinks.embedded.file.process` has the reason), and only
for as long as a fence, a look or a commit takes; executors stage rows in files beside it.

How two drivers cannot both write. A file lets one writer in at a time. The first statement of every committing
transaction is an UPDATE of the pipeline's row on the condition "generation is mine"; it keeps other writers out until
the transaction ends, and what it returns is compared with the batch that this one continues. A fence raises the
generation in a transaction of its own, so once it has returned, the condition of every older driver is false for ever.

A driver that stopped (SIGSTOP, a long pause) in the middle of its commit loses its transaction after half of
``lock_timeout_s`` (5 s by default), before a newer driver that waits for the file gives up. The one driver a fence
cannot pass is one whose process for files stopped with it: that keeps the file locked, and nothing but its own end
takes that from it. The newer driver waits for ``lock_timeout_s``, and then stops with an error that names both.

A COMMIT that failed may have been written or not. The file is opened again, whereby the database finishes or undoes
what it finds, and the row's ``commit_id`` tells which.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from directkafka.errors import FencedError, StoreUnavailableError
from directkafka.fault_points import fault_point
from directkafka.sinks.api import FORMAT_VERSION, BatchAttempt, LedgerEntry, Sink, TaskReport
from directkafka.sinks.commit import LedgerStore, Write
from directkafka.sinks.databases import load_blocks
from directkafka.sinks.embedded.file.connection import FileConnection, FileTransaction
from directkafka.sinks.embedded.file.database_file import DatabaseFile
from directkafka.sinks.ledger import PipelineState, check_stands, progress_to_json, state_from_row

T = TypeVar("T")

SQL = load_blocks("directkafka.sinks.embedded", "store.sql")
#: What ``read_entry`` selects.
_READ_COLUMNS = (
    "pipeline", "format_version", "generation", "lineage", "batch_id", "batch_generation", "commit_id",
    "progress", "row_counts", "total_rows", "committed_at_ms",
)  # fmt: skip

_log = logging.getLogger("directkafka.sinks.embedded.store")


class EmbeddedStore(LedgerStore[FileTransaction]):
    """A file as the place where a pipeline commits; see the module's text for the protocol.

    Args:
        file: of one kind of database.
        lock_timeout_s: bound on trying again where two drivers of one process meet, in seconds.
    """

    def __init__(self, file: DatabaseFile, *, lock_timeout_s: float) -> None:
        super().__init__()
        self.file = file
        self.label = file.label
        self._lock_timeout_s = lock_timeout_s
        self._is_durable = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.file.path)!r})"

    @property
    def identity(self) -> str:
        """Kind and path of the file, however it is spelt."""
        return f"{self.file.kind}/{self.file.path}"

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        """Step 1; see :meth:`directkafka.sinks.api.Store.fence`.

        Raises:
            FencedError: the row already has the generation given, or a higher one.
            StoreUnavailableError: another process keeps the file locked; it is named where the system tells.
            StoreAccessError: the file may not be made or written.
        """
        self._held[pipeline] = self.retry_locked(lambda: self._take_over(pipeline, generation))
        return self._held[pipeline]

    def state(self, pipeline: str) -> PipelineState:
        """The pipeline's row; of a file that is not there, nothing, and it is not made."""
        if not self.file.path.exists():
            return PipelineState()
        with self.opened() as connection:
            return self._read_row(connection, pipeline)

    def pipelines(self) -> tuple[str, ...]:
        """Those whose row has a batch; of a file that is not there, none, and it is not made."""
        if not self.file.path.exists():
            return ()
        with self.opened() as connection:
            rows = connection.rows(SQL["list_pipelines"]) if connection.rows(SQL["ledger_exists"]) else []
            return tuple(name for (name,) in rows)

    def force_durable(self) -> None:
        """Commit with ``synchronous = FULL`` from now on; DuckDB never does anything else."""
        self._is_durable = True

    def close(self) -> None:
        """Nothing is open between two calls; the fence stays."""

    @contextmanager
    def opened(self, *, sink: str = "") -> Iterator[FileConnection]:
        """The file, open, with the database's errors translated.

        Args:
            sink: named in errors about its table.
        """
        connection = self.file.connect(durable=self._is_durable)
        try:
            yield connection
        except Exception as error:
            translated = self.file.translate(error, sink=sink)
            if translated is None:
                raise
            raise translated from error
        finally:
            # What a failed statement leaves open must not hide why it failed.
            with suppress(Exception):
                connection.close()

    def retry_locked(self, work: Callable[[], T]) -> T:
        """Do what two drivers may want to do at one moment, again and again until ``lock_timeout_s`` is over.

        SQLite does not wait for a lock where two would wait for each other, DuckDB not at all.

        Raises:
            StoreUnavailableError: the file is still locked.
        """
        for attempt in Retrying(
            retry=retry_if_exception_type(StoreUnavailableError),
            wait=wait_random_exponential(multiplier=0.02, max=0.2),
            stop=stop_after_delay(self._lock_timeout_s),
            reraise=True,
        ):
            with attempt:
                return work()
        raise AssertionError("tenacity returns or raises")

    def _take_over(self, pipeline: str, generation: int | None) -> int:
        with self.opened() as connection:
            connection.rows(SQL["create_ledger"])
            now_ms = time.time_ns() // 1_000_000
            rows = connection.rows(SQL["fence"], (pipeline, FORMAT_VERSION, generation, self._driver, now_ms))
            if not rows:
                row = self._read_row(connection, pipeline)
                raise FencedError(store=self.label, pipeline=pipeline, held=generation or 0, found=row.generation)
            return int(rows[0][0])

    # The committing transaction.

    @contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[FileTransaction]:
        """Begin in a connection of its own; an error rolls back, and lets other writers in at once."""
        with self.opened() as connection:
            connection.begin()
            try:
                yield FileTransaction(connection, commit_id)
            except BaseException:
                # Closing undoes it as well.
                with suppress(Exception):
                    connection.rollback()
                raise

    def advance(self, transaction: FileTransaction, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """Take the row's lock, and look at it."""
        connection = transaction.connection
        connection.rows(SQL["lock_row"], (self._driver, entry.pipeline, entry.generation))
        row = self._read_row(connection, entry.pipeline)
        check_stands(entry, previous, row, store=self.label)
        fault_point("commit.ledger_updated")

    def apply(
        self, transaction: FileTransaction, sink: Sink, batch: BatchAttempt, reports: Sequence[TaskReport]
    ) -> int:
        """Move one sink's rows; its errors are about its table."""
        try:
            return sink.apply(transaction, batch, reports)
        except Exception as error:
            translated = self.file.translate(error, sink=sink.name)
            if translated is None:
                raise
            raise translated from error

    def write_entry(self, transaction: FileTransaction, committed: LedgerEntry) -> None:
        """Put the entry into the row."""
        transaction.connection.rows(
            SQL["advance"],
            (
                committed.format_version, committed.lineage, committed.batch_id, committed.generation,
                transaction.commit_id, json.dumps(progress_to_json(committed.progress)),
                json.dumps(dict(committed.row_counts)), json.dumps(dict(committed.total_rows)),
                committed.committed_at_ms, committed.pipeline,
            ),
        )  # fmt: skip

    def end(self, transaction: FileTransaction, committed: LedgerEntry) -> None:
        """COMMIT."""
        transaction.connection.commit()

    def is_undecided(self, error: BaseException, *, was_asked: bool) -> bool:
        """Whether COMMIT was sent: whatever it has ended with, only the file knows what became of it."""
        return was_asked and isinstance(error, Exception)

    def tidy(self, transaction: FileTransaction, committed: LedgerEntry) -> None:
        """Remove what was staged."""
        for tidy in transaction.after_commit:
            try:
                tidy()
            except OSError as error:
                _log.warning("batch %d is committed; tidying up after it failed: %s", committed.batch_id, error)

    def _read_row(self, connection: FileConnection, pipeline: str) -> PipelineState:
        if not connection.rows(SQL["ledger_exists"]):
            return PipelineState()
        rows = connection.rows(SQL["read_entry"], (pipeline,))
        if not rows:
            return PipelineState()
        row = dict(zip(_READ_COLUMNS, rows[0], strict=True))
        documents = {name: json.loads(row[name]) for name in ("progress", "row_counts", "total_rows")}
        return state_from_row(row | documents, store=self.label)
