"""A TCP proxy before a Kafka broker that understands frames: it counts, keeps silent, changes, or cuts."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable

from tests.real.proxy import TcpProxy, end, receive, send

#: Given a response without its length, what to send instead; None to keep silent from now on.
Change = Callable[[bytes], bytes | None]


class KafkaProxy(TcpProxy):
    """Forwards to a broker, response by response.

    Attributes:
        change: what becomes of each response.
        lie: given a response, what is said of its length.
        before_request: is told the API's number before a request is passed on.
        requests: how many went to the broker, by their API's number.
        responses: how many came from the broker.
        response_bytes: how many bytes these had.
    """

    def __init__(self, server_host: str, server_port: int, change: Change = lambda response: response) -> None:
        super().__init__(server_host, server_port)
        self.change = change
        self.lie: Callable[[bytes], int] = len
        self.requests: Counter[int] = Counter()
        self.before_request: Callable[[int], object] = lambda api: None
        self.responses = 0
        self.response_bytes = 0

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        while (request := receive_frame(client)) is not None:
            api = int.from_bytes(request[:2], "big")
            self.before_request(api)
            self.requests[api] += 1
            send(server, len(request).to_bytes(4, "big") + request)
        end(server)

    def to_client(self, client: socket.socket, server: socket.socket) -> None:
        while (response := receive_frame(server)) is not None:
            self.responses += 1
            self.response_bytes += len(response)
            changed = self.change(response)
            if changed is None:
                # The client waits; the thread ends when the client or the test does.
                while receive(server):
                    pass
                break
            send(client, self.lie(changed).to_bytes(4, "big", signed=True) + changed)
        end(client)
        end(server)


class SilentProxy(TcpProxy):
    """Accepts connections, takes what it is sent, and never answers."""

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        while receive(client):
            pass
        end(server)


def advertise(servers: str, proxy: str) -> Change:
    """Changes metadata responses so that they name the proxy's address where they name the broker's."""

    def encoded(address: str) -> bytes:
        host, _, port = address.partition(":")
        return bytes([len(host) + 1]) + host.encode() + int(port).to_bytes(4, "big")

    return lambda response: response.replace(encoded(servers), encoded(proxy))


def receive_frame(sender: socket.socket) -> bytes | None:
    """A request or a response without its length; None when the connection has ended."""
    head = _receive_exactly(sender, 4)
    return _receive_exactly(sender, int.from_bytes(head, "big")) if head else None


def _receive_exactly(sender: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = receive(sender, count - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)
