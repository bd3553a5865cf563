"""The driver's session with the ledger: recorded in the row it locks, and able to get past another's lock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any, Final, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row

from directkafka.errors import FencedError, SchemaMismatchError, StoreUnavailableError
from directkafka.sinks.postgres.lock_watch import PostgresWatch
from directkafka.sinks.postgres.session import (
    ALREADY_THERE,
    ANSWER_S_MAX,
    SQL,
    PostgresAddress,
    answered_within,
    connection_is_lost,
)
from directkafka.sinks.staging import stale_staging_pattern

T = TypeVar("T")
Cursor = psycopg.Cursor[DictRow]

_log = logging.getLogger("directkafka.sinks.postgres.store")

#: How long a staging table's lock is waited for when old ones are dropped; the rest is done next time.
_JANITOR_LOCK_TIMEOUT_MS: Final = 200

#: The recorded session is ended after this part of the bound on waiting for its lock.
_GRACE_SHARE: Final = 5

#: Above every generation: a driver that is handed the next one takes over from whoever is there.
_ANY_GENERATION: Final = 2**63 - 1


class LedgerSession:
    """One driver's connection to its ledger; made when it is needed, and again when it was lost.

    Args:
        address: the database.
        durable: force ``synchronous_commit = on``.
        lock_timeout_s: bound on waiting for a row's lock, in seconds.
        driver: an id of the driver.
    """

    def __init__(self, address: PostgresAddress, *, durable: bool, lock_timeout_s: float, driver: str) -> None:
        self._address = address
        self.durable = durable
        self._lock_timeout_s = lock_timeout_s
        self._driver = driver
        self._connection: psycopg.Connection[Any] | None = None
        self._recorded: set[tuple[str, int]] = set()
        #: Ends what waits, once it is set.
        self.stop: Event | None = None

    @contextmanager
    def guard(self, doing: str, session: psycopg.Connection[Any] | None = None) -> Iterator[None]:
        """Watch what is done inside, in this session or in another one, and translate what psycopg raises."""
        with self.watch(doing, session) as watch:
            try:
                yield
            except psycopg.Error as error:
                raise self._address.translate(error, note=watch.note_on(error)) from error

    def watch(self, doing: str, session: psycopg.Connection[Any] | None = None) -> PostgresWatch:
        """A second look at what this session waits for, or another one."""
        return PostgresWatch(self._address, lambda: session or self._connection, doing=doing, stop=self.stop)

    def connection(self, pipeline: str) -> psycopg.Connection[Any]:
        """The connection, in autocommit mode."""
        if self._connection is None or self._connection.closed:
            self._recorded.clear()
            self._connection = self._address.connect(f"directkafka {pipeline}", durable=self.durable)
        return self._connection

    def ready(self, pipeline: str, generation: int) -> psycopg.Connection[Any] | None:
        """The connection, if it is open and the pipeline's row names it."""
        is_open = self._connection is not None and not self._connection.closed
        return self._connection if is_open and (pipeline, generation) in self._recorded else None

    def recorded(self, pipeline: str, generation: int) -> psycopg.Connection[Any] | None:
        """The connection, once the pipeline's row names it: before it may lock the row.

        Returns:
            None when the row has another generation, or is not there.

        Raises:
            FencedError: a newer driver has the row, and its lock.
        """
        connection = self.connection(pipeline)
        if (pipeline, generation) not in self._recorded:
            parameters = self._backend(connection) | {"pipeline": pipeline, "generation": generation}
            count = self.with_row_lock(
                pipeline, lambda cursor: cursor.execute(SQL["record_backend"], parameters).rowcount, held=generation
            )
            if count != 1:
                return None
            self._recorded.add((pipeline, generation))
        return connection

    def take_over(self, pipeline: str, generation: int | None, format_version: int) -> int:
        """Fence, and return the generation taken; the ledger is made when there is none.

        Raises:
            FencedError: the row already has the generation given, or a higher one.
        """
        connection = self.connection(pipeline)
        if not self._ledger_exists(connection):
            with suppress(*ALREADY_THERE):
                connection.execute(SQL["create_ledger"])
        parameters = self._backend(connection) | {
            "pipeline": pipeline, "generation": generation, "format_version": format_version,
        }  # fmt: skip
        row = self.with_row_lock(
            pipeline,
            lambda cursor: cursor.execute(SQL["fence"], parameters).fetchone(),
            ends_below=_ANY_GENERATION if generation is None else generation,
        )
        if row is None:
            raise self.fenced(pipeline, generation or 0, self.read_row(pipeline))
        held = int(row["generation"])
        self._recorded.add((pipeline, held))
        return held

    def read_row(self, pipeline: str) -> DictRow | None:
        """The pipeline's row as last committed; None when there is none, or no ledger."""
        connection = self.connection(pipeline)
        if not self._ledger_exists(connection):
            return None
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(SQL["read_entry"], {"pipeline": pipeline}).fetchone()

    def pipelines(self) -> tuple[str, ...]:
        """Who has committed here, sorted."""
        connection = self.connection("list")
        rows = connection.execute(SQL["list_pipelines"]).fetchall() if self._ledger_exists(connection) else []
        return tuple(name for (name,) in rows)

    def read_settled(self, pipeline: str, held: int) -> DictRow | None:
        """The pipeline's row, once no transaction of this driver can change it any more.

        A driver of a higher generation in the row has waited for this one's transaction, or ended it: then the row is
        read beside that driver's lock.
        """

        def read(cursor: Cursor) -> DictRow | None:
            cursor.execute(SQL["lock_row"], {"pipeline": pipeline})
            return cursor.execute(SQL["read_entry"], {"pipeline": pipeline}).fetchone()

        try:
            return self.with_row_lock(pipeline, read, held=held)
        except FencedError:
            return self.read_row(pipeline)

    def with_row_lock(
        self, pipeline: str, work: Callable[[Cursor], T], *, held: int | None = None, ends_below: int = 0
    ) -> T:
        """Run ``work`` in a transaction; end the recorded session if it keeps the row locked for too long.

        Args:
            pipeline: whose row it is.
            work: what is done.
            held: the generation of this driver; None while it takes a new one.
            ends_below: whose session may be ended: this driver's own always, others' of generations below this.

        Raises:
            FencedError: a driver of a higher generation than ``held`` has the row.
            StoreUnavailableError: the lock could not be had in time; names the sessions that may hold it.
        """
        connection = self.connection(pipeline)
        grace_ms = max(1, int(self._lock_timeout_s * 1000 / _GRACE_SHARE))
        deadline = time.monotonic() + self._lock_timeout_s
        while True:
            try:
                with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {grace_ms}")
                    return work(cursor)
            except psycopg.errors.LockNotAvailable as error:
                if held is not None:
                    self._check_held(pipeline, held)
                self._end_recorded_session(connection, pipeline, ends_below)
                if time.monotonic() >= deadline:
                    raise self._locked(connection, pipeline) from error

    def _check_held(self, pipeline: str, held: int) -> None:
        row = self.read_row(pipeline)
        if row is not None and row["generation"] > held:
            raise self.fenced(pipeline, held, row)

    def drop_stale_staging(self, pipeline: str, generation: int) -> None:
        """Drop what older drivers staged; a table that a zombie task still writes is left to the next fence.

        The generation is taken by now, so that a table that cannot be dropped is said, and no more.
        """
        connection = self.connection(pipeline)
        pattern = stale_staging_pattern(pipeline, ledger_schema(connection))
        cursor = connection.execute(SQL["stale_staging"], {"pattern": pattern, "generation": generation})
        for schema, table in cursor.fetchall():
            try:
                with connection.transaction():
                    connection.execute(f"SET LOCAL lock_timeout = {_JANITOR_LOCK_TIMEOUT_MS}")
                    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(schema, table)))
            except psycopg.Error as error:
                if connection_is_lost(error, connection):
                    raise
                _log.warning("pipeline %s: staging table %s.%s is left: %s", pipeline, schema, table, error)

    def abort(self) -> None:
        """Roll back; a session that cannot is closed, and the server rolls back for it."""
        if self._connection is None:
            return
        with suppress(psycopg.Error):
            if not self._connection.closed:
                with answered_within(self._connection, ANSWER_S_MAX):
                    self._connection.execute("ROLLBACK")
                return
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def fenced(self, pipeline: str, held: int, row: DictRow | None) -> FencedError:
        """The error of a driver whose generation is not the row's."""
        generation = row["generation"] if row else 0
        return FencedError(store=self._address.label, pipeline=pipeline, held=held, found=generation)

    def _backend(self, connection: psycopg.Connection[Any]) -> dict[str, Any]:
        row = connection.execute(SQL["backend"]).fetchone()
        assert row is not None, "a session sees itself in pg_stat_activity"
        return {"driver": self._driver, "backend_pid": row[0], "backend_start": row[1]}

    def _end_recorded_session(self, connection: psycopg.Connection[Any], pipeline: str, below: int) -> None:
        parameters = {"pipeline": pipeline, "driver": self._driver, "below_generation": below}
        if connection.execute(SQL["terminate_recorded_backend"], parameters).fetchone():
            _log.warning("pipeline %s: ended a session that kept the ledger's row locked", pipeline)

    def _locked(self, connection: psycopg.Connection[Any], pipeline: str) -> StoreUnavailableError:
        row = connection.execute(SQL["describe_blockers"]).fetchone()
        who = (row and row[0]) or "a session that is gone now"
        return StoreUnavailableError(
            store=self._address.label,
            cause=f"the ledger's row of pipeline {pipeline!r} has been locked for {self._lock_timeout_s:g} s by {who}",
        )

    def _ledger_exists(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether there is a ledger, one that a crash leaves as it is.

        Raises:
            SchemaMismatchError: it is no ordinary table, or an unlogged or temporary one.
        """
        row = connection.execute(SQL["find_ledger"]).fetchone()
        if row is None:
            return False
        name, is_table, persistence = row
        if not is_table or persistence != "p":
            kind = {"u": "an UNLOGGED table", "t": "a temporary table"}.get(persistence, "no ordinary table")
            raise SchemaMismatchError(
                store=self._address.label,
                sink="the ledger",
                detail=f"{name} is {kind}: it would be empty after a crash of the server, and the pipeline would begin "
                f"anew. Run ALTER TABLE {name} SET LOGGED, or make it again as an ordinary table",
            )
        return True


def ledger_schema(connection: psycopg.Connection[Any]) -> str:
    """The schema that the ledger is in, or would be made in: what tells two pipelines of one name apart."""
    row = connection.execute(SQL["ledger_schema"]).fetchone()
    return str((row and row[0]) or "")
