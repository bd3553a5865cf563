"""The Postgres for tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from directkafka.testing import EmbeddedPostgres

pytestmark = pytest.mark.real

_WAIT_S = 60


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres() as running:
        yield running


def test_it_is_a_postgres_18_on_loopback_tcp_in_utc(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT current_setting('server_version'), current_setting('TimeZone')").fetchone()
        assert row is not None
        assert row[0].startswith("18")
        assert row[1] == "UTC"
        assert connection.info.host == "127.0.0.1"


def test_committed_rows_survive_sigkill_and_unlogged_tables_are_emptied(server: EmbeddedPostgres) -> None:
    dsn = server.create_database("crash")
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept (i int)")
        connection.execute("CREATE UNLOGGED TABLE emptied (i int)")
        connection.execute("INSERT INTO kept VALUES (1)")
        connection.execute("INSERT INTO emptied VALUES (1)")
    open_one = psycopg.connect(dsn)
    open_one.execute("INSERT INTO kept VALUES (2)")
    pid = server.pid
    server.kill()
    with pytest.raises(psycopg.OperationalError):
        open_one.execute("COMMIT")
    open_one.close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn, connect_timeout=5)
    server.restart()
    assert server.pid != pid
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT i FROM kept").fetchall() == [(1,)]
        assert connection.execute("SELECT i FROM emptied").fetchall() == []


def test_databases_of_any_name_are_made_and_dropped_even_when_in_use(server: EmbeddedPostgres) -> None:
    dsn = server.create_database('a "b"/ä')
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SELECT current_database()").fetchone()
        assert row == ('a "b"/ä',)
        server.drop_database('a "b"/ä')
    server.drop_database('a "b"/ä')


def test_restart_without_kill_is_orderly_and_settings_are_the_callers() -> None:
    with EmbeddedPostgres(settings={"max_connections": 17}) as running:
        running.restart()
        with psycopg.connect(running.dsn) as connection:
            assert connection.execute("SHOW max_connections").fetchone() == ("17",)


def test_a_folder_of_the_callers_is_kept_and_used_again(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path) as running:
        running.create_database("kept")
    with EmbeddedPostgres(tmp_path) as running, psycopg.connect(running.dsn_of("kept")) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_killed_server_leaves_no_shared_memory() -> None:
    running = EmbeddedPostgres().start()
    segment = (running.folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
    assert segment in _shared_memory_ids()
    running.kill()
    running.stop()
    assert segment not in _shared_memory_ids()
    assert not running.folder.exists()


def _shared_memory_ids() -> set[str]:
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


def test_the_server_ends_and_the_folder_goes_when_the_parent_is_killed() -> None:
    program = textwrap.dedent(
        """
        import sys
        from directkafka.testing import EmbeddedPostgres

        server = EmbeddedPostgres().start()
        print(server.pid, server.folder, flush=True)
        sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        process = psutil.Process(int(pid))
        parent.kill()
    deadline = time.monotonic() + _WAIT_S
    while Path(folder).exists() or (process.is_running() and process.status() != psutil.STATUS_ZOMBIE):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_asking_before_the_start_is_refused() -> None:
    with pytest.raises(RuntimeError, match="before start"):
        _ = EmbeddedPostgres().dsn
    with pytest.raises(RuntimeError, match="not started"):
        EmbeddedPostgres().kill()
