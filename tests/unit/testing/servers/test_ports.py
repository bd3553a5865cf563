from __future__ import annotations

import socket
import sys

import pytest

from directkafka.testing.servers.ports import ReservedPort

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="macOS allows no second bind")


@linux_only
def test_a_server_can_listen_on_the_reserved_port_again_and_again() -> None:
    with ReservedPort() as port:
        for _ in range(2):
            with socket.socket() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(("127.0.0.1", port.number))
                server.listen()
                with socket.create_connection(("127.0.0.1", port.number), 5) as client:
                    assert client.getpeername() == ("127.0.0.1", port.number)


@linux_only
def test_nobody_who_asks_for_any_free_port_is_given_a_reserved_one() -> None:
    with ReservedPort() as port:
        others = [ReservedPort() for _ in range(200)]
        for other in others:
            other.release()
        assert port.number not in {other.number for other in others}


def test_nobody_answers_on_a_port_before_its_server_listens() -> None:
    with ReservedPort() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port.number), 5)


def test_a_port_may_be_released_twice() -> None:
    port = ReservedPort()
    port.release()
    port.release()
    assert port.address == f"127.0.0.1:{port.number}"
