"""Crash points 22 to 24: stopped drivers, lost answers, ended sessions, a killed server."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import psutil
import psycopg
import pytest
from psycopg import conninfo
from tests.real.sinks.postgres_proxy import Loss, PostgresProxy
from tests.waiting import WAIT_S, until

from directkafka.errors import (
    CommitUnknownError,
    FencedError,
    OffsetMismatchError,
    RowCountError,
    RowRejectedError,
    StoreUnavailableError,
)
from directkafka.fault_points import InjectedFaultError
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.testing import EmbeddedPostgres
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]


def rows(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return sorted(connection.execute("SELECT * FROM flights").fetchall())


@pytest.fixture
def sink(database: str) -> PostgresSink:
    return PostgresSink(database, "flights")


@pytest.fixture
def job(database: str) -> Iterator[Job]:
    job = Job(PostgresStore(database, fence_timeout_s=2.0, resolve_timeout_s=5.0)).start()
    yield job
    job.store.close()


# A stopped driver.


@pytest.fixture
def start_driver(database: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(fault: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.real.sinks.stopped_driver", fault],
            cwd=ROOT, env=os.environ | {"DSN": database}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def stopped(process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, "the driver ended before it reached its fault point"
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


@pytest.mark.parametrize(
    "point",
    [
        "commit.ledger_updated",
        *(pytest.param(f"commit.{p}", marks=pytest.mark.slow) for p in ("begun", "rows_moved")),
    ],
)
def test_a_stopped_driver_is_passed_in_bounded_time_and_lands_nothing(
    database: str, sink: PostgresSink, start_driver: Callable[[str], subprocess.Popen[str]], point: str
) -> None:
    old = start_driver(f"{point}@1=stop")
    until(lambda: stopped(old), "the old driver did not stop")
    begun = time.monotonic()
    new = Job(PostgresStore(database, fence_timeout_s=5.0)).start()
    assert time.monotonic() - begun < 5.0
    assert new.last is not None
    assert new.last.batch_id == 0
    new.run((sink, [[(3, 1)]]))
    os.kill(old.pid, signal.SIGCONT)
    output, _ = old.communicate(timeout=WAIT_S)
    assert json.loads(output)["error"] == "FencedError", output
    assert rows(database) == [(1, 1), (3, 1)]
    new.run((sink, [[(4, 1)]]))
    new.store.close()


def test_a_driver_killed_in_its_commit_lands_nothing(
    database: str, sink: PostgresSink, start_driver: Callable[[str], subprocess.Popen[str]]
) -> None:
    old = start_driver("commit.rows_moved@1=kill")
    old.communicate(timeout=WAIT_S)
    assert old.returncode == -signal.SIGKILL
    new = Job(PostgresStore(database, fence_timeout_s=5.0)).start()
    assert rows(database) == [(1, 1)]
    new.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1), (2, 1)]
    new.store.close()


def test_a_stranger_that_locks_the_ledger_is_named_and_not_ended(database: str, job: Job) -> None:
    """Only the session that the row names may be ended."""
    with psycopg.connect(database, application_name="somebody's psql") as stranger:
        stranger.execute("SELECT FROM directkafka_ledger FOR UPDATE")
        with (
            closing(PostgresStore(database, fence_timeout_s=0.5)) as store,
            pytest.raises(StoreUnavailableError, match="somebody's psql"),
        ):
            store.fence("flights")
        assert stranger.execute("SELECT 1").fetchone() == (1,)
        stranger.rollback()
    assert job.store.fence("flights") == 2


def test_a_process_id_that_is_used_again_is_not_hit(database: str, job: Job) -> None:
    """The row names the stranger's process id, with another start: ids come round again."""
    with psycopg.connect(database) as stranger, psycopg.connect(database, autocommit=True) as other:
        other.execute(
            "UPDATE directkafka_ledger SET backend_pid = %s, backend_start = now() - interval '1 day'",
            [stranger.info.backend_pid],
        )
        stranger.execute("UPDATE directkafka_ledger SET driver = 'mine'")
        with (
            closing(PostgresStore(database, fence_timeout_s=0.5)) as store,
            pytest.raises(StoreUnavailableError, match="locked"),
        ):
            store.fence("flights")
        assert stranger.execute("SELECT 1").fetchone() == (1,)
        stranger.rollback()


