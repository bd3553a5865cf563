"""The ledger in MySQL and MariaDB: one row per pipeline, changed in the same transaction as the sinks' rows.

How two drivers are kept from both writing. The first statement of every committing transaction locks the pipeline's row
(SELECT ... FOR UPDATE), and the row is compared with this driver's generation and with the batch that this one
continues. The lock puts two drivers in line; the second one finds another batch, or a higher generation. A fence raises
the generation in a transaction of its own, so once it has returned, the comparison fails for every older driver.

The one driver that a fence has to wait for is one that stopped (SIGSTOP, a long pause, a dead network) between that
statement and its COMMIT: it holds the row's lock. The fence waits a while, then ends the session that the row names as
that driver's. Connection numbers begin anew when the server does, so the row has a name of our own in it: the session
holds a lock of that name (``GET_LOCK``) for as long as it lives, and ``IS_USED_LOCK`` finds the session's number.

The answer to COMMIT can be lost. Then the old session is ended the same way, which settles its transaction one way or
the other, and the row's ``commit_id`` tells which.

CREATE TABLE and DROP TABLE end a transaction of MySQL's. So tables are made before it, and staging tables are dropped
behind it; what a crash in between leaves is dropped by the next batch or the next fence.

Rights that the driver's user needs: SELECT, INSERT, UPDATE, CREATE on the ledger; to end sessions of another user's
driver, CONNECTION_ADMIN (``CONNECTION ADMIN`` in MariaDB). A proxy that gives statements of one session to several
connections is no good, and neither is a cluster that takes writes at several nodes (Galera, Group Replication in
multi-primary mode), where locks by name are a node's own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from directkafka.errors import StoreError, StoreUnavailableError
from directkafka.fault_points import fault_point
from directkafka.sinks.api import FORMAT_VERSION, BatchAttempt, LedgerEntry, Sink, TaskReport
from directkafka.sinks.commit import LedgerStore, Write, when_available
from directkafka.sinks.ledger import PipelineState, check_stands, mismatch, progress_to_json
from directkafka.sinks.mysql.client import pymysql
from directkafka.sinks.mysql.ledger_session import LedgerSession
from directkafka.sinks.mysql.lock_watch import INTERRUPTED, MySQLWatch, watched
from directkafka.sinks.mysql.session import (
    LOCK_WAIT_TIMEOUT,
    SQL,
    UNKNOWN_VARIABLE,
    Connection,
    MySQLAddress,
    connection_is_lost,
    execute,
    is_error,
)

_log = logging.getLogger("directkafka.sinks.mysql.store")

_FLUSH: Final = "innodb_flush_log_at_trx_commit"


class _SessionLostError(Exception):
    """The session in which a transaction was open is lost: only the ledger knows what became of it.

    Args:
        error: what was met.
        watch: what was seen from beside.
    """

    def __init__(self, error: BaseException, watch: MySQLWatch) -> None:
        super().__init__("; ".join(filter(None, (" ".join(str(error).split()), watch.note_on(error)))))
        self.was_given_up = watch.gave_up


@dataclass(slots=True, kw_only=True)
class MySQLTransaction:
    """An open transaction.

    Attributes:
        connection: its session.
        watch: who watches it.
        commit_id: of the commit.
        after_commit: what is to be done once the commit is certain.
    """

    connection: Connection
    watch: MySQLWatch
    commit_id: str
    after_commit: list[Callable[[], None]] = field(default_factory=list)


class MySQLStore(LedgerStore[MySQLTransaction]):
    """A database of MySQL or MariaDB as the place where a pipeline commits; see the module's text for the protocol.

    Args:
        dsn: ``mysql://user:password@host:port/database``; ``repr``, errors and :attr:`identity` do not show the
            password.
        fence_timeout_s: bound on waiting for the row's lock, in seconds; after a fifth of it the session that holds the
            lock and is recorded in the row is ended.
        resolve_timeout_s: bound on finding out, in seconds, what became of a COMMIT without an answer.

    Raises:
        OptionError: the URL cannot be parsed.
    """

    def __init__(self, dsn: str, *, fence_timeout_s: float = 10.0, resolve_timeout_s: float = 30.0) -> None:
        super().__init__()
        self.address = MySQLAddress.parse(dsn)
        self.label = self.address.label
        self._resolve_timeout_s = resolve_timeout_s
        self._session = LedgerSession(self.address, lock_timeout_s=fence_timeout_s, driver=self._driver)
        self._identity: str | None = None

    def __repr__(self) -> str:
        return f"MySQLStore({self.label!r})"

    @property
    def identity(self) -> str:
        """Server and database, as the server itself names them; asked once."""
        if self._identity is None:
            with watched(self.address, "directkafka", stop=self.stop) as connection:
                self._identity = f"mysql/{_identify(connection)}"
        return self._identity

    def heed(self, stop: Event) -> None:
        """See :meth:`directkafka.sinks.api.Store.heed`."""
        self._session.stop = stop

    @property
    def stop(self) -> Event | None:
        """What ends a wait, if anything does."""
        return self._session.stop

    def fence(self, pipeline: str, *, generation: int | None = None) -> int:
        """Step 1; see :meth:`directkafka.sinks.api.Store.fence`.

        Raises:
            FencedError: the row already has the generation given, or a higher one.
            StoreUnavailableError: also when the row's lock could not be had within ``fence_timeout_s``.
            StoreAccessError: the ledger may not be made or written.
        """
        with self._session.guard(f"pipeline {pipeline}: taking over its ledger"):
            held = self._session.take_over(pipeline, generation, FORMAT_VERSION)
            self._held[pipeline] = held
        # The fence stands: an error here would have it tried again, with a generation above a newer driver's.
        try:
            with self._session.guard(f"pipeline {pipeline}: tidying up behind older drivers"):
                self._session.drop_stale(pipeline, held)
        except StoreError as error:
            _log.warning("pipeline %s: what older drivers have staged stays for now: %s", pipeline, error)
        return held

    def state(self, pipeline: str) -> PipelineState:
        """The pipeline's row as last committed."""
        with self._session.guard(f"pipeline {pipeline}: reading its ledger"):
            return self._session.state(pipeline)

    def pipelines(self) -> tuple[str, ...]:
        """Those whose row has a batch."""
        with self._session.guard("listing the pipelines of its ledger"):
            return self._session.pipelines()

    def force_durable(self) -> None:
        """Say so where the server may lose commits that it has answered: only its own settings can forbid that."""
        with watched(self.address, "directkafka", stop=self.stop) as connection:
            ((flush,),) = execute(connection, f"SELECT @@GLOBAL.{_FLUSH}")
        if int(flush) != 1:
            _log.warning(
                "%s has %s = %s: in a crash of its machine it may lose commits that it has answered. This pipeline has "
                "several stores, so set it to 1",
                self.label, _FLUSH, flush,
            )  # fmt: skip

    def drop(self, pipeline: str, names: Iterable[str]) -> None:
        """Drop staging tables of batches that are over."""
        with self._session.guard(f"pipeline {pipeline}: dropping what was staged"):
            self._session.drop(pipeline, names)

    def close(self) -> None:
        """Give the connection back; the fence stays."""
        self._session.close()

    # The committing transaction.

    @contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[MySQLTransaction]:
        """Begin in the session that the row names; an error before COMMIT is sent rolls back."""
        doing = f"pipeline {entry.pipeline}: the commit of batch {entry.batch_id}"
        with self._session.guard(doing):
            connection = self._session.recorded(entry.pipeline, entry.generation)
            state = self._session.state(entry.pipeline) if connection is None else None
        if connection is None:
            assert state is not None, "it was read"
            check_stands(entry, previous, state, store=self.label)
            raise mismatch(entry, previous, state, store=self.label)
        watch = self._session.watch(doing)
        try:
            with watch:
                self._session.begin()
                yield MySQLTransaction(connection=connection, watch=watch, commit_id=commit_id)
        except BaseException as error:
            lost = connection_is_lost(error, connection)
            self._session.abort()
            if lost:
                self._session.close()
                raise _SessionLostError(error, watch) from error
            if isinstance(error, pymysql.MySQLError):
                raise self.address.translate(error, note=watch.note_on(error)) from error
            raise
        self._session.rest()

    def advance(self, transaction: MySQLTransaction, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """Take the row's lock, and look at it."""
        check_stands(entry, previous, self._session.locked_state(entry.pipeline), store=self.label)
        fault_point("commit.ledger_updated")

    def apply(
        self, transaction: MySQLTransaction, sink: Sink, batch: BatchAttempt, reports: Sequence[TaskReport]
    ) -> int:
        """Move one sink's rows. Errors are the table's, unless the session was lost or a wait for a lock was ended."""
        try:
            return sink.apply(transaction, batch, reports)
        except pymysql.MySQLError as error:
            if connection_is_lost(error, transaction.connection) or is_error(error, LOCK_WAIT_TIMEOUT, INTERRUPTED):
                raise
            raise self.address.translate(error, sink=sink.name) from error

    def write_entry(self, transaction: MySQLTransaction, committed: LedgerEntry) -> None:
        """Put the entry into the row."""
        execute(
            transaction.connection,
            SQL["advance"],
            {
                "pipeline": committed.pipeline,
                "format_version": committed.format_version,
                "lineage": committed.lineage,
                "batch_id": committed.batch_id,
                "generation": committed.generation,
                "commit_id": transaction.commit_id,
                "progress": json.dumps(progress_to_json(committed.progress)),
                "row_counts": json.dumps(dict(committed.row_counts)),
                "total_rows": json.dumps(dict(committed.total_rows)),
                "committed_at_ms": committed.committed_at_ms,
            },
        )

    def end(self, transaction: MySQLTransaction, committed: LedgerEntry) -> None:
        """COMMIT."""
        transaction.watch.refuse_cancels()
        self._session.end()

    def tidy(self, transaction: MySQLTransaction, committed: LedgerEntry) -> None:
        """Drop what was staged."""
        for drop in transaction.after_commit:
            try:
                drop()
            except (StoreError, pymysql.MySQLError) as error:
                _log.warning("batch %d is committed; tidying up after it failed: %s", committed.batch_id, error)

    # The third outcome.

    def is_undecided(self, error: BaseException, *, was_asked: bool) -> bool:
        """Whether the session is lost: then the server may have ended the transaction, or a newer driver."""
        return isinstance(error, _SessionLostError)

    def settled_state(self, entry: LedgerEntry, cause: BaseException) -> PipelineState:
        """The row, once this driver's old session is over: who has the row's lock has waited for that, or ended it."""

        if isinstance(cause, _SessionLostError) and cause.was_given_up and self._is_stopping():
            raise StoreUnavailableError(store=self.label, cause="a stop was asked for")

        def read() -> PipelineState:
            with self._session.guard(f"pipeline {entry.pipeline}: finding out what became of a commit"):
                return self._session.settled_state(entry.pipeline, entry.generation)

        return when_available(read, timeout_s=self._resolve_timeout_s, stop=self.stop)

    def _is_stopping(self) -> bool:
        return self.stop is not None and self.stop.is_set()


def _identify(connection: Connection) -> str:
    try:
        ((identity,),) = execute(connection, SQL["identify_mysql"])
    except pymysql.MySQLError as error:
        if not is_error(error, UNKNOWN_VARIABLE):
            raise
        ((identity,),) = execute(connection, SQL["identify_mariadb"])
    return str(identity)
