"""What a driver does while others hold locks of a real MariaDB: it says who, and it can be stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.contract.mysql_harness import MySQLHarness
from tests.waiting import WAIT_S, until

from directkafka.errors import StoreUnavailableError
from directkafka.sinks import session_watch
from directkafka.sinks.mysql.lock_watch import blocker_in_words
from directkafka.sinks.mysql.session import Connection, MySQLAddress, close_quietly, execute, number_of
from directkafka.sinks.mysql.store import MySQLStore
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real

#: Bounds on the time from a stop to its end, and from the wait to its first warning.
STOP_S_MAX = 5.0
WARNING_S_MAX = 10.0

#: What an application leaves open, and what the wait for it is called.
LOCKS = {
    "a row": ("SELECT * FROM flights FOR UPDATE", "a row that another transaction has changed"),
    "a table": ("LOCK TABLES flights WRITE", "table metadata lock"),
}


@pytest.fixture
def harness(mysql_database: str) -> MySQLHarness:
    return MySQLHarness(mysql_database)


@pytest.fixture
def job(harness: MySQLHarness) -> Iterator[Job]:
    job = Job(harness.open_store()).start()
    yield job
    job.store.close()


@pytest.fixture
def stop(job: Job) -> threading.Event:
    """Heeded by the job's store."""
    stop = threading.Event()
    assert isinstance(job.store, MySQLStore)
    job.store.heed(stop)
    return stop


@pytest.fixture
def other(harness: MySQLHarness) -> Iterator[Connection]:
    """An application's session; what it locks stays locked until it hangs up."""
    connection = MySQLAddress.parse(harness.dsn).connect("forgotten client")
    yield connection
    close_quietly(connection)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "a row" else pytest.mark.slow) for kind in LOCKS]
)
def test_a_commit_behind_a_forgotten_session_names_it_within_ten_seconds_and_goes_on_when_it_ends(
    kind: str, harness: MySQLHarness, job: Job, other: Connection, pool: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    statement, lock = LOCKS[kind]
    sink = harness.sink("flights", mode="merge")
    job.run((sink, [[(1, 1)]]))
    execute(other, "START TRANSACTION")
    execute(other, statement)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        commit = pool.submit(job.run, (sink, [[(1, 1)]]))
        name = f"connection {number_of(other)} (user 'root'"
        until(lambda: lock in caplog.text and name in caplog.text, f"no warning that names {name}: {caplog.text}")
        assert time.monotonic() - began < WARNING_S_MAX
    other.close()
    commit.result(WAIT_S)
    assert harness.rows(sink) == [(1, 2)]


@pytest.mark.parametrize("kind", LOCKS)
def test_a_stop_ends_a_commit_that_waits_for_a_lock_and_nothing_is_lost(
    kind: str, harness: MySQLHarness, job: Job, other: Connection, pool: ThreadPoolExecutor, stop: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(session_watch, "FIRST_LOOK_S", 60.0)
    sink = harness.sink("flights", mode="merge")
    first = job.run((sink, [[(1, 1)]]))
    execute(other, "START TRANSACTION")
    execute(other, LOCKS[kind][0])
    commit = pool.submit(job.run, (sink, [[(1, 1)]]))
    time.sleep(1.0)
    stop.set()
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="a stop was asked for while it waited for"):
        commit.result(WAIT_S)
    assert time.monotonic() - began < STOP_S_MAX
    other.close()
    assert job.store.read("flights") == first
    assert harness.rows(sink) == [(1, 1)]


def test_no_session_of_ours_waits_for_a_lock_for_ever(harness: MySQLHarness) -> None:
    limits = harness.query("SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout")
    assert limits == [(30, 30)]


def test_a_blocker_is_told_as_far_as_it_may_be_seen() -> None:
    words = "connection 7 (user 'app', active for 12 s, statement ALTER TABLE)"
    assert blocker_in_words(7, "app", "Query", 12, "alter table t add secret int") == words
    assert blocker_in_words(7, "app", "Sleep", 3, None) == "connection 7 (user 'app', idle for 3 s)"
    assert blocker_in_words(7, None, None, None, None) == "connection 7 (gone now)"
