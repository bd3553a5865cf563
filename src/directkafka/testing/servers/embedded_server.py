"""A server that a program starts for itself: one process, its folder, its port, and its end with the program."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from directkafka.testing.servers.ports import ReservedPort
from directkafka.testing.servers.process import ServerProcess, wait_until
from directkafka.testing.servers.watchdog import Watchdog


class EmbeddedServer(ABC):
    """A server on 127.0.0.1.

    Args:
        folder: where all that it writes lies; kept at :meth:`stop`. None: a temporary one.
        is_detached: it lives on after this process; only :meth:`stop` or a signal ends it.
    """

    #: How names of temporary folders begin.
    _prefix: ClassVar[str]
    _ready_timeout_s: ClassVar[float]
    #: What an error says of a server that starts and is not ready.
    _not_ready: ClassVar[str]

    def __init__(self, folder: Path | str | None = None, *, is_detached: bool = False) -> None:
        self._given_folder = None if folder is None else Path(folder).absolute()
        self._is_detached = is_detached
        self._resources = contextlib.ExitStack()
        self._folder = Path()
        self._port: ReservedPort | None = None
        self._server: ServerProcess | None = None
        self._watchdog: Watchdog | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._port.address if self._port is not None else 'not started'})"

    @property
    def pid(self) -> int:
        """Process id of the server's first process."""
        return self._running().pid

    @property
    def folder(self) -> Path:
        """Where ``server.log`` lies, and the data if there are any."""
        return self._folder

    def start(self) -> Self:
        """Start the server, and return when it is ready.

        Raises:
            EnvironmentFaultError: it cannot be had, or does not start; carries the end of its log.
        """
        if self._port is not None:
            raise RuntimeError(f"this {type(self).__name__} is started already")
        try:
            self._allocate()
            self._prepare()
            self._launch()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server, and remove the folder when it is a temporary one; may be called twice."""
        if self._server is not None:
            self._end(self._server)
        self._server = None
        self._port = None
        self._resources.close()

    def __enter__(self) -> Self:
        return self if self._server is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _address(self) -> str:
        """Host and port."""
        if self._port is None:
            raise RuntimeError(f"this {type(self).__name__} has no address before start()")
        return self._port.address

    def _running(self) -> ServerProcess:
        if self._server is None:
            raise RuntimeError(f"this {type(self).__name__} was not started, or is stopped")
        return self._server

    def _allocate(self) -> None:
        """Watchdog, folder and port, each given back by ``self._resources``."""
        if not self._is_detached:
            self._watchdog = Watchdog()
            self._resources.callback(self._watchdog.close)
        if self._given_folder is None:
            self._folder = self._temporary_folder()
        else:
            self._folder = self._given_folder
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._port = self._resources.enter_context(ReservedPort())

    def _temporary_folder(self, parent: str | None = None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=self._prefix, dir=parent))
        self._resources.callback(shutil.rmtree, folder, ignore_errors=True)
        if self._watchdog is not None:
            self._watchdog.remove(folder)
        return folder

    def _launch(self) -> None:
        assert self._port is not None
        self._server = self._begin(self._port.number)
        wait_until(self._is_ready, servers=[self._server], timeout_s=self._ready_timeout_s, what=self._not_ready)

    @abstractmethod
    def _prepare(self) -> None:
        """Get what the server needs, before its first start."""

    @abstractmethod
    def _begin(self, port: int) -> ServerProcess:
        """Start the process."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it takes requests."""

    def _end(self, server: ServerProcess) -> None:
        """End the process, if it runs."""
        if server.is_running:
            server.kill()
