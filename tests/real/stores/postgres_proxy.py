"""A TCP proxy before Postgres that loses one COMMIT: its answer, or the request itself."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum


class Loss(Enum):
    NOTHING = "nothing"
    #: The server applied COMMIT; its answer is thrown away, then both sides are cut.
    ANSWER = "answer"
    #: The server never saw COMMIT; both sides are cut.
    REQUEST = "request"
    #: The server never saw COMMIT and keeps its side open: a half-open connection with the row's lock.
    REQUEST_HALF_OPEN = "request, the server's side stays open"


@dataclass
class PostgresProxy:
    """Forwards to a server; :attr:`loss` arms the next COMMIT only.

    Attributes:
        happened: the losses that did happen; a test first proves its fault.
        refuse: new connections are closed at once, as by a server that is down.
    """

    server_host: str
    server_port: int
    loss: Loss = Loss.NOTHING
    refuse: bool = False
    refuse_after_loss: bool = False
    happened: list[Loss] = field(default_factory=list)

    def __enter__(self) -> PostgresProxy:
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            _cut(one)
        for thread in self._threads:
            thread.join()

    _threads: list[threading.Thread] = field(default_factory=list)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            server = socket.create_connection((self.server_host, self.server_port))
            self._sockets += [client, server]
            self._start(self._to_server, client, server)
            self._start(self._to_client, client, server)

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(client):
            if b"COMMIT\0" in data and self.loss is not Loss.NOTHING:
                self._lose(client, server, data)
                return
            _send(server, data)
        if Loss.REQUEST_HALF_OPEN not in self.happened:
            _cut(server)

    def _lose(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        loss, self.loss = self.loss, Loss.NOTHING
        self.happened.append(loss)
        self.refuse = self.refuse_after_loss
        if loss is Loss.ANSWER:
            # From here on _to_client swallows; the client hears nothing until it is cut off there.
            self._swallow = server
            _send(server, data)
            return
        _cut(client)
        if loss is Loss.REQUEST:
            _cut(server)

    _swallow: socket.socket | None = None

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(server):
            if server is self._swallow:
                break
            _send(client, data)
        _cut(client)
        if Loss.REQUEST_HALF_OPEN not in self.happened:
            _cut(server)


def _receive(one: socket.socket) -> bytes:
    try:
        return one.recv(1 << 16)
    except OSError:
        return b""


def _send(one: socket.socket, data: bytes) -> None:
    try:
        one.sendall(data)
    except OSError:
        _cut(one)


def _cut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