def test_a_driver_that_reconnected_can_still_be_passed(database: str, job: Job) -> None:
    """Its new session must be the recorded one, or the fence could not get past its lock."""
    job.run()
    job.store.close()
    newer = PostgresStore(database, fence_timeout_s=2.0)

    class TakenOver:
        """A sink during whose work, with the row locked, a newer driver comes."""

        name = "taken over"

        def apply(self, transaction: psycopg.Cursor[Any], *_: object) -> int:
            assert newer.fence("flights") == 2
            transaction.execute("SELECT 1")
            return 0

    entry = job.next_entry()
    with closing(newer), pytest.raises(FencedError):
        job.store.commit(entry, previous=job.last, writes=[(TakenOver(), job.batch(entry), [])])


# A lost COMMIT.


@pytest.fixture
def proxy(database: str) -> Iterator[PostgresProxy]:
    address = conninfo.conninfo_to_dict(database)
    with PostgresProxy(str(address["host"]), int(address["port"])) as proxy:
        yield proxy


@pytest.fixture
def far_job(database: str, proxy: PostgresProxy) -> Iterator[Job]:
    """A driver behind the proxy."""
    dsn = conninfo.make_conninfo(database, host="127.0.0.1", port=proxy.port)
    job = Job(PostgresStore(dsn, fence_timeout_s=2.0, resolve_timeout_s=3.0)).start()
    yield job
    job.store.close()


def test_a_commit_whose_answer_was_lost_is_found_done(
    database: str, sink: PostgresSink, proxy: PostgresProxy, far_job: Job, caplog: pytest.LogCaptureFixture
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
    assert rows(database) == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REQUEST_HALF_OPEN], ids=lambda loss: loss.name)
def test_a_commit_that_never_arrived_is_found_not_done(
    database: str, sink: PostgresSink, proxy: PostgresProxy, far_job: Job, loss: Loss
) -> None:
    """Half open, the old session still has the row's lock: it is ended before the row is read."""
    far_job.run((sink, [[(1, 1)]]))
    proxy.loss = loss
    with pytest.raises(StoreUnavailableError):
        far_job.run((sink, [[(2, 1)]]))
    assert proxy.happened == [loss]
    assert rows(database) == [(1, 1)]
    far_job.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    "loss", [Loss.ANSWER, pytest.param(Loss.REQUEST, marks=pytest.mark.slow)], ids=lambda loss: loss.name
)
def test_a_lost_commit_that_cannot_be_looked_up_is_unknown(
    database: str, sink: PostgresSink, proxy: PostgresProxy, far_job: Job, loss: Loss
) -> None:
    far_job.run((sink, [[(1, 1)]]))
    proxy.loss, proxy.refuse_after_loss = loss, True
    with pytest.raises(CommitUnknownError) as caught:
        far_job.run((sink, [[(2, 1)]]))
    assert (caught.value.pipeline, caught.value.batch_id) == ("flights", 1)
    proxy.refuse = False
    # What a restart does: fence, read, go on from there.
    new = Job(PostgresStore(database)).start()
    assert new.last is not None
    assert new.last.batch_id == (1 if loss is Loss.ANSWER else 0)
    if new.last.batch_id == 0:
        new.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1), (2, 1)]
    new.store.close()


