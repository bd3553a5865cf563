"""A second look at a session that waits: who is in its way, and its end when a stop is asked for.

A statement that waits for a lock says nothing, and its driver can do nothing else meanwhile. So a thread watches it.
Once the work takes long, it asks the same server, over a connection of its own, what the session waits for, and says
so. Sequence of events: an application leaves a transaction open behind ``LOCK TABLE flights``; the commit's first
INSERT waits; 5 s later a warning names the application's process, and says so again every 10 s; SIGTERM comes; the
statement is cancelled, the transaction is rolled back, and the pipeline ends. Were nobody to ask for a stop, the
session's ``lock_timeout`` would end the try.

What is never cancelled is COMMIT itself. One that waits for a synchronous standby has committed already, and a cancel
would only end the wait for the copy. So cancels are refused before COMMIT is sent, and what a deferred constraint has
to wait for, it waits for before that (``SET CONSTRAINTS ALL IMMEDIATE``).

A server that answers nobody, neither the session nor a new connection, is given up after a while: the session's socket
is shut down, which its statement takes for a lost connection. To refuse a connection is an answer, and a login may take
as long as the DSN allows: a server that has much to do must not lose the sessions in which it does it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any, Final, Self

import psycopg
from psycopg.rows import dict_row

from directkafka.sinks.postgres.session import SQL, PostgresAddress, answered_within, shut_down

#: What ends a wait for a lock: a limit, or somebody's cancel.
WAIT_ENDED: Final = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)

_log = logging.getLogger("directkafka.sinks.postgres.store")

#: When the first look comes, in seconds from the beginning of the work. By then Postgres has dealt with deadlocks, and
#: has ended an autovacuum that was in the way (after ``deadlock_timeout``, 1 s).
FIRST_LOOK_S: Final = 5.0
LOOK_AGAIN_S: Final = 10.0
#: How long a session may go on after a stop was asked for before it is looked at: most locks are had by then.
STOP_GRACE_S: Final = 1.0
STOP_LOOK_AGAIN_S: Final = 0.5
#: How long a server may answer nobody.
SILENCE_S_MAX: Final = 60.0
#: How many looks in a row it may leave without an answer once a stop is asked for.
SILENT_LOOKS_MAX: Final = 3

_TICK_S: Final = 0.25
_CANCEL_S_MAX: Final = 2.0

_Session = psycopg.Connection[Any]

#: What comes before a statement's first word.
_COMMENTS: Final = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_KIND: Final = re.compile(
    r"([a-z]{1,20})(?:\s*\(?\s*(table|full|analyze|index|materialized|view|schema|role|database|function|prepared)\b)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """A session in the way of another one, as far as this user may see it.

    Attributes:
        pid: its process id; 0 is a prepared transaction, which has no process.
        user, application, state: as in ``pg_stat_activity``; empty where they may not be seen.
        state_s: how long it has been in that state, in seconds.
        statement: the kind of its last statement, without names and values.
    """

    pid: int
    user: str = ""
    application: str = ""
    state: str = ""
    state_s: int | None = None
    statement: str = ""

    def __str__(self) -> str:
        if self.pid == 0:
            return "a prepared transaction (see pg_prepared_xacts)"
        since = f" for {self.state_s} s" if self.state_s is not None else ""
        told = (
            f"user {self.user!r}" if self.user else "",
            f"application {self.application!r}" if self.application else "",
            f"{self.state}{since}" if self.state else "",
            f"last statement {self.statement}" if self.statement else "",
        )
        return f"process {self.pid} ({', '.join(filter(None, told)) or 'gone now'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a session waits for.

    Attributes:
        event: ``pg_stat_activity.wait_event``.
        lock: what is to be locked; empty for other waits.
        blockers: the sessions that have it, or are before it in the queue.
    """

    event: str
    lock: str = ""
    blockers: tuple[Blocker, ...] = ()

    @property
    def is_lock(self) -> bool:
        """Whether other sessions are in the way."""
        return bool(self.blockers)

    def __str__(self) -> str:
        if not self.blockers:
            return "a standby that confirms the commit (SyncRep; see pg_stat_replication)"
        return f"{self.lock or 'a lock'} behind {', '.join(map(str, self.blockers))}"


def statement_kind(query: str) -> str:
    """The first word or two of a statement: never a value, which could be anybody's secret."""
    found = _KIND.match(_COMMENTS.sub("", query))
    return " ".join(filter(None, found.groups())).upper() if found else ""


