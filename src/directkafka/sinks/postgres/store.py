"""The ledger in Postgres: one row per pipeline, changed in the same transaction as the sinks' rows.

How two drivers are kept from both writing. The first statement of every committing transaction is an UPDATE of the
pipeline's row on the condition "generation is mine and the last batch is the one I continue". Its row lock
puts two drivers in line; the second one finds the condition false. A fence raises the generation in a
transaction of its own, so once it has returned, the condition of every older driver is false for ever.

A fence has to wait only for a driver that stopped (SIGSTOP, a long pause, a dead network) between that UPDATE
and its COMMIT: that driver holds the row's lock. The fence waits a while, then ends the server process that the
row records for that driver; process id and start time are compared, since process ids are used again.

The answer to COMMIT can be lost. Then the old session is ended the same way, which settles its transaction
one way or the other, and the row's ``commit_id`` tells which.

Rights the driver's user needs: CONNECT; CREATE on the schema of the ledger, or the table made beforehand (block
``create_ledger`` of ``store.sql``) and SELECT, INSERT, UPDATE on it; ``pg_signal_backend`` only where two
drivers of one pipeline log in as different users. A transaction pooler between driver and server does not
work: the recorded server process would not be the driver's own.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from directkafka.errors import (
    StoreError,
    StoreUnavailableError,
)
from directkafka.fault_points import fault_point
from directkafka.sinks.api import FORMAT_VERSION, BatchAttempt, LedgerEntry, Sink, TaskReport
from directkafka.sinks.commit import LedgerStore, Write, when_available
from directkafka.sinks.ledger import PipelineState, mismatch, progress_to_json, state_from_row
from directkafka.sinks.postgres.ledger_session import Cursor, LedgerSession
from directkafka.sinks.postgres.lock_watch import WAIT_ENDED, PostgresWatch
from directkafka.sinks.postgres.session import SQL, PostgresAddress, connection_is_lost

_log = logging.getLogger("directkafka.sinks.postgres.store")


class _SessionLostError(Exception):
    """The session in which a transaction was open is lost: only the ledger knows what became of it.

    Args:
        error: the error that showed it.
        watch: the watch on the session; it may know what the session waited for.
    """

    def __init__(self, error: BaseException, watch: PostgresWatch) -> None:
        super().__init__("; ".join(filter(None, (" ".join(str(error).split()), watch.note_on(error)))))
        self.was_given_up = watch.gave_up


@dataclass(slots=True, kw_only=True)
class _Transaction:
    """An open transaction: its cursor, who watches it, and the commit's id."""

    cursor: Cursor
    watch: PostgresWatch
    commit_id: uuid.UUID


