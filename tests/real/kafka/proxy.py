"""A TCP proxy before a Kafka broker that understands frames: it counts, keeps silent, changes, or cuts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

#: Given a response without its length, what to send instead; None to keep silent from now on.
Change = Callable[[bytes], bytes | None]


@dataclass
class KafkaProxy:
    """Forwards to a broker, response by response.

    Attributes:
        change: what becomes of each response.
        connections: how many were accepted.
        responses: how many came from the broker.
    """

    server_host: str
    server_port: int
    change: Change = field(default=lambda response: response)
    connections: int = 0
    responses: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> KafkaProxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """End every connection."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection((self.server_host, self.server_port))
            self._sockets += [client, server]
            self._start(self._forward_requests, client, server)
            self._start(self._forward_responses, client, server)

    def _forward_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _forward_responses(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            while (response := _receive_frame(server)) is not None:
                self.responses += 1
                changed = self.change(response)
                if changed is None:
                    # The client waits; the thread ends when the client or the test does.
                    while server.recv(1 << 16):
                        pass
                    return
                client.sendall(len(changed).to_bytes(4, "big") + changed)


def advertise(servers: str, proxy: str) -> Change:
    """Changes metadata responses so that they name the proxy's address where they name the broker's."""

    def encoded(address: str) -> bytes:
        host, _, port = address.partition(":")
        return bytes([len(host) + 1]) + host.encode() + int(port).to_bytes(4, "big")

    return lambda response: response.replace(encoded(servers), encoded(proxy))


def _receive_frame(server: socket.socket) -> bytes | None:
    head = _receive_exactly(server, 4)
    return _receive_exactly(server, int.from_bytes(head, "big")) if head else None


def _receive_exactly(server: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = server.recv(count - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)
