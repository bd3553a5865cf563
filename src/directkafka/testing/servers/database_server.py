"""A database server that a program starts for itself: its password, its databases, and what a crash leaves."""

from __future__ import annotations

import signal
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from directkafka.testing.servers.embedded_server import EmbeddedServer

#: Of the superuser's password.
PASSWORD_BYTES = 24


class DatabaseServer(EmbeddedServer):
    """A server on 127.0.0.1, for who knows its password. For its arguments see :class:`EmbeddedServer`."""

    _scheme: ClassVar[str]
    _superuser: ClassVar[str]
    #: The signal on which the server writes all that it has, and ends.
    _orderly: ClassVar[signal.Signals] = signal.SIGTERM
    _stop_timeout_s: ClassVar[float]
    #: Statements with a place for the name.
    _create: ClassVar[str] = "CREATE DATABASE {}"
    _drop: ClassVar[str] = "DROP DATABASE IF EXISTS {}"

    def __init__(self, folder: Path | str | None = None, *, is_detached: bool = False) -> None:
        super().__init__(folder, is_detached=is_detached)
        self._password = ""

    def dsn_of(self, database: str) -> str:
        """URL of a database of this server, as its superuser, with the password."""
        return f"{self._scheme}://{self._superuser}:{self._password}@{self._address}/{quote(database, safe='')}"

    def kill(self) -> None:
        """SIGKILL to the server, as if the machine had crashed; data and port stay."""
        self._running().kill()

    def restart(self) -> None:
        """Start the server again on its old data and port, with crash recovery after :meth:`kill`.

        Raises:
            EnvironmentFaultError: as :meth:`start`.
        """
        if self._running().is_running:
            self._running().request_stop(self._orderly)
            self._running().wait_or_kill(self._stop_timeout_s)
        self._launch()

    def create_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        self._execute(self._create, name)
        return self.dsn_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database; nothing when there is none."""
        self._execute(self._drop, name)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @abstractmethod
    def _execute(self, statement: str, name: str) -> None:
        """Run a statement about something with a name."""
