"""A TCP proxy on loopback, the base of those that know a protocol and break it on purpose."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

from directkafka.testing.servers.ports import ReservedPort

RECEIVE_BYTES = 1 << 16

#: Ports stay reserved when their proxies have ended. Clients may go on to connect, and a server that was given the port
#: would take what they send for its own: Spark fails a query whose worker, as it seems, does not know the secret.
_PORTS: Final[list[ReservedPort]] = []


class TcpProxy:
    """Accepts connections and forwards each, in two threads, to a server; a protocol's proxy overrides the two.

    Attributes:
        port: where it listens.
        connections: how many were accepted.
        refuse: new connections are closed at once, as by a server that is down.
    """

    def __init__(self, server_host: str, server_port: int) -> None:
        self._server = (server_host, server_port)
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.connections = 0
        self.refuse = False

    def __enter__(self) -> Self:
        _PORTS.append(ReservedPort())
        self.port: int = _PORTS[-1].number
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for connection in self._sockets:
            connection.close()

    def cut(self) -> None:
        """End every connection."""
        for connection in self._sockets:
            end(connection)

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        """Forward what the client sends, until either side ends."""
        while data := receive(client):
            send(server, data)
        end(server)

    def to_client(self, client: socket.socket, server: socket.socket) -> None:
        """Forward what the server sends, until either side ends."""
        while data := receive(server):
            send(client, data)
        end(client)

    def _start(self, target: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=target, args=sockets)
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
            self.connections += 1
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            self._start(self.to_server, client, server)
            self._start(self.to_client, client, server)


def receive(connection: socket.socket, bytes_max: int = RECEIVE_BYTES) -> bytes:
    """What has come, or nothing when the connection has ended in whatever way."""
    try:
        return connection.recv(bytes_max)
    except OSError:
        return b""


def send(connection: socket.socket, data: bytes) -> None:
    """Send, or end a connection that takes no more."""
    try:
        connection.sendall(data)
    except OSError:
        end(connection)


def end(connection: socket.socket) -> None:
    """Both sides hear of it; the socket itself is closed when the proxy is."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
