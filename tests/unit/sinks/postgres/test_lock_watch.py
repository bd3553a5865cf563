"""What is said of sessions that are in the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from directkafka.sinks.postgres import lock_watch
from directkafka.sinks.postgres.lock_watch import PostgresWatch, blocker_in_words
from directkafka.sinks.postgres.session import PostgresAddress
from directkafka.sinks.session_watch import ServerSilentError, Wait

DSN = "postgresql://nobody@127.0.0.1:1/none"
SILENT = ServerSilentError()
REFUSED = psycopg.OperationalError("FATAL: sorry, too many clients already")
WAITS_FOR_NOBODY = None


class Session:
    """A session that works."""

    closed = False


class Looks:
    """What a watch's looks bring, and the watch; the clock moves by so many seconds at each look."""

    def __init__(self, watch: PostgresWatch, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watch = watch
        self._now = 1000.0
        self._monkeypatch = monkeypatch
        monkeypatch.setattr("directkafka.sinks.session_watch.time.monotonic", lambda: self._now)
        watch._begun = self._now

    def see(self, wait_or_error: object, *, is_stopping: bool = False, took_s: float = 2.0) -> None:
        def look(_session: Any) -> Any:
            self._now += took_s
            if isinstance(wait_or_error, Exception):
                raise wait_or_error
            return wait_or_error

        self._monkeypatch.setattr(self.watch, "_waits_for", look)
        self.watch._look(is_stopping=is_stopping, is_time_to_tell=False)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The sessions that are shut down."""
    sessions: list[object] = []
    monkeypatch.setattr(lock_watch, "shut_down", sessions.append)
    return sessions


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, cut: list[object]) -> Iterator[Looks]:
    session: Any = Session()
    watch = PostgresWatch(PostgresAddress.parse(DSN), lambda: session, doing="a commit", stop=threading.Event())
    yield Looks(watch, monkeypatch)
    assert bool(cut) is watch.gave_up


def test_a_server_that_is_silent_for_a_minute_is_given_up(looks: Looks, cut: list[object]) -> None:
    for _ in range(6):
        looks.see(SILENT, took_s=9.9)
    assert cut == []
    looks.see(SILENT, took_s=9.9)
    assert len(cut) == 1
    assert looks.watch.note == "the server has answered nobody since 69 s"


@pytest.mark.parametrize("answer", [REFUSED, WAITS_FOR_NOBODY], ids=["too many clients", "a look"])
def test_any_answer_ends_a_server_s_silence(looks: Looks, cut: list[object], answer: object) -> None:
    """A server that refuses a second session may well work in the first one."""
    for _ in range(3):
        for _ in range(2):
            looks.see(SILENT, took_s=25.0)
        looks.see(answer)
        assert looks.watch.note == ""
    assert cut == []


def test_who_was_in_the_way_is_known_also_to_a_look_behind_the_end_of_the_wait(looks: Looks) -> None:
    """The server has ended the wait, and the error is on its way, when the session is looked at once more."""
    looks.see(Wait(blockers=("process 7",)))
    looks.see(WAITS_FOR_NOBODY)
    timeout, refused = psycopg.errors.LockNotAvailable("lock timeout"), psycopg.errors.UniqueViolation("twice")
    assert "it waited for a lock behind process 7" in looks.watch.note_on(timeout)
    assert looks.watch.note_on(refused) == "", "what it had to wait for before is not why"


def test_a_server_must_be_silent_three_times_before_a_stop_cuts_its_session(looks: Looks, cut: list[object]) -> None:
    for _ in range(2):
        looks.see(SILENT, is_stopping=True)
    looks.see(REFUSED, is_stopping=True)
    for _ in range(2):
        looks.see(SILENT, is_stopping=True)
    assert cut == []
    looks.see(SILENT, is_stopping=True)
    assert len(cut) == 1


@pytest.mark.parametrize(("setting", "waited_s"), [("", 10), ("?connect_timeout=3", 3), ("?connect_timeout=0", 10)])
def test_a_look_may_take_as_long_as_a_login_may(setting: str, waited_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose logins take 3 s is not silent."""
    given: list[Any] = []

    def connect_beside(_address: PostgresAddress, _session: Any, *, timeout_s: int) -> Any:
        given.append(timeout_s)
        raise psycopg.errors.ConnectionTimeout("connection timeout expired")

    monkeypatch.setattr(PostgresAddress, "connect_beside", connect_beside)
    session: Any = Session()
    watch = PostgresWatch(PostgresAddress.parse(DSN + setting), lambda: session, doing="a commit")
    with pytest.raises(ServerSilentError):
        watch._waits_for(session)
    assert given == [waited_s]


def seen(**known: object) -> dict[str, Any]:
    return dict.fromkeys(("usename", "application_name", "state", "state_s", "query")) | known


def test_a_blocker_is_told_as_far_as_it_may_be_seen() -> None:
    whole = seen(pid=7, usename="app", application_name="psql", state="active", state_s=12, query="VACUUM FULL t")
    words = "process 7 (user 'app', application 'psql', active for 12 s, last statement VACUUM FULL)"
    assert blocker_in_words(whole) == words
    assert blocker_in_words(seen(pid=7, usename="app")) == "process 7 (user 'app')"
    assert blocker_in_words(seen(pid=7)) == "process 7 (gone now)"
    assert blocker_in_words(seen(pid=0)) == "a prepared transaction (see pg_prepared_xacts)"


def test_a_wait_for_a_standby_is_no_lock() -> None:
    assert not Wait(other="a standby").is_lock
    assert str(Wait(other="a standby")) == "a standby"
    assert str(Wait(lock="ShareLock on t", blockers=("process 7",))) == "ShareLock on t behind process 7"
