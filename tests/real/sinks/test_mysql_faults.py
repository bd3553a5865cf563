"""What a driver makes of sessions that are lost, and of COMMITs without an answer, against a real MariaDB."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.contract.mysql_harness import MySQLHarness
from tests.real.sinks.postgres_proxy import Loss, MySQLProxy

from directkafka.errors import CommitUnknownError, FencedError, OffsetMismatchError, StoreUnavailableError
from directkafka.sinks.mysql.ledger_session import LedgerSession
from directkafka.sinks.mysql.session import MySQLAddress, execute
from directkafka.sinks.mysql.sink import MySQLSink
from directkafka.sinks.mysql.store import MySQLStore, MySQLTransaction
from directkafka.testing import EmbeddedMariaDB
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real


@pytest.fixture
def harness(mysql_database: str) -> MySQLHarness:
    return MySQLHarness(mysql_database)


@pytest.fixture
def sink(mysql_database: str) -> MySQLSink:
    return MySQLSink(mysql_database, "flights")


@pytest.fixture
def job(mysql_database: str) -> Iterator[Job]:
    job = Job(MySQLStore(mysql_database, fence_timeout_s=2.0, resolve_timeout_s=5.0)).start()
    yield job
    job.store.close()


@pytest.fixture
def proxy(mysql_database: str) -> Iterator[MySQLProxy]:
    url = urlsplit(mysql_database)
    with MySQLProxy(str(url.hostname), int(url.port or 0)) as proxy:
        yield proxy


@pytest.fixture
def far_job(mysql_database: str, proxy: MySQLProxy) -> Iterator[Job]:
    """A driver behind the proxy."""
    url = urlsplit(mysql_database)
    dsn = url._replace(netloc=f"{url.username}:{url.password}@127.0.0.1:{proxy.port}").geturl()
    job = Job(MySQLStore(dsn, fence_timeout_s=2.0, resolve_timeout_s=3.0)).start()
    yield job
    job.store.close()


def test_a_commit_whose_answer_was_lost_is_found_done(
    harness: MySQLHarness, sink: MySQLSink, proxy: MySQLProxy, far_job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    far_job.run((sink, [[(1, 1)]]))
    proxy.loss = Loss.ANSWER
    with caplog.at_level(logging.INFO):
        entry = far_job.run((sink, [[(2, 1)]]))
    assert proxy.happened == [Loss.ANSWER]
    assert "answer to COMMIT was lost" in caplog.text
    assert entry.total_rows == {"flights": 2}
    assert far_job.store.read("flights") == entry
    far_job.run((sink, [[(3, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REQUEST_HALF_OPEN], ids=lambda loss: loss.name)
def test_a_commit_that_never_arrived_is_found_not_done(
    harness: MySQLHarness, sink: MySQLSink, proxy: MySQLProxy, far_job: Job, loss: Loss
) -> None:
    """Half open, the old session still has the row's lock: it is ended before the row is read."""
    far_job.run((sink, [[(1, 1)]]))
    proxy.loss = loss
    with pytest.raises(StoreUnavailableError):
        far_job.run((sink, [[(2, 1)]]))
    assert proxy.happened == [loss]
    assert harness.rows(sink) == [(1, 1)]
    far_job.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST], ids=lambda loss: loss.name)
def test_a_lost_commit_that_cannot_be_looked_up_is_unknown(
    harness: MySQLHarness, sink: MySQLSink, proxy: MySQLProxy, far_job: Job, loss: Loss
) -> None:
    far_job.run((sink, [[(1, 1)]]))
    proxy.loss, proxy.refuse_after_loss = loss, True
    with pytest.raises(CommitUnknownError) as caught:
        far_job.run((sink, [[(2, 1)]]))
    assert (caught.value.pipeline, caught.value.batch_id) == ("flights", 1)
    proxy.refuse = False
    new = Job(harness.open_store()).start()
    assert new.last is not None
    assert new.last.batch_id == (1 if loss is Loss.ANSWER else 0)
    if new.last.batch_id == 0:
        new.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1)]
    new.store.close()


