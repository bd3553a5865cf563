"""The driver's session with the ledger: named in the row that it locks, and able to get past another's lock."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any, Final, TypeVar

from directkafka.errors import FencedError, SchemaMismatchError, StoreUnavailableError
from directkafka.sinks.ledger import PipelineState, state_from_row
from directkafka.sinks.mysql.client import pymysql
from directkafka.sinks.mysql.lock_watch import MySQLWatch
from directkafka.sinks.mysql.session import (
    ALREADY_THERE,
    DEADLOCK,
    IDLE_IN_TRANSACTION_S_MAX,
    LOCK_TIMEOUT_S,
    LOCK_WAIT_TIMEOUT,
    SQL,
    Connection,
    MySQLAddress,
    affected,
    answered_within,
    close_quietly,
    connection_is_lost,
    execute,
    is_error,
    quoted,
)
from directkafka.sinks.session_watch import SILENCE_S_MAX
from directkafka.sinks.staging import stale_staging_pattern

T = TypeVar("T")

_log = logging.getLogger("directkafka.sinks.mysql.store")

#: What ``lock_row`` and ``read_row`` select.
_COLUMNS: Final = (
    "pipeline", "format_version", "generation", "driver", "lineage", "batch_id", "batch_generation", "commit_id",
    "progress", "row_counts", "total_rows", "committed_at_ms",
)  # fmt: skip

#: The recorded session is ended after this part of the bound on waiting for its lock.
_GRACE_SHARE: Final = 5

#: Above every generation: a driver that is handed the next one takes over from whoever is there.
_ANY_GENERATION: Final = 2**63 - 1

#: How long a table of older drivers is waited for when it is dropped, in seconds.
_DROP_LOCK_TIMEOUT_S: Final = 1

#: Names of a session, in the row and as the lock that finds its connection.
_SESSION_NAME: Final = "directkafka {}"


class LedgerSession:
    """One driver's connection to its ledger; made when it is needed, and again when it was lost.

    Args:
        address: the database.
        lock_timeout_s: bound on waiting for a row's lock, in seconds.
        driver: an id of the driver.
    """

    def __init__(self, address: MySQLAddress, *, lock_timeout_s: float, driver: str) -> None:
        self._address = address
        self._lock_timeout_s = lock_timeout_s
        self._driver = driver
        self._connection: Connection | None = None
        self._name = ""
        self._recorded: set[tuple[str, int]] = set()
        #: Ends what waits, once it is set.
        self.stop: Event | None = None

    @contextmanager
    def guard(self, doing: str) -> Iterator[None]:
        """Watch what is done inside, and translate what pymysql raises; a session that is lost is not used again."""
        with self.watch(doing) as watch:
            try:
                yield
            except pymysql.MySQLError as error:
                if self._connection is not None and connection_is_lost(error, self._connection):
                    self.close()
                raise self._address.translate(error, note=watch.note_on(error)) from error

    def watch(self, doing: str) -> MySQLWatch:
        """A second look at what this session waits for."""
        return MySQLWatch(self._address, lambda: self._connection, doing=doing, stop=self.stop)

    def connection(self, pipeline: str) -> Connection:
        """The connection, in autocommit mode; another one if the server has ended the last one while it was idle."""
        if self._connection is not None:
            try:
                self._connection.ping(reconnect=False)
            except pymysql.MySQLError:
                self.close()
        if self._connection is None:
            connection = self._address.connect(f"directkafka {pipeline}")
            self._name = _SESSION_NAME.format(uuid.uuid4().hex)
            execute(connection, SQL["mark_session"], {"session": self._name})
            self._connection = connection
        return self._connection

    def recorded(self, pipeline: str, generation: int) -> Connection | None:
        """The connection, once the pipeline's row names it: before it may lock the row.

        Returns:
            None when the row has another generation, or is not there.

        Raises:
            FencedError: a newer driver has the row, and its lock.
        """
        connection = self.connection(pipeline)
        if (pipeline, generation) not in self._recorded:
            parameters = self._own(pipeline) | {"generation": generation}
            count = self.with_row_lock(
                pipeline, lambda: affected(connection, SQL["record_session"], parameters), held=generation
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
            try:
                execute(connection, SQL["create_ledger"])
            except pymysql.MySQLError as error:
                if not is_error(error, ALREADY_THERE):
                    raise

        def fence() -> int:
            execute(connection, SQL["new_row"], {"pipeline": pipeline, "format_version": format_version})
            row = self._row(connection, "lock_row", pipeline)
            assert row is not None, "it was made if it was not there"
            row_generation, is_own = int(row["generation"]), row["driver"] == self._driver
            if generation is not None and not (
                row_generation < generation or (row_generation == generation and is_own)
            ):
                raise FencedError(store=self._address.label, pipeline=pipeline, held=generation, found=row_generation)
            taken = row_generation + 1 if generation is None else generation
            execute(connection, SQL["fence"], self._own(pipeline) | {"generation": taken})
            return taken

        held = self.with_row_lock(pipeline, fence, ends_below=_ANY_GENERATION if generation is None else generation)
        self._recorded.add((pipeline, held))
        return held

    def state(self, pipeline: str) -> PipelineState:
        """The pipeline's row as last committed."""
        connection = self.connection(pipeline)
        return self._state(self._row(connection, "read_row", pipeline) if self._ledger_exists(connection) else None)

    def pipelines(self) -> tuple[str, ...]:
        """Who has committed here, sorted."""
        connection = self.connection("list")
        rows = execute(connection, SQL["list_pipelines"]) if self._ledger_exists(connection) else ()
        return tuple(name for (name,) in rows)

    def locked_state(self, pipeline: str) -> PipelineState:
        """The pipeline's row, inside a transaction, which keeps others from changing it."""
        assert self._connection is not None, "a transaction has a session"
        return self._state(self._row(self._connection, "lock_row", pipeline))

    def settled_state(self, pipeline: str, held: int) -> PipelineState:
        """The pipeline's row, once no transaction of this driver can change it any more.

        A driver of a higher generation in the row has waited for this one's transaction, or ended it: then the row is
        read beside that driver's lock.
        """
        self.connection(pipeline)
        try:
            return self.with_row_lock(pipeline, lambda: self.locked_state(pipeline), held=held)
        except FencedError:
            return self.state(pipeline)

    def begin(self) -> None:
        """Open a transaction that the server ends if its driver neither goes on nor hangs up."""
        assert self._connection is not None, "a transaction has a session"
        execute(self._connection, f"SET SESSION wait_timeout = {IDLE_IN_TRANSACTION_S_MAX}")
        execute(self._connection, "START TRANSACTION")

    def end(self) -> None:
        """COMMIT."""
        assert self._connection is not None, "a transaction has a session"
        execute(self._connection, "COMMIT")

    def rest(self) -> None:
        """Let the session be idle between two transactions for as long as the server lets any."""
        if self._connection is not None:
            try:
                execute(self._connection, "SET SESSION wait_timeout = @@GLOBAL.wait_timeout")
            except pymysql.MySQLError:
                self.close()

    def with_row_lock(self, pipeline: str, work: Callable[[], T], *, held: int | None = None, ends_below: int = 0) -> T:
        """Run ``work`` in a transaction; end the recorded session if it keeps the row locked for too long.

        Args:
            pipeline: whose row it is.
            work: what is done.
            held: the generation of this driver; None while it takes a new one.
            ends_below: whose session may be ended: this driver's own always, others' of generations below this.

        Raises:
            FencedError: a driver of a higher generation than ``held`` has the row.
            StoreUnavailableError: the lock could not be had in time.
        """
        assert self._connection is not None, "a lock has a session"
        connection = self._connection
        grace_s = max(1, int(self._lock_timeout_s / _GRACE_SHARE))
        deadline = time.monotonic() + self._lock_timeout_s
        while True:
            try:
                with _lock_timeout(connection, grace_s):
                    self.begin()
                    try:
                        done = work()
                        self.end()
                    except BaseException:
                        self.abort()
                        raise
                    self.rest()
                    return done
            except pymysql.MySQLError as error:
                if not is_error(error, LOCK_WAIT_TIMEOUT, DEADLOCK):
                    raise
                if held is not None:
                    self._check_held(pipeline, held)
                self._end_recorded_session(connection, pipeline, ends_below)
                if time.monotonic() >= deadline:
                    raise self._locked(pipeline) from error

    def drop_stale(self, pipeline: str, generation: int) -> None:
        """Drop what tasks of older drivers of this pipeline have staged."""
        connection = self.connection(pipeline)
        # The beginning of all names is the same; the rest of them says whose they are.
        named = {"schema": self._address.database, "pattern": "directkafka\\_stage\\_%"}
        pattern = re.compile(stale_staging_pattern(pipeline))
        matches = ((name, pattern.match(name)) for (name,) in execute(connection, SQL["list_staging"], named))
        self.drop(pipeline, [name for name, match in matches if match is not None and int(match[1]) < generation])

    def drop(self, pipeline: str, names: Iterable[str]) -> None:
        """Drop staging tables, where they are there; one that a task still writes to is left, and said to be."""
        connection = self.connection(pipeline)
        for name in names:
            try:
                with _lock_timeout(connection, _DROP_LOCK_TIMEOUT_S):
                    execute(connection, f"DROP TABLE IF EXISTS {quoted(self._address.database, name)}")
            except pymysql.MySQLError as error:
                if connection_is_lost(error, connection):
                    raise
                _log.warning("pipeline %s: staging table %s is left: %s", pipeline, name, error)

    def abort(self) -> None:
        """Roll back; a session that cannot is closed, and the server rolls back for it."""
        if self._connection is None:
            return
        try:
            # To undo many rows takes a while; the server does it also for a session that is gone.
            with answered_within(self._connection, SILENCE_S_MAX):
                execute(self._connection, "ROLLBACK")
                self.rest()
        except (pymysql.MySQLError, OSError):
            self.close()

    def close(self) -> None:
        """Give the connection back."""
        self._recorded.clear()
        if self._connection is not None:
            close_quietly(self._connection)
            self._connection = None

    def _own(self, pipeline: str) -> dict[str, Any]:
        return {"pipeline": pipeline, "driver": self._driver, "session": self._name}

    def _row(self, connection: Connection, block: str, pipeline: str) -> dict[str, Any] | None:
        rows = execute(connection, SQL[block], {"pipeline": pipeline})
        return dict(zip(_COLUMNS, rows[0], strict=True)) if rows else None

    def _state(self, row: Mapping[str, Any] | None) -> PipelineState:
        if row is None:
            return PipelineState()
        documents = {name: json.loads(row[name]) for name in ("progress", "row_counts", "total_rows")}
        return state_from_row({**row, **documents}, store=self._address.label)

    def _check_held(self, pipeline: str, held: int) -> None:
        generation = self.state(pipeline).generation
        if generation > held:
            raise FencedError(store=self._address.label, pipeline=pipeline, held=held, found=generation)

    def _end_recorded_session(self, connection: Connection, pipeline: str, below: int) -> None:
        parameters = {"pipeline": pipeline, "driver": self._driver, "below_generation": below}
        for (number,) in execute(connection, SQL["recorded_session"], parameters):
            # It may have ended by itself meanwhile; numbers are not used again.
            with _refusal_told():
                execute(connection, f"KILL {int(number)}")
                _log.warning("pipeline %s: ended a session that kept the ledger's row locked", pipeline)

    def _locked(self, pipeline: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            store=self._address.label,
            cause=f"the ledger's row of pipeline {pipeline!r} has been locked for {self._lock_timeout_s:g} s by "
            "another session (see information_schema.innodb_trx)",
        )

    def _ledger_exists(self, connection: Connection) -> bool:
        """Whether there is a ledger, one whose changes are transactions.

        Raises:
            SchemaMismatchError: it is of another engine than InnoDB.
        """
        rows = execute(connection, SQL["find_ledger"])
        if rows and str(rows[0][0]).lower() != "innodb":
            raise SchemaMismatchError(
                store=self._address.label,
                sink="the ledger",
                detail=f"directkafka_ledger is of engine {rows[0][0]}, whose changes cannot be rolled back: run ALTER "
                "TABLE directkafka_ledger ENGINE = InnoDB",
            )
        return bool(rows)


@contextmanager
def _refusal_told() -> Iterator[None]:
    """Go on behind what the server refuses, and say so."""
    try:
        yield
    except pymysql.MySQLError as error:
        _log.warning("a session that keeps a row locked could not be ended: %s", error)


@contextmanager
def _lock_timeout(connection: Connection, seconds: int) -> Iterator[None]:
    """Wait less long for locks of rows and tables."""
    _set_lock_timeout(connection, seconds)
    try:
        yield
    finally:
        if connection.open:
            try:
                _set_lock_timeout(connection, LOCK_TIMEOUT_S)
            except pymysql.MySQLError:
                close_quietly(connection)


def _set_lock_timeout(connection: Connection, seconds: int) -> None:
    execute(connection, f"SET SESSION innodb_lock_wait_timeout = {seconds}, SESSION lock_wait_timeout = {seconds}")
