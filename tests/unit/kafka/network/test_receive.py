"""A socket to a broker, and how it is ended while another thread uses it."""

from __future__ import annotations

import math
import socket
import ssl

from directkafka.kafka.network.receive import BrokerSocket


def test_a_connection_that_is_ended_keeps_its_encryption() -> None:
    """A thread that begins to send in this very moment must not send in clear."""
    ours, theirs = socket.socketpair()
    context = ssl.create_default_context()
    with theirs, context.wrap_socket(ours, server_hostname="kafka", do_handshake_on_connect=False) as secured:
        BrokerSocket(socket=secured, host="kafka", port=9093, expires_at=math.inf).interrupt()
        assert secured._sslobj is not None  # type: ignore[attr-defined]
        assert theirs.recv(1) == b""
