"""A TCP proxy before a database that loses one COMMIT: its answer, or the request itself."""

from __future__ import annotations

import socket
from enum import Enum
from typing import ClassVar

from tests.real.proxy import TcpProxy, end, receive, send


class Loss(Enum):
    NOTHING = "nothing"
    #: The server applied COMMIT; its answer is thrown away, then both sides are cut.
    ANSWER = "answer"
    #: The server never saw COMMIT; both sides are cut.
    REQUEST = "request"
    #: The server never saw COMMIT and keeps its side open: a half-open connection with the row's lock.
    REQUEST_HALF_OPEN = "request, the server's side stays open"


class PostgresProxy(TcpProxy):
    """Forwards to a server; :attr:`loss` arms the next COMMIT only.

    Attributes:
        commit: what a request of COMMIT has in it.
        happened: the losses that did happen; a test first proves its fault.
        refuse_after_loss: whether new connections are refused from then on.
    """

    commit: ClassVar[bytes] = b"COMMIT\0"

    def __init__(self, server_host: str, server_port: int) -> None:
        super().__init__(server_host, server_port)
        self.loss = Loss.NOTHING
        self.happened: list[Loss] = []
        self.refuse_after_loss = False
        self._swallow: socket.socket | None = None

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        while data := receive(client):
            if self.commit in data and self.loss is not Loss.NOTHING:
                self._raise_or_skip_loss(client, server, data)
                return
            send(server, data)
        self._end_unless_half_open(server)

    def to_client(self, client: socket.socket, server: socket.socket) -> None:
        while data := receive(server):
            if server is self._swallow:
                break
            send(client, data)
        end(client)
        self._end_unless_half_open(server)

    def _raise_or_skip_loss(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        loss, self.loss = self.loss, Loss.NOTHING
        self.happened.append(loss)
        self.refuse = self.refuse_after_loss
        if loss is Loss.ANSWER:
            # From here on to_client swallows; the client hears nothing until it is cut off there.
            self._swallow = server
            send(server, data)
            return
        end(client)
        if loss is Loss.REQUEST:
            end(server)

    def _end_unless_half_open(self, server: socket.socket) -> None:
        if Loss.REQUEST_HALF_OPEN not in self.happened:
            end(server)


class MySQLProxy(PostgresProxy):
    """The same before MySQL: a packet with a command of one byte, and a statement."""

    commit: ClassVar[bytes] = b"\x07\0\0\0\x03COMMIT"