class SessionWatch:
    """As a context manager: watches what is done in a session meanwhile, from a thread of its own.

    Args:
        address: the database.
        session: the session that is at work, or None before it is connected.
        doing: what is being done, for messages.
        stop: once it is set, a session that waits is not waited for.

    Attributes:
        note: what it was seen to wait for, for the error that this ended with; empty when it was not seen to wait.
        gave_up: whether the session's connection was shut down, since nobody answered.
    """

    def __init__(
        self,
        address: PostgresAddress,
        session: Callable[[], _Session | None],
        *,
        doing: str,
        stop: Event | None = None,
    ) -> None:
        self._address = address
        self._session = session
        self._doing = doing
        self._stop = stop
        self._over = threading.Event()
        #: Held while a cancel is on its way, so that it cannot strike what comes after.
        self._lock = threading.Lock()
        self._may_cancel = True
        self._silent_since: float | None = None
        self._silent_looks = 0
        self.note = ""
        self._last_wait = ""
        self.gave_up = False

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        threading.Thread(target=self._run, name=f"watch: {self._doing}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over.set()

    def note_on(self, error: BaseException) -> str:
        """What to say beside an error: what the session waits for; or waited for last, where the error ended a wait.

        Sequence of events: the server ends the wait, a look finds a session that waits for nothing, the error arrives.
        """
        return self.note or (self._last_wait if isinstance(error, WAIT_ENDED) else "")

    def refuse_cancels(self) -> None:
        """From here on nothing is cancelled: COMMIT comes next."""
        with self._lock:
            self._may_cancel = False

    def _run(self) -> None:
        look_at = self._begun + FIRST_LOOK_S
        stop_look_at: float | None = None
        while not self._over.wait(_TICK_S):
            now = time.monotonic()
            if stop_look_at is None and self._stop is not None and self._stop.is_set():
                stop_look_at = now + STOP_GRACE_S
            is_stopping = stop_look_at is not None and now >= stop_look_at
            if now < look_at and not is_stopping:
                continue
            try:
                self._look(is_stopping=is_stopping, is_time_to_tell=now >= look_at)
            except Exception as error:  # noqa: BLE001 - a look that fails must not end the work
                _log.debug("cannot see what %s waits for: %s", self._doing, error)
            if now >= look_at:
                look_at = now + LOOK_AGAIN_S
            if is_stopping:
                stop_look_at = now + STOP_LOOK_AGAIN_S

    def _look(self, *, is_stopping: bool, is_time_to_tell: bool) -> None:
        session = self._session()
        if session is None or session.closed:
            return
        looked_at = time.monotonic()
        try:
            wait = self._waits_for(session)
        except psycopg.errors.ConnectionTimeout:
            self._heed_silence(session, looked_at, is_stopping=is_stopping)
            return
        except psycopg.Error as error:
            _log.debug("cannot see what %s waits for: %s", self._doing, error)
            self._heed_answer()
            return
        self._heed_answer()
        if self._over.is_set():
            return
        if wait is None:
            self.note = ""
            return
        self.note = self._last_wait = f"it waited for {wait}"
        if is_time_to_tell:
            _log.warning("%s has taken %.0f s and waits for %s", self._doing, time.monotonic() - self._begun, wait)
        if is_stopping:
            self._end(session, wait)

    def _end(self, session: _Session, wait: Wait) -> None:
        """A stop was asked for: leave the lock's queue, or leave a COMMIT to the server."""
        self.note = self._last_wait = f"a stop was asked for while it waited for {wait}"
        if not wait.is_lock:
            self._give_up(session)
            return
        with self._lock:
            if self._may_cancel and not self._over.is_set():
                with suppress(psycopg.Error):
                    session.cancel_safe(timeout=_CANCEL_S_MAX)

    def _heed_answer(self) -> None:
        if self._silent_looks:
            self.note = ""
        self._silent_since, self._silent_looks = None, 0

    def _heed_silence(self, session: _Session, looked_at: float, *, is_stopping: bool) -> None:
        if self._over.is_set():
            return
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = looked_at
        self._silent_looks += 1
        self.note = f"the server has answered nobody since {now - self._silent_since:.0f} s"
        _log.warning("%s has taken %.0f s, and the server answers nobody", self._doing, now - self._begun)
        is_given_up = is_stopping and self._silent_looks >= SILENT_LOOKS_MAX
        if is_given_up or now - self._silent_since >= SILENCE_S_MAX:
            self._give_up(session)

    def _give_up(self, session: _Session) -> None:
        with self._lock:
            if not self._over.is_set():
                self.gave_up = True
                shut_down(session)

    def _waits_for(self, session: _Session) -> Wait | None:
        limit_s = self._address.login_s_max
        beside = self._address.connect_beside(session, timeout_s=limit_s)
        with beside, answered_within(beside, limit_s), beside.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(SQL["waiting_for"], {"pid": session.info.backend_pid}).fetchall()
        blockers = tuple(
            Blocker(
                pid=row["pid"],
                user=row["usename"] or "",
                application=row["application_name"] or "",
                state=row["state"] or "",
                state_s=row["state_s"],
                statement=statement_kind(row["query"] or ""),
            )
            for row in rows
            if row["pid"] is not None
        )
        event = (rows[0]["wait_event"] or "") if rows else ""
        if not blockers and event != "SyncRep":
            return None
        return Wait(event=event, lock=rows[0]["lock"] or "", blockers=blockers)