class PostgresStore(LedgerStore[_Transaction]):
    """A Postgres database as the place where a pipeline commits; see the module's text for the protocol.

    Args:
        dsn: libpq connection string or URI. ``repr``, errors and :attr:`identity` never show its password.
        durable: force ``synchronous_commit = on``; by default the server's setting stays.
        fence_timeout_s: bound on waiting for the row's lock, in seconds; after a fifth of this time, the session
            that holds the lock is ended if it is the one recorded in the row.
        resolve_timeout_s: bound on finding out what became of a COMMIT without an answer, in seconds.

    Raises:
        OptionError: the DSN cannot be parsed.
    """

    def __init__(
        self,
        dsn: str,
        *,
        durable: bool = False,
        fence_timeout_s: float = 10.0,
        resolve_timeout_s: float = 30.0,
    ) -> None:
        super().__init__()
        self.address = PostgresAddress.parse(dsn)
        self.label = self.address.label
        self._resolve_timeout_s = resolve_timeout_s
        self._session = LedgerSession(
            self.address, durable=durable, lock_timeout_s=fence_timeout_s, driver=self._driver
        )
        self._identity: str | None = None

    def __repr__(self) -> str:
        return f"PostgresStore({self.label!r})"

    @property
    def identity(self) -> str:
        """The running server, its database and schema, as the server itself names them; asked once until it is closed.

        Two stores are the same only while both are connected to the same running server: a copy of its data
        directory has the same system identifier, but a different start time. A restart changes the identity.
        """
        if self._identity is None:
            # A session of its own: of several stores with one identity, only the first is used after this question.
            with (
                closing(self.address.connect("directkafka")) as connection,
                self._session.guard("a look at the server", connection),
            ):
                self._identity = "postgres/" + _identify(connection)
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
            StoreUnavailableError: also when the row's lock could not be had within ``fence_timeout_s``; it
                names who holds it.
            StoreAccessError: this user may not make or write the ledger, or end the older session.
            SchemaMismatchError: the ledger is not an ordinary logged table.
        """
        with self._session.guard(f"pipeline {pipeline}: taking over its ledger"):
            held = self._session.take_over(pipeline, generation, FORMAT_VERSION)
            self._held[pipeline] = held
        # The fence stands: an error here would have it tried again, with a generation above a newer driver's.
        try:
            with self._session.guard(f"pipeline {pipeline}: tidying up behind older drivers"):
                self._session.drop_stale_staging(pipeline, held)
        except StoreError as error:
            _log.warning("pipeline %s: what older drivers have staged stays for now: %s", pipeline, error)
        return held

    def state(self, pipeline: str) -> PipelineState:
        """The pipeline's row as last committed."""
        with self._session.guard(f"pipeline {pipeline}: reading its ledger"):
            return self._state(self._session.read_row(pipeline))

    def pipelines(self) -> tuple[str, ...]:
        """Those whose row has a batch."""
        with self._session.guard("listing the pipelines of its ledger"):
            return self._session.pipelines()

    def force_durable(self) -> None:
        """Commit with ``synchronous_commit = on`` from now on, in a new session: a pipeline of several stores needs it.

        The others read again the ranges of the store that is one batch ahead: a crash must not take that batch from
        it.
        """
        self._session.durable = True
        self._session.close()

    def close(self) -> None:
        """Give the connection back; the fence stays. Whoever uses the store next may meet another server."""
        self._session.close()
        self._identity = None

    # The committing transaction.

    @contextmanager
    def transaction(
        self, entry: LedgerEntry, previous: LedgerEntry | None, commit_id: str, writes: Sequence[Write]
    ) -> Iterator[_Transaction]:
        """Begin in the session that the row names; an error before COMMIT is sent rolls back."""
        doing = f"pipeline {entry.pipeline}: the commit of batch {entry.batch_id}"
        connection = self._recorded_connection(entry, previous, doing)
        watch = self._session.watch(doing)
        try:
            with watch, connection.cursor(row_factory=dict_row) as cursor:
                cursor.execute("BEGIN")
                yield _Transaction(cursor=cursor, watch=watch, commit_id=uuid.UUID(commit_id))
        except BaseException as error:
            lost = connection_is_lost(error, connection)
            self._session.abort()
            if lost:
                raise _SessionLostError(error, watch) from error
            if isinstance(error, psycopg.Error):
                raise self.address.translate(error, note=watch.note_on(error)) from error
            raise

    def _recorded_connection(
        self, entry: LedgerEntry, previous: LedgerEntry | None, doing: str
    ) -> psycopg.Connection[Any]:
        """The session, once it is recorded in the row.

        If the row is gone or has a lower generation, that was no newer driver: the database was restored, or replaced
        by a standby that had not received this driver's fence. A driver that is started again goes on from this row.
        """
        if (ready := self._session.ready(entry.pipeline, entry.generation)) is not None:
            return ready
        with self._session.guard(doing):
            connection = self._session.recorded(entry.pipeline, entry.generation)
            row = self._session.read_row(entry.pipeline) if connection is None else None
        if connection is None:
            raise self._refused(entry, previous, row)
        return connection

    def advance(self, transaction: _Transaction, entry: LedgerEntry, previous: LedgerEntry | None) -> None:
        """Change the row if it is still at the previous entry; the row's lock then keeps other drivers out."""
        cursor = transaction.cursor
        cursor.execute(
            SQL["advance"],
            {
                "pipeline": entry.pipeline,
                "generation": entry.generation,
                "format_version": entry.format_version,
                "lineage": entry.lineage,
                "batch_id": entry.batch_id,
                "commit_id": transaction.commit_id,
                "progress": Jsonb(progress_to_json(entry.progress)),
                "committed_at_ms": entry.committed_at_ms,
                "previous_batch_id": previous.batch_id if previous else -1,
                "previous_lineage": previous.lineage if previous else "",
                "previous_progress": Jsonb(progress_to_json(previous.progress if previous else ())),
            },
        )
        if cursor.rowcount != 1:
            row = cursor.execute(SQL["read_entry"], {"pipeline": entry.pipeline}).fetchone()
            raise self._refused(entry, previous, row)
        fault_point("commit.ledger_updated")

    def apply(self, transaction: _Transaction, sink: Sink, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Move one sink's rows; errors name its table, unless the session was lost or a wait for a lock was ended."""
        cursor = transaction.cursor
        try:
            return sink.apply(cursor, batch, reports)
        except psycopg.Error as error:
            if connection_is_lost(error, cursor.connection) or isinstance(error, WAIT_ENDED):
                raise
            raise self.address.translate(error, sink=sink.name) from error

    def write_entry(self, transaction: _Transaction, committed: LedgerEntry) -> None:
        """Put the counts into the row, and check deferred constraints now, since COMMIT is never cancelled."""
        counts = {
            "pipeline": committed.pipeline,
            "row_counts": Jsonb(dict(committed.row_counts)),
            "total_rows": Jsonb(dict(committed.total_rows)),
        }
        transaction.cursor.execute(SQL["count_rows"], counts)
        transaction.cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def end(self, transaction: _Transaction, committed: LedgerEntry) -> None:
        """COMMIT."""
        transaction.watch.refuse_cancels()
        transaction.cursor.execute("COMMIT")
        # If the transaction has failed, the server answers COMMIT with ROLLBACK, and reports no error.
        if (answer := transaction.cursor.statusmessage) != "COMMIT":
            raise StoreUnavailableError(store=self.label, cause=f"COMMIT was answered with {answer}")

    def _refused(self, entry: LedgerEntry, previous: LedgerEntry | None, row: DictRow | None) -> StoreError:
        if row is not None and row["generation"] > entry.generation:
            return self._session.fenced(entry.pipeline, entry.generation, row)
        state = self._state(row)
        return mismatch(entry, previous, state, store=self.label)

    # The third outcome: no answer.

    def is_undecided(self, error: BaseException, *, was_asked: bool) -> bool:
        """Whether the session is lost: then the server or a newer driver may have ended the transaction."""
        return isinstance(error, _SessionLostError)

    def settled_state(self, entry: LedgerEntry, cause: BaseException) -> PipelineState:
        """The row, once this driver's old session is over.

        A driver that took the row's lock after this session either waited for the session's end or ended it, so the row
        is final. (A newer driver's fence keeps the id of the last commit.)

        Raises:
            StoreUnavailableError: the row cannot be read in time, or a stop was asked for.
        """
        if isinstance(cause, _SessionLostError) and cause.was_given_up and self._is_stopping():
            raise StoreUnavailableError(store=self.label, cause="a stop was asked for")
        return self._state(self._read_settled(entry.pipeline, entry.generation))

    def _read_settled(self, pipeline: str, generation: int) -> DictRow | None:
        """The row as it will stay; tried for ``resolve_timeout_s``, but only 3 s more once a stop is asked for."""

        def read() -> DictRow | None:
            with self._session.guard(f"pipeline {pipeline}: finding out what became of a commit"):
                return self._session.read_settled(pipeline, generation)

        return when_available(read, timeout_s=self._resolve_timeout_s, stop=self.stop)

    def _is_stopping(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def _state(self, row: DictRow | None) -> PipelineState:
        if row is None:
            return PipelineState()
        commit_id = row["commit_id"].hex if row["commit_id"] is not None else ""
        return state_from_row({**row, "commit_id": commit_id}, store=self.label)


def _identify(connection: psycopg.Connection[Any]) -> str:
    """Ask by system identifier; where that needs a right this user lacks, by port."""
    exact = sql.SQL("(SELECT system_identifier::text FROM pg_control_system())")
    template = sql.SQL(SQL["identify"])
    try:
        row = connection.execute(template.format(system_identifier=exact)).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        port = sql.SQL("'port-' || current_setting('port')")
        row = connection.execute(template.format(system_identifier=port)).fetchone()
    assert row is not None
    return str(row[0])
