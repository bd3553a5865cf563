"""The Postgres for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import conninfo

from directkafka.errors import EnvironmentFaultError
from directkafka.testing import EmbeddedPostgres, postgres

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


# Others on the machine.

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

#: The number of the user that the server itself runs as, and one that no user has.
OTHERS = [65534, 54321]


def run_as(user: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, user=user, group=65534, extra_groups=[], cwd="/", capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("password", ["", "postgres", "wrong"])
def test_nobody_gets_in_without_the_password(server: EmbeddedPostgres, password: str) -> None:
    given = conninfo.conninfo_to_dict(server.dsn)
    assert len(str(given["password"])) >= 32
    dsn = conninfo.make_conninfo(server.dsn, password=password, passfile="/dev/null")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(dsn)
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT bool_and(auth_method = 'scram-sha-256') FROM pg_hba_file_rules").fetchone()
    assert row == (True,)


def test_the_password_is_in_no_repr_and_no_command_line(server: EmbeddedPostgres) -> None:
    password = str(conninfo.conninfo_to_dict(server.dsn)["password"])
    assert password not in repr(server)
    assert password not in " ".join(psutil.Process(server.pid).cmdline())
    assert password not in (server.folder / "server.log").read_text()
    assert (server.folder / "password").stat().st_mode & 0o077 == 0
    assert server.folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_the_server_makes_is_its_user_s_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with EmbeddedPostgres(tmp_path / "made") as running:
            shown = {path.name: path.stat().st_mode & 0o777 for path in (running.folder, *running.folder.iterdir())}
    finally:
        os.umask(before)
    assert (shown["made"], shown["data"], shown["password"]) == (0o700, 0o700, 0o600)


@as_root
@pytest.mark.parametrize("user", OTHERS)
def test_another_user_reads_nothing_of_the_server(server: EmbeddedPostgres, user: int) -> None:
    """Not even the user that it runs as: its group is nobody else's."""
    folder = server.folder
    for path in (folder / "password", folder / "data" / "pg_hba.conf", f"/proc/{server.pid}/cwd/pg_hba.conf"):
        assert run_as(user, "cat", str(path)).returncode != 0, path
    for name in ("environ", "mem", "maps"):
        assert run_as(user, "head", "-c1", f"/proc/{server.pid}/{name}").returncode != 0, name
    assert run_as(user, "readlink", f"/proc/{server.pid}/fd/1").returncode != 0
    assert run_as(user, "true").returncode == 0


@as_root
def test_the_server_has_none_of_root_s_rights(server: EmbeddedPostgres, tmp_path: Path) -> None:
    secret, planted = tmp_path / "secret", tmp_path / "planted"
    secret.write_text("of root")
    secret.chmod(0o600)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE said (line text)")
        connection.execute("COPY said FROM PROGRAM 'cat /proc/self/status' (DELIMITER E'\\x01')")
        status = dict(line.split(":\t") for (line,) in connection.execute("SELECT line FROM said") if ":\t" in line)
        # The bounding set is what could be had at most; nothing of it is.
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
        assert "0" not in status["Uid"].split()
        assert "0" not in status["Gid"].split()
        assert "0" not in status["Groups"].split()
        for statement in (
            f"COPY said FROM '{secret}'",
            f"COPY (SELECT 1) TO '{planted}'",
            f"COPY (SELECT 1) TO PROGRAM 'cat > {planted}'",
        ):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ExternalRoutineException)):
                connection.execute(statement)  # type: ignore[call-overload]
    assert not planted.exists()


@as_root
def test_programs_that_lie_in_a_folder_of_root_are_copied_to_where_the_server_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment in /root."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = postgres._programs().parent
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.with_name(name), closed / name, symlinks=True, copy_function=os.link)
    monkeypatch.setattr(postgres, "_programs", lambda: closed / package.name / "pginstall18")
    # Nor is there a way to the temporary folder.
    monkeypatch.setattr(tempfile, "tempdir", str(closed))
    with EmbeddedPostgres() as running, psycopg.connect(running.dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        program = Path(psutil.Process(running.pid).exe())
        assert closed not in program.parents
    assert not program.exists()


def test_a_database_that_asked_for_no_password_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("18\n")
    with pytest.raises(EnvironmentFaultError, match="no file 'password'"):
        EmbeddedPostgres(tmp_path).start()
