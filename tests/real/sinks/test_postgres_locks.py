"""What a driver does while others hold locks, or the server says nothing: it says who, it can be stopped."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import conninfo
from tests.contract.postgres_harness import PostgresHarness
from tests.real.proxy import TcpProxy
from tests.waiting import WAIT_S, until

from directkafka.errors import CommitUnknownError, StoreUnavailableError
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.retry import RetryPolicy, StopAsked, may_pass
from directkafka.sinks import session_watch
from directkafka.sinks.postgres import lock_watch, session
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.testing import EmbeddedPostgres
from directkafka.testing.store_driver import SCHEMA, Job, batches_of

pytestmark = pytest.mark.real

#: Bounds on the time from a stop to its end, and from the wait to its first warning.
STOP_S_MAX = 5.0
WARNING_S_MAX = 10.0
#: The same where the server is silent: three looks of 2 s each, the least that ``connect_timeout`` can be.
SILENT_STOP_S_MAX = 12.0


@pytest.fixture
def harness(database: str) -> PostgresHarness:
    return PostgresHarness(database)


@pytest.fixture
def job(harness: PostgresHarness) -> Iterator[Job]:
    job = Job(harness.open_store()).start()
    yield job
    job.store.close()


@pytest.fixture
def stop(job: Job) -> threading.Event:
    """Heeded by the job's store."""
    stop = threading.Event()
    assert isinstance(job.store, PostgresStore)
    job.store.heed(stop)
    return stop


