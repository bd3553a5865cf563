"""A second look at a session that waits: who is in its way, and its end when a stop is asked for.

A statement that waits for a lock says nothing, and its driver can do nothing else meanwhile. So a thread watches it.
Once the work takes long, it asks the same server, over a connection of its own, what the session waits for, and says
so. Sequence of events: an application leaves a transaction open behind ``LOCK TABLE flights``; the commit's first
INSERT waits; 5 s later a warning names the application's process, and says so again every 10 s; SIGTERM comes; the
statement is cancelled, the transaction is rolled back, and the pipeline ends. Were nobody to ask for a stop, the
session's own limit would end the try.

What is never cancelled is COMMIT itself. So cancels are refused before COMMIT is sent.

A server that answers nobody, neither the session nor a new connection, is given up after a while: the session's socket
is shut down, which its statement takes for a lost connection. To refuse a connection is an answer, and a login may take
as long as the address allows: a server that has much to do must not lose the sessions in which it does it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import ClassVar, Final, Generic, Self, TypeVar

Session = TypeVar("Session")

#: When the first look comes, in seconds from the beginning of the work. By then databases have dealt with deadlocks,
#: and Postgres has ended an autovacuum that was in the way (after ``deadlock_timeout``, 1 s).
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

#: What comes before a statement's first word.
_COMMENTS: Final = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_KIND: Final = re.compile(
    r"([a-z]{1,20})(?:\s*\(?\s*(table|tables|full|analyze|index|materialized|view|schema|role|database|function"
    r"|prepared)\b)?",
    re.IGNORECASE,
)


class ServerSilentError(Exception):
    """A server has answered a look with nothing for as long as a login may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a session waits for.

    Attributes:
        lock: what is to be locked.
        blockers: the sessions that have it, or are before it in the queue, in words.
        other: what it waits for if not for another session, in words.
    """

    lock: str = ""
    blockers: tuple[str, ...] = ()
    other: str = ""

    @property
    def is_lock(self) -> bool:
        """Whether other sessions are in the way."""
        return bool(self.blockers)

    def __str__(self) -> str:
        return f"{self.lock or 'a lock'} behind {', '.join(self.blockers)}" if self.blockers else self.other


def statement_kind(query: str) -> str:
    """The first word or two of a statement: never a value, which could be anybody's secret."""
    match = _KIND.match(_COMMENTS.sub("", query))
    return " ".join(filter(None, match.groups())).upper() if match else ""


class SessionWatch(ABC, Generic[Session]):
    """As a context manager: watches what is done in a session meanwhile, from a thread of its own.

    Args:
        session: the session that is at work, or None before it is connected.
        doing: what is being done, for messages.
        stop: once it is set, a session that waits is not waited for.

    Attributes:
        note: what it was seen to wait for, for the error that this ended with; empty when it was not seen to wait.
        gave_up: whether the session's connection was shut down, since nobody answered.
        log: where it is told.
    """

    log: ClassVar[logging.Logger]

    def __init__(self, session: Callable[[], Session | None], *, doing: str, stop: Event | None = None) -> None:
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
        return self.note or (self._last_wait if self._has_ended_a_wait(error) else "")

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
                self.log.debug("cannot see what %s waits for: %s", self._doing, error)
            if now >= look_at:
                look_at = now + LOOK_AGAIN_S
            if is_stopping:
                stop_look_at = now + STOP_LOOK_AGAIN_S

    def _look(self, *, is_stopping: bool, is_time_to_tell: bool) -> None:
        session = self._session()
        if session is None or self._is_closed(session):
            return
        looked_at = time.monotonic()
        try:
            wait = self._waits_for(session)
        except ServerSilentError:
            self._heed_silence(session, looked_at, is_stopping=is_stopping)
            return
        except Exception as error:  # noqa: BLE001 - whatever the server said, it has answered
            self.log.debug("cannot see what %s waits for: %s", self._doing, error)
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
            self.log.warning("%s has taken %.0f s and waits for %s", self._doing, time.monotonic() - self._begun, wait)
        if is_stopping:
            self._end(session, wait)

    def _end(self, session: Session, wait: Wait) -> None:
        """A stop was asked for: leave the lock's queue, or leave a COMMIT to the server."""
        self.note = self._last_wait = f"a stop was asked for while it waited for {wait}"
        if not wait.is_lock:
            self._give_up(session)
            return
        with self._lock:
            if self._may_cancel and not self._over.is_set():
                with suppress(Exception):
                    self._cancel(session)

    def _heed_answer(self) -> None:
        if self._silent_looks:
            self.note = ""
        self._silent_since, self._silent_looks = None, 0

    def _heed_silence(self, session: Session, looked_at: float, *, is_stopping: bool) -> None:
        if self._over.is_set():
            return
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = looked_at
        self._silent_looks += 1
        self.note = f"the server has answered nobody since {now - self._silent_since:.0f} s"
        self.log.warning("%s has taken %.0f s, and the server answers nobody", self._doing, now - self._begun)
        is_given_up = is_stopping and self._silent_looks >= SILENT_LOOKS_MAX
        if is_given_up or now - self._silent_since >= SILENCE_S_MAX:
            self._give_up(session)

    def _give_up(self, session: Session) -> None:
        with self._lock:
            if not self._over.is_set():
                self.gave_up = True
                self._shut_down(session)

    @abstractmethod
    def _has_ended_a_wait(self, error: BaseException) -> bool:
        """Whether an error is the end of a wait for a lock: by a limit, or somebody's cancel."""

    @abstractmethod
    def _waits_for(self, session: Session) -> Wait | None:
        """Ask the session's server, over another connection, what the session waits for; None: for nobody.

        Raises:
            ServerSilentError: no answer for as long as a login may take.
            Exception: the server has answered, and tells nothing.
        """

    @abstractmethod
    def _cancel(self, session: Session) -> None:
        """End the statement of a session; the session stays."""

    @abstractmethod
    def _is_closed(self, session: Session) -> bool:
        """Whether the session is over."""

    @abstractmethod
    def _shut_down(self, session: Session) -> None:
        """End the session's connection from this thread: whoever reads from it sees its end."""
