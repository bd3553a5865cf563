"""A TCP proxy before a Kafka broker that loses chosen requests and answers: what was done, and nobody was told."""

from __future__ import annotations

import socket
import threading
from enum import Enum

from tests.real.kafka.proxy import KafkaProxy, advertise, receive_frame
from tests.real.proxy import end, send

WAIT_S = 60.0
PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 0, 22, 24, 26


class Loss(Enum):
    """What becomes of a request of the chosen API, and of the connection that it came on: that is cut."""

    REQUEST = "it never reaches the broker"
    ANSWER = "the broker applies it, and the answer is lost"
    LATE = "it reaches the broker when the test says so"


class LossyProxy(KafkaProxy):
    """Loses requests or answers of one API.

    Attributes:
        lost: how many were.
    """

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(":")
        super().__init__(host, int(port))
        self._broker = servers
        self._guard = threading.Lock()
        self._wanted: tuple[int, Loss] | None = None
        self._left = 0
        self._asked: dict[tuple[int, bytes], int] = {}
        self._late: list[tuple[socket.socket, bytes]] = []
        self._late_answer = threading.Event()
        self.lost = 0

    def __enter__(self) -> LossyProxy:
        super().__enter__()
        self.change = advertise(self._broker, self.address)
        return self

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return f"127.0.0.1:{self.port}"

    def lose(self, api: int, loss: Loss, times: int = 1) -> None:
        """Lose so many of the next requests, or answers, of this API."""
        with self._guard:
            self._wanted, self._left = (api, loss), times

    def release(self) -> None:
        """Send on what is late; the answers have nobody to go to."""
        for server, request in self._late:
            self._late_answer.clear()
            send(server, _framed(request))
            assert self._late_answer.wait(WAIT_S), "the broker did not answer the late request"

    def to_server(self, client: socket.socket, server: socket.socket) -> None:
        while (request := receive_frame(client)) is not None:
            api = int.from_bytes(request[:2], "big")
            self.requests[api] += 1
            self._asked[id(client), request[4:8]] = api
            if self._is_lost(api, Loss.REQUEST):
                break
            if self._is_lost(api, Loss.LATE):
                self._late.append((server, request))
                end(client)
                return
            send(server, _framed(request))
        end(server)

    def to_client(self, client: socket.socket, server: socket.socket) -> None:
        while (response := receive_frame(server)) is not None:
            if any(server is late_server for late_server, _ in self._late):
                self._late_answer.set()
            if self._is_lost(self._asked.pop((id(client), response[:4]), -1), Loss.ANSWER):
                break
            if (changed := self.change(response)) is None:
                break
            send(client, _framed(changed))
        end(client)
        end(server)

    def _is_lost(self, api: int, loss: Loss) -> bool:
        with self._guard:
            if self._left == 0 or self._wanted != (api, loss):
                return False
            self._left -= 1
            self.lost += 1
            return True


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