@pytest.fixture
def other(database: str) -> Iterator[psycopg.Connection[Any]]:
    """An application's session; what it locks stays locked until it rolls back."""
    with psycopg.connect(database, application_name="forgotten psql") as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks come at once."""
    monkeypatch.setattr(session_watch, "FIRST_LOOK_S", 0.2)
    monkeypatch.setattr(session_watch, "LOOK_AGAIN_S", 0.2)


def waits(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
    return bool(row and row[0])


def failure_after_stop(done: Future[Any], stop: threading.Event, *, limit_s: float = STOP_S_MAX) -> BaseException:
    """Ask for a stop, and return what the work ended with, which it has to do in time."""
    stop.set()
    begun = time.monotonic()
    error = done.exception(timeout=WAIT_S)
    assert time.monotonic() - begun < limit_s
    assert error is not None
    return error


def test_a_commit_behind_a_forgotten_session_names_it_within_ten_seconds_and_goes_on_when_it_ends(
    harness: PostgresHarness, job: Job, other: psycopg.Connection[Any], pool: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    sink = harness.sink("flights")
    job.run((sink, [[(1, 1)]]))
    other.execute("LOCK TABLE flights")
    begun = time.monotonic()
    with caplog.at_level(logging.WARNING):
        done = pool.submit(job.run, (sink, [[(2, 1)]]))
        until(lambda: caplog.messages, "no word of the lock")
    assert time.monotonic() - begun < WARNING_S_MAX
    warning = caplog.messages[0]
    assert warning.startswith("pipeline flights: the commit of batch 1 has taken")
    assert re.search(
        rf"waits for \w+ on flights behind process {other.info.backend_pid} \(user 'postgres', application "
        r"'forgotten psql', idle in transaction for \d+ s, last statement LOCK TABLE\)",
        warning,
    ), warning
    other.rollback()
    assert done.result(WAIT_S).batch_id == 1
    assert harness.rows(sink) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("staged", [pytest.param(False, marks=pytest.mark.slow), True], ids=["inline", "staged"])
@pytest.mark.usefixtures("soon")
def test_a_stop_ends_a_commit_that_waits_for_a_lock_and_nothing_is_lost(
    harness: PostgresHarness, job: Job, other: psycopg.Connection[Any], pool: ThreadPoolExecutor,
    stop: threading.Event, database: str, staged: bool,
) -> None:  # fmt: skip
    sink = harness.sink("flights", staged=staged)
    job.run((sink, [[(1, 1)]]))
    other.execute("LOCK TABLE flights IN SHARE MODE")
    done = pool.submit(job.run, (sink, [[(2, 1)]]))
    until(lambda: waits(database), "the commit waits for nobody")
    error = failure_after_stop(done, stop)
    assert isinstance(error, StoreUnavailableError)
    assert may_pass(error)
    assert re.search(r"a stop was asked for while it waited for .* behind process \d+", str(error)), error
    other.rollback()
    assert harness.rows(sink) == [(1, 1)]
    # What the next start does.
    with closing(harness.open_store()) as store:
        new = Job(store).start()
        assert new.last is not None
        assert new.last.batch_id == 0
        new.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1)]


@pytest.mark.usefixtures("soon")
def test_a_stop_leaves_a_commit_alone_that_waits_for_nobody(
    harness: PostgresHarness, job: Job, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_watch, "STOP_GRACE_S", 0.1)
    looks: list[Any] = []
    look = lock_watch.PostgresWatch._waits_for

    def counted(watch: lock_watch.PostgresWatch, session: Any) -> Any:
        looks.append(look(watch, session))
        return looks[-1]

    monkeypatch.setattr(lock_watch.PostgresWatch, "_waits_for", counted)

    class Busy:
        """A sink with much to do."""

        name = "busy"

        def apply(self, transaction: psycopg.Cursor[Any], *_: object) -> int:
            stop.set()
            while len(looks) < 2:
                transaction.execute("SELECT pg_sleep(0.2)")
            return 0

    entry = job.next_entry()
    assert job.store.commit(entry, previous=job.last, writes=[(Busy(), job.batch(entry), [])]).batch_id == 0
    assert looks[:2] == [None, None]


@pytest.mark.usefixtures("soon")
def test_a_deferred_constraint_waits_before_commit_is_sent_so_that_a_stop_can_end_it(
    harness: PostgresHarness, job: Job, other: psycopg.Connection[Any], pool: ThreadPoolExecutor,
    stop: threading.Event, database: str,
) -> None:  # fmt: skip
    """A cancel in the middle of COMMIT could leave a commit that no standby has."""
    sink = harness.sink("flights")
    job.run((sink, [[(1, 1)]]))
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE keys (id bigint PRIMARY KEY); INSERT INTO keys VALUES (1), (2)")
        connection.execute(
            "ALTER TABLE flights ADD FOREIGN KEY (id) REFERENCES keys (id) DEFERRABLE INITIALLY DEFERRED"
        )
    other.execute("SELECT FROM keys WHERE id = 2 FOR UPDATE")
    done = pool.submit(job.run, (sink, [[(2, 1)]]))
    until(lambda: waits(database), "the commit waits for nobody")
    with psycopg.connect(database) as connection:
        queries = connection.execute(
            "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchall()
    assert queries == [("SET CONSTRAINTS ALL IMMEDIATE",)]
    assert isinstance(failure_after_stop(done, stop), StoreUnavailableError)
    other.rollback()
    assert harness.rows(sink) == [(1, 1)]


@pytest.mark.usefixtures("soon")
def test_a_stop_never_cancels_commit_itself(
    harness: PostgresHarness, job: Job, other: psycopg.Connection[Any], pool: ThreadPoolExecutor,
    stop: threading.Event, database: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Here a trigger of the user's defers again what was made immediate, so that COMMIT waits for a row."""
    sink = harness.sink("flights")
    job.run((sink, [[(1, 1)]]))
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE keys (id bigint PRIMARY KEY); INSERT INTO keys VALUES (1), (2);"
            "CREATE TABLE audit (id bigint REFERENCES keys (id) DEFERRABLE INITIALLY DEFERRED);"
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO audit VALUES (NEW.id); RETURN NULL; END';"
            "CREATE CONSTRAINT TRIGGER noted AFTER INSERT ON flights DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION note()"
        )
    ends: list[str] = []
    end = lock_watch.PostgresWatch._end

    def counted(watch: lock_watch.PostgresWatch, session: Any, wait: session_watch.Wait) -> None:
        end(watch, session, wait)
        ends.append(watch.note)

    monkeypatch.setattr(lock_watch.PostgresWatch, "_end", counted)
    other.execute("SELECT FROM keys WHERE id = 2 FOR UPDATE")
    done = pool.submit(job.run, (sink, [[(2, 1)]]))
    until(lambda: waits(database), "the commit waits for nobody")
    with psycopg.connect(database) as connection:
        queries = connection.execute(
            "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchall()
    assert queries == [("COMMIT",)]
    stop.set()
    until(lambda: len(ends) >= 2 or done.done(), "nobody looks at the commit")
    assert not done.done()
    assert "a stop was asked for while it waited for" in ends[0]
    other.rollback()
    assert done.result(WAIT_S).batch_id == 1
    assert harness.rows(sink) == [(1, 1), (2, 1)]


@pytest.mark.usefixtures("soon")
def test_what_blockers_run_is_told_by_its_kind_and_never_by_its_values(
    harness: PostgresHarness, job: Job, other: psycopg.Connection[Any], pool: ThreadPoolExecutor,
    stop: threading.Event, database: str, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    sink = harness.sink("flights", mode="merge")
    job.run((sink, [[(1, 1)]]))
    other.execute("/* by: hunter2 */ UPDATE flights SET flights = 1000 WHERE id = 1 AND 'hunter2' <> ''")
    with caplog.at_level(logging.WARNING):
        done = pool.submit(job.run, (sink, [[(1, 5)]]))
        until(lambda: caplog.messages, "no word of the lock")
    assert "a row that another transaction has changed behind process" in caplog.text
    assert "last statement UPDATE)" in caplog.text
    assert "hunter2" not in caplog.text + str(failure_after_stop(done, stop))


@pytest.mark.usefixtures("soon")
def test_one_lock_is_waited_for_so_long_and_the_error_names_who_had_it(
    harness: PostgresHarness, other: psycopg.Connection[Any], database: str
) -> None:
    """The bound that holds where nobody asks for a stop; a limit that the user has set is kept."""
    dsn = conninfo.make_conninfo(database, options="-c lock_timeout=1500")
    job = Job(PostgresStore(dsn)).start()
    sink = PostgresSink(dsn, "flights", inline_bytes_max=0)
    job.run((sink, [[(1, 1)]]))
    other.execute("LOCK TABLE flights")
    with pytest.raises(StoreUnavailableError, match=r"lock timeout; it waited for .* behind process \d+ ") as caught:
        job.run((sink, [[(2, 1)]]))
    assert may_pass(caught.value)
    other.rollback()
    # Dropping staging tables, with its own short limit, has left the limit as it was.
    job.run((sink, [[(2, 1)]]))
    assert harness.rows(sink) == [(1, 1), (2, 1)]
    job.store.close()


def test_no_session_of_ours_waits_for_a_lock_for_ever(database: str) -> None:
    with closing(PostgresStore(database).address.connect("test")) as connection:
        row = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
    assert row == (f"{session.LOCK_TIMEOUT_MS // 1000}s",)


@pytest.mark.usefixtures("soon")
def test_a_stop_ends_what_prepares_a_table_that_a_reader_has_open(
    harness: PostgresHarness, job: Job, other: psycopg.Connection[Any], pool: ThreadPoolExecutor, database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    job.run((harness.sink("flights"), [[(1, 1)]]))
    sink, stop = PostgresSink(database, "flights", schema_policy="add-columns"), threading.Event()
    sink.store.heed(stop)
    other.execute("SELECT * FROM flights")
    with caplog.at_level(logging.WARNING):
        done = pool.submit(sink.prepare, SCHEMA.append(pa.field("carrier", pa.string())))
        until(lambda: caplog.messages, "no word of the lock")
    assert "AccessExclusiveLock on flights behind process" in caplog.text
    assert isinstance(failure_after_stop(done, stop), StoreUnavailableError)


@pytest.mark.parametrize("step", ["fence", pytest.param("read", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("soon")
def test_a_stop_ends_a_wait_for_a_locked_ledger(
    harness: PostgresHarness, job: Job, other: psycopg.Connection[Any], pool: ThreadPoolExecutor, database: str,
    step: str,
) -> None:  # fmt: skip
    """As a run asks for it: through the ledgers of its bindings, with its patience."""
    stop = threading.Event()
    ledgers = Ledgers("flights", [Route(output="default", sink=harness.sink("flights"))], stop=stop)
    ledgers.connect()
    other.execute("LOCK TABLE directkafka_ledger")
    patience = RetryPolicy(stop, retry_ms_max=60_000)
    done = pool.submit(patience.until_done, getattr(ledgers, step))
    until(lambda: waits(database), f"{step} waits for nobody")
    assert isinstance(failure_after_stop(done, stop), StopAsked)
    other.rollback()
    ledgers.close()


class SilentProxy(TcpProxy):
    """Passes everything on until it falls silent: connections are taken, and nothing more is heard.

    Attributes:
        words: what makes it fall silent when a client says it.
    """

    def __init__(self, server_host: str, server_port: int) -> None:
        super().__init__(server_host, server_port)
        self.words = b""
        self.is_silent = threading.Event()
        self.ended = threading.Event()

    def to_server(self, client: Any, server: Any) -> None:
        while data := client.recv(1 << 16):
            if self.words and self.words in data:
                self.is_silent.set()
            if self.is_silent.is_set():
                self.ended.wait(WAIT_S)
                return
            server.sendall(data)


@pytest.fixture
def silent_proxy(database: str) -> Iterator[SilentProxy]:
    address = conninfo.conninfo_to_dict(database)
    with SilentProxy(str(address["host"]), int(address["port"])) as proxy:
        yield proxy
        proxy.ended.set()


@pytest.mark.parametrize(
    "is_stopped", [pytest.param(True, marks=pytest.mark.slow), False], ids=["a stop", "nobody asks for a stop"]
)
@pytest.mark.usefixtures("soon")
def test_a_server_that_falls_silent_in_a_commit_is_given_up(
    database: str, silent_proxy: SilentProxy, pool: ThreadPoolExecutor, is_stopped: bool,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """A frozen machine, a pooler that is paused: the connection stands, so that no keepalive fails."""
    if not is_stopped:
        monkeypatch.setattr(session_watch, "SILENCE_S_MAX", 1.0)
    dsn = conninfo.make_conninfo(database, host="127.0.0.1", port=silent_proxy.port, connect_timeout=2)
    store, stop = PostgresStore(dsn, resolve_timeout_s=0.5), threading.Event()
    store.heed(stop)
    job = Job(store).start()

    class Silencer:
        """A sink during whose work the server falls silent."""

        name = "silencer"

        def apply(self, transaction: psycopg.Cursor[Any], *_: object) -> int:
            silent_proxy.is_silent.set()
            transaction.execute("SELECT 1")
            return 0

    def commit() -> None:
        entry = job.next_entry()
        job.store.commit(entry, previous=job.last, writes=[(Silencer(), job.batch(entry), [])])

    with caplog.at_level(logging.WARNING):
        done = pool.submit(commit)
        until(silent_proxy.is_silent.is_set, "the commit has not come so far")
        error = (
            failure_after_stop(done, stop, limit_s=SILENT_STOP_S_MAX) if is_stopped else done.exception(timeout=WAIT_S)
        )
    assert isinstance(error, StoreUnavailableError), error
    assert "the server answers nobody" in caplog.text
    assert "the server has answered nobody since" in str(error)
    with closing(PostgresStore(database)) as near:
        assert near.read("flights") == job.last
    job.store.close()


def test_a_server_that_takes_a_login_and_then_says_nothing_is_given_up(
    database: str, silent_proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler that is paused takes logins; ``connect_timeout`` has nothing to say then."""
    monkeypatch.setattr(session, "ANSWER_S_MAX", 0.5)
    silent_proxy.words = b"set_config"
    store = PostgresStore(conninfo.make_conninfo(database, host="127.0.0.1", port=silent_proxy.port))
    with pytest.raises(StoreUnavailableError, match="has said nothing"):
        _ = store.identity
    assert silent_proxy.is_silent.is_set()


@pytest.mark.usefixtures("soon")
def test_a_server_that_falls_silent_while_a_task_stages_is_given_up(
    database: str, silent_proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    monkeypatch.setattr(session_watch, "SILENCE_S_MAX", 0.5)
    dsn = conninfo.make_conninfo(database, host="127.0.0.1", port=silent_proxy.port, connect_timeout=2)
    sink = PostgresSink(dsn, "flights", inline_bytes_max=0)
    sink.prepare(SCHEMA)
    silent_proxy.words = b"FROM STDIN"
    with pytest.raises(StoreUnavailableError, match="the server has answered nobody") as caught:
        sink.task_writer(job.batch(job.next_entry()), SCHEMA)(batches_of([(1, 1)]))
    assert may_pass(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_a_commit_that_waits_for_a_standby_says_so_and_a_stop_leaves_it_as_unknown(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    """It has happened in this server already; a cancel would only make it look as if a standby had it too."""
    settings = {"synchronous_commit": "local", "synchronous_standby_names": "nobody"}
    with EmbeddedPostgres(settings=settings) as server:
        store, stop = PostgresStore(server.dsn), threading.Event()
        store.heed(stop)
        job = Job(store).start()

        class Replicated:
            """A sink whose transaction is to be on a standby as well."""

            name = "replicated"

            def apply(self, transaction: psycopg.Cursor[Any], *_: object) -> int:
                transaction.execute("SET LOCAL synchronous_commit TO on")
                return 0

        def commit() -> None:
            entry = job.next_entry()
            store.commit(entry, previous=job.last, writes=[(Replicated(), job.batch(entry), [])])

        with caplog.at_level(logging.WARNING):
            done = pool.submit(commit)
            until(lambda: "a standby that confirms the commit" in caplog.text, "no word of the standby")
        assert isinstance(failure_after_stop(done, stop), CommitUnknownError)
        store.close()
        with closing(PostgresStore(server.dsn)) as new:
            # What the next start does: its fence ends the session that still waits, and the batch is there.
            job = Job(new).start()
            assert job.last is not None
            assert job.last.batch_id == 0