@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST], ids=lambda loss: loss.name)
def test_a_lost_commit_after_which_another_took_over(
    database: str, sink: PostgresSink, proxy: PostgresProxy, far_job: Job, loss: Loss,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Committed first and taken over then: done. Never arrived: the older driver is fenced."""
    far_job.run((sink, [[(1, 1)]]))
    other = PostgresStore(database)
    settle = PostgresStore._read_settled

    def take_over_first(store: PostgresStore, pipeline: str, generation: int) -> Any:
        other.fence("flights")
        return settle(store, pipeline, generation)

    monkeypatch.setattr(PostgresStore, "_read_settled", take_over_first)
    proxy.loss = loss
    if loss is Loss.ANSWER:
        assert far_job.run((sink, [[(2, 1)]])).batch_id == 1
        assert rows(database) == [(1, 1), (2, 1)]
        with pytest.raises(FencedError):
            far_job.run((sink, [[(3, 1)]]))
    else:
        with pytest.raises(FencedError):
            far_job.run((sink, [[(2, 1)]]))
        assert rows(database) == [(1, 1)]
    assert proxy.happened == [loss]
    other.close()


class Meanwhile:
    """A sink during whose work, with the ledger's row locked, something else happens."""

    name = "meanwhile"

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def apply(self, transaction: psycopg.Cursor[Any], *_: object) -> int:
        self._happens()
        transaction.execute("SELECT 1")
        return 0


def commit_and_meanwhile(job: Job, happens: Callable[[], object]) -> None:
    entry = job.next_entry()
    job.last = job.store.commit(entry, previous=job.last, writes=[(Meanwhile(happens), job.batch(entry), [])])


def test_who_looks_for_its_own_commit_does_not_end_a_newer_driver_s_session(
    database: str, sink: PostgresSink, proxy: PostgresProxy, far_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A COMMIT never arrives; a newer driver takes over, and is in the middle of its own commit for long."""
    far_job.run((sink, [[(1, 1)]]))
    newer = Job(PostgresStore(database))
    settle = PostgresStore._read_settled

    def settle_beside(store: PostgresStore, pipeline: str, generation: int) -> Any:
        ledger_rows: list[Any] = []
        newer.start()
        commit_and_meanwhile(newer, lambda: ledger_rows.append(settle(store, pipeline, generation)))
        return ledger_rows[0]

    monkeypatch.setattr(PostgresStore, "_read_settled", settle_beside)
    proxy.loss = Loss.REQUEST
    with pytest.raises(FencedError):
        far_job.run((sink, [[(2, 1)]]))
    assert proxy.happened == [Loss.REQUEST]
    assert newer.last is not None
    assert newer.last.batch_id == 1
    newer.store.close()


def test_a_driver_that_reconnects_does_not_end_a_newer_one_s_session(
    database: str, sink: PostgresSink, job: Job
) -> None:
    job.run((sink, [[(1, 1)]]))
    newer = Job(PostgresStore(database)).start()
    job.store.close()

    def go_on() -> None:
        with pytest.raises(FencedError):
            job.run((sink, [[(2, 1)]]))

    commit_and_meanwhile(newer, go_on)
    assert newer.last is not None
    assert newer.last.batch_id == 1
    newer.store.close()


@pytest.mark.parametrize("change", ["SET generation = generation - 1", ""], ids=["an older state", "no entry"])
def test_a_fence_that_a_restore_or_a_failover_has_lost_is_no_newer_driver_s_doing(
    database: str, sink: PostgresSink, job: Job, change: str
) -> None:
    """Exit code 3 would keep every supervisor from starting the pipeline again, and nobody else runs it."""
    job.run((sink, [[(1, 1)]]))
    statement = f"UPDATE directkafka_ledger {change}" if change else "DELETE FROM directkafka_ledger"
    with psycopg.connect(database) as connection:
        connection.execute(statement)  # type: ignore[arg-type]
    # The failover has ended the session.
    job.store.close()
    with pytest.raises(OffsetMismatchError, match=r"restored|no fence of this pipeline"):
        job.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1)]


# A session that is ended, a transaction that fails.


@pytest.mark.parametrize("point", ["commit.begun", "commit.ledger_updated", "commit.rows_moved"])
def test_a_session_ended_in_the_commit_is_a_definite_failure(
    database: str, sink: PostgresSink, job: Job, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    job.run((sink, [[(1, 1)]]))
    ended: list[bool] = []

    def end_session(reached: str) -> None:
        if reached == point and not ended:
            with psycopg.connect(database, autocommit=True) as other:
                row = other.execute("SELECT backend_pid FROM directkafka_ledger").fetchone()
                assert row is not None
                other.execute("SELECT pg_terminate_backend(%s, 5000)", row)
            ended.append(True)

    for module in ("commit", "postgres.store"):
        monkeypatch.setattr(f"directkafka.sinks.{module}.fault_point", end_session)
    with pytest.raises(StoreUnavailableError):
        job.run((sink, [[(2, 1)]]))
    assert ended == [True]
    assert rows(database) == [(1, 1)]
    job.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("point", ["commit.begun", "commit.ledger_updated", "commit.rows_moved"])
def test_a_fault_before_commit_leaves_nothing_behind(
    database: str, sink: PostgresSink, job: Job, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    job.run((sink, [[(1, 1)]]))
    with monkeypatch.context() as patch:
        patch.setattr("directkafka.fault_points._passes", Counter())
        patch.setenv("DIRECTKAFKA_FAULTS", f"{point}=raise")
        with pytest.raises(InjectedFaultError):
            job.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1)]
    job.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1), (2, 1)]


def test_a_deferred_constraint_that_fails_at_commit_is_a_definite_failure(
    database: str, sink: PostgresSink, job: Job
) -> None:
    """The server's answer to COMMIT is an error: nothing is unknown."""
    job.run((sink, [[(1, 1)]]))
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE flights ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
    with pytest.raises(RowRejectedError, match=r"Key \(id\)=\(1\)"):
        job.run((sink, [[(1, 2)]]))
    assert rows(database) == [(1, 1)]
    job.run((sink, [[(2, 1)]]))
    assert rows(database) == [(1, 1), (2, 1)]


# A killed server.


def test_staged_rows_that_a_crash_emptied_are_missed_and_written_again() -> None:
    """Unlogged tables are empty after crash recovery; without the count the batch would be lost in silence."""
    with EmbeddedPostgres() as server:
        sink = PostgresSink(server.dsn, "flights", inline_bytes_max=0)
        job = Job(PostgresStore(server.dsn, resolve_timeout_s=10.0)).start()
        job.run((sink, [[(1, 1)]]))
        entry = job.next_entry()
        write = job.write(sink, job.batch(entry), [[(2, 1)], [(3, 1)]])
        server.kill()
        server.restart()
        with pytest.raises(StoreUnavailableError):
            job.store.commit(entry, previous=job.last, writes=[write])
        with pytest.raises(RowCountError) as caught:
            job.store.commit(entry, previous=job.last, writes=[write])
        assert (caught.value.reported, caught.value.found) == (2, 0)
        assert rows(server.dsn) == [(1, 1)]
        job.run((sink, [[(2, 1)], [(3, 1)]]))
        assert rows(server.dsn) == [(1, 1), (2, 1), (3, 1)]
        job.store.close()


def test_durable_commits_are_forced_and_otherwise_left_to_the_server(database: str, job: Job) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit TO off', current_database()); END $$"
        )

    class Watch:
        """A sink that writes nothing and looks at the session it would write with."""

        name = "watch"
        seen: ClassVar[list[str]] = []

        def apply(self, transaction: psycopg.Cursor[Any], *_: object) -> int:
            self.seen.append(transaction.execute("SHOW synchronous_commit").fetchone()["synchronous_commit"])
            return 0

    job.store.close()
    for force in (False, True):
        if force:
            job.store.force_durable()
        entry = job.next_entry()
        job.last = job.store.commit(entry, previous=job.last, writes=[(Watch(), job.batch(entry), [])])
    assert Watch.seen == ["off", "on"]
