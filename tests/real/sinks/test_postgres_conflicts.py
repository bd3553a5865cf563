"""Crash points 22 and 24, where others are at work: sessions ended while rows are staged, deadlocks, a failover."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import conninfo
from tests.contract.postgres_harness import PostgresHarness
from tests.real.sinks.postgres_standby import promote, standby_of, wait_until_it_has_all
from tests.waiting import until

from directkafka.errors import DirectKafkaError, RowCountError, StoreUnavailableError
from directkafka.pipeline.retry import may_pass
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.testing import EmbeddedPostgres
from directkafka.testing.store_driver import SCHEMA, Job, batches_of

pytestmark = pytest.mark.real

WAIT_S = 60.0


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    return PostgresHarness(database)


@pytest.fixture
def job(harness: PostgresHarness) -> Iterator[Job]:
    job = Job(harness.open_store()).start()
    yield job
    job.store.close()


#: In this test's database alone: the server is other tests' too.
SESSIONS = "FROM pg_stat_activity WHERE application_name = 'directkafka task' AND datname = current_database()"


def sessions_of_tasks(dsn: str, *, end: bool = False) -> int:
    """How many there were; ``end``: they are ended."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        what = "pg_terminate_backend(pid, 5000)" if end else "pid"
        return len(connection.execute(f"SELECT {what} {SESSIONS}").fetchall())  # type: ignore[call-overload]


@pytest.mark.parametrize("rows_before", [1, 50_000], ids=["at its first row", "in the middle"])
def test_a_session_ended_while_a_task_stages_costs_that_attempt_and_no_row(
    harness: PostgresHarness, database: str, job: Job, rows_before: int
) -> None:
    sink = harness.sink("flights", staged=True)
    job.run((sink, [[(1, 1)]]))
    # The server hears of it a moment later that a task has closed its connection.
    until(lambda: sessions_of_tasks(database) == 0, "the first task's session has not ended")
    entry = job.next_entry()
    batch = job.batch(entry)
    ended: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        # More than fits into a report: the task has connected when it asks for what follows.
        yield from batches_of([(number, 2) for number in range(2, 2 + rows_before)])
        ended.append(sessions_of_tasks(database, end=True))
        yield from batches_of([(100_000, 2)])

    with pytest.raises(StoreUnavailableError) as caught:
        sink.task_writer(batch, SCHEMA)(rows())
    assert (ended, may_pass(caught.value)) == ([1], True)
    # The same batch, another attempt: what the first one left counts for nothing.
    writes = [job.write(sink, batch, [[(2, 2)], [(3, 2)]])]
    job.last = job.store.commit(entry, previous=job.last, writes=writes)
    assert harness.rows(sink) == [(1, 1), (2, 2), (3, 2)]
    assert harness.leftovers() == []


class Stranger:
    """A program that changes rows of the target while the driver does."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn)
        # It looks for a deadlock later than the driver does, so that the driver is the one that is given up.
        self.connection.execute("SET deadlock_timeout = '10min'; SET lock_timeout = '60s'")
        self.connection.commit()

    def change(self, number: int) -> None:
        self.connection.execute("UPDATE flights SET flights = flights + 1000 WHERE id = %s", [number])


def commit_beside(job: Job, sink: PostgresSink, then: Callable[[], object], dsn: str) -> Any:
    """Commit rows for keys 1 and 2 in a thread, and do something once that waits for a lock; the outcome."""
    entry = job.next_entry()
    writes = [job.write(sink, job.batch(entry), [[(1, 5), (2, 5)]])]
    outcome: list[Any] = []

    def commit() -> None:
        try:
            outcome.append(job.store.commit(entry, previous=job.last, writes=writes))
        except DirectKafkaError as error:
            outcome.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    until(lambda: _waiting(dsn), "the driver waits for nobody")
    then()
    thread.join(WAIT_S)
    return outcome[0]


def set_default(dsn: str, job: Job, setting: str) -> None:
    """Set what the driver's next session begins with."""
    job.store.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {setting}', current_database()); END $$"  # type: ignore[arg-type]
        )


def _waiting(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
    return int(row[0]) if row else 0


@pytest.mark.slow
def test_a_deadlock_costs_a_try_and_no_row(harness: PostgresHarness, database: str, job: Job) -> None:
    """Merge takes its keys in order; a stranger takes 2, then 1."""
    sink = harness.sink("flights", mode="merge")
    job.run((sink, [[(1, 1), (2, 1)]]))
    # A session looks once, this long after it began to wait: by then the stranger must wait too.
    set_default(database, job, "deadlock_timeout TO 3000")
    stranger = Stranger(database)
    stranger.change(2)
    outcome = commit_beside(job, sink, lambda: stranger.change(1), database)
    assert isinstance(outcome, StoreUnavailableError), outcome
    assert "deadlock" in str(outcome)
    assert may_pass(outcome)
    stranger.connection.commit()
    stranger.connection.close()
    assert harness.rows(sink) == [(1, 1001), (2, 1001)]
    job.run((sink, [[(1, 5), (2, 5)]]))
    assert harness.rows(sink) == [(1, 1006), (2, 1006)]


def test_a_serialization_failure_costs_a_try_and_no_row(harness: PostgresHarness, database: str, job: Job) -> None:
    """Where an administrator has made repeatable reads the default: the row was changed since the snapshot."""
    sink = harness.sink("flights", mode="merge")
    job.run((sink, [[(1, 1), (2, 1)]]))
    set_default(database, job, "default_transaction_isolation TO serializable")
    stranger = Stranger(database)
    stranger.change(1)
    outcome = commit_beside(job, sink, stranger.connection.commit, database)
    stranger.connection.close()
    assert isinstance(outcome, StoreUnavailableError), outcome
    assert "could not serialize" in str(outcome)
    assert may_pass(outcome)
    assert harness.rows(sink) == [(1, 1001), (2, 1)]
    job.run((sink, [[(1, 5), (2, 5)]]))
    assert harness.rows(sink) == [(1, 1006), (2, 6)]


@pytest.mark.slow
def test_a_failover_between_staging_and_commit_costs_a_try_and_no_row(tmp_path: Path) -> None:
    """The promoted standby has the ledger and the table, and staging tables without rows: they are not streamed."""
    with EmbeddedPostgres() as primary, standby_of(primary, tmp_path) as standby:
        addresses = [conninfo.conninfo_to_dict(server.dsn) for server in (primary, standby)]
        dsn = conninfo.make_conninfo(
            user="postgres",
            password=str(addresses[0]["password"]),
            dbname="postgres",
            host=",".join(str(address["host"]) for address in addresses),
            port=",".join(str(address["port"]) for address in addresses),
            target_session_attrs="read-write",
        )
        sink = PostgresSink(dsn, "flights", inline_bytes_max=0)
        job = Job(PostgresStore(dsn, resolve_timeout_s=10.0)).start()
        job.run((sink, [[(1, 1)]]))
        entry = job.next_entry()
        write = job.write(sink, job.batch(entry), [[(2, 1)], [(3, 1)]])
        wait_until_it_has_all(primary)
        primary.kill()
        promote(standby)
        with pytest.raises(StoreUnavailableError):
            job.store.commit(entry, previous=job.last, writes=[write])
        with pytest.raises(RowCountError) as caught:
            job.store.commit(entry, previous=job.last, writes=[write])
        assert (caught.value.reported, caught.value.found) == (2, 0)
        job.run((sink, [[(2, 1)], [(3, 1)]]))
        harness = PostgresHarness(standby.dsn)
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]
        assert harness.leftovers() == []
        job.store.close()