@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST], ids=lambda loss: loss.name)
def test_a_lost_commit_after_which_another_took_over(
    harness: MySQLHarness, sink: MySQLSink, proxy: MySQLProxy, far_job: Job, loss: Loss,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Committed first and taken over then: done. Never arrived: the older driver is fenced."""
    far_job.run((sink, [[(1, 1)]]))
    other = harness.open_store()
    settle = LedgerSession.settled_state

    def take_over_first(session: LedgerSession, pipeline: str, held: int) -> Any:
        other.fence("flights")
        return settle(session, pipeline, held)

    monkeypatch.setattr(LedgerSession, "settled_state", take_over_first)
    proxy.loss = loss
    if loss is Loss.ANSWER:
        assert far_job.run((sink, [[(2, 1)]])).batch_id == 1
        with pytest.raises(FencedError):
            far_job.run((sink, [[(3, 1)]]))
    else:
        with pytest.raises(FencedError):
            far_job.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == ([(1, 1), (2, 1)] if loss is Loss.ANSWER else [(1, 1)])
    assert proxy.happened == [loss]
    other.close()


class Meanwhile:
    """A sink during whose work, with the ledger's row locked, something else happens."""

    name = "meanwhile"

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def apply(self, transaction: MySQLTransaction, *_: object) -> int:
        self._happens()
        execute(transaction.connection, "SELECT 1")
        return 0


def commit_and_meanwhile(job: Job, happens: Callable[[], object]) -> None:
    entry = job.next_entry()
    job.last = job.store.commit(entry, previous=job.last, writes=[(Meanwhile(happens), job.batch(entry), [])])


def test_a_driver_that_stands_still_in_its_commit_is_passed_in_bounded_time(harness: MySQLHarness, job: Job) -> None:
    job.run()
    newer = harness.open_store()

    def take_over() -> None:
        began = time.monotonic()
        assert newer.fence("flights") == 2
        assert time.monotonic() - began < 5.0

    with closing(newer), pytest.raises(FencedError):
        commit_and_meanwhile(job, take_over)


def test_a_driver_that_reconnected_can_still_be_passed(harness: MySQLHarness, job: Job) -> None:
    """Its new session must be the recorded one, or the fence could not get past its lock."""
    job.run()
    job.store.close()
    newer = harness.open_store()
    with closing(newer), pytest.raises(FencedError):
        commit_and_meanwhile(job, lambda: newer.fence("flights"))


def test_a_stranger_that_locks_the_ledger_is_not_ended(harness: MySQLHarness, job: Job) -> None:
    """Only the session that the row names may be ended."""
    with closing(MySQLAddress.parse(harness.dsn).connect("somebody's client")) as stranger:
        execute(stranger, "START TRANSACTION")
        execute(stranger, "SELECT 1 FROM directkafka_ledger FOR UPDATE")
        with (
            closing(MySQLStore(harness.dsn, fence_timeout_s=1.0)) as store,
            pytest.raises(StoreUnavailableError, match="has been locked for 1 s"),
        ):
            store.fence("flights")
        assert execute(stranger, "SELECT 1") == [(1,)]
        execute(stranger, "ROLLBACK")
    assert job.store.fence("flights") == 2


def test_a_session_ended_in_the_commit_is_a_definite_failure(harness: MySQLHarness, sink: MySQLSink, job: Job) -> None:
    job.run((sink, [[(1, 1)]]))

    def end() -> None:
        ((number,),) = harness.query("SELECT is_used_lock(session) FROM directkafka_ledger WHERE pipeline = 'flights'")
        harness.query(f"KILL {number}")

    with pytest.raises(StoreUnavailableError):
        commit_and_meanwhile(job, end)
    assert job.store.read("flights") == job.last
    job.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1)]


def test_a_session_that_the_server_ended_while_it_was_idle_is_made_again(
    harness: MySQLHarness, sink: MySQLSink, job: Job
) -> None:
    job.run((sink, [[(1, 1)]]))
    ((number,),) = harness.query("SELECT is_used_lock(session) FROM directkafka_ledger WHERE pipeline = 'flights'")
    harness.query(f"KILL {number}")
    job.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1)]


def test_an_older_state_of_the_ledger_is_no_newer_driver_s_doing(
    harness: MySQLHarness, sink: MySQLSink, job: Job
) -> None:
    """The database was restored, or a replica took its place that had not seen this driver's fence."""
    job.run((sink, [[(1, 1)]]))
    job.start()
    harness.query("UPDATE directkafka_ledger SET generation = 1")
    with pytest.raises(OffsetMismatchError, match="an older state of the ledger was restored"):
        job.run((sink, [[(2, 1)]]))


@pytest.mark.slow
def test_rows_that_are_staged_survive_a_crash_of_the_server_or_are_missed() -> None:
    with EmbeddedMariaDB() as server:
        harness = MySQLHarness(server.create_database("crash"))
        sink = harness.sink("flights", staged=True)
        job = Job(harness.open_store()).start()
        job.run((sink, [[(1, 1)]]))
        entry = job.next_entry()
        written = job.write(sink, job.batch(entry), [[(2, 1)], [(3, 1)]])
        server.kill()
        server.restart()
        job.last = job.store.commit(entry, previous=job.last, writes=[written])
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]
        assert harness.leftovers() == []
        job.store.close()
