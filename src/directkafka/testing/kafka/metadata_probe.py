"""The probe for a broker's metadata: which brokers it sees, by one request made by hand.

The test broker must know when its cluster is ready, and must not lean on what it is there to test: neither on
directkafka's client nor on kafka-python. A line in the log would do for one node, but says nothing of whether
the nodes see each other. So this asks what a client would ask first.

API key 3 (Metadata), version 4: brokers 1.0 and later; no flexible fields. Relied on: with an empty list of
topics the answer lists the brokers that are not fenced and have the listener it was asked on. Ignored: rack,
cluster id, controller. https://kafka.apache.org/protocol.html#The_Messages_Metadata
"""

from __future__ import annotations

import socket
import struct

_API_KEY_METADATA = 3
_API_VERSION = 4
_CORRELATION_ID = 1
_CLIENT_ID = b"directkafka-probe"
_TIMEOUT_S = 2.0


def brokers_seen_by(host: str, port: int) -> frozenset[int]:
    """The node ids of the brokers that the broker at this plaintext address calls alive.

    Empty when it does not answer (yet), or answers with something else than Metadata.
    """
    try:
        with socket.create_connection((host, port), _TIMEOUT_S) as connection:
            connection.sendall(encode_request())
            (length,) = struct.unpack(">i", _receive(connection, 4))
            return decode_node_ids(_receive(connection, length))
    except (OSError, EOFError, struct.error):
        return frozenset()


def encode_request() -> bytes:
    """A Metadata v4 request for no topic: length, header v1, empty topics, allow_auto_topic_creation false."""
    header = struct.pack(">hhih", _API_KEY_METADATA, _API_VERSION, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    body = struct.pack(">ib", 0, 0)
    return struct.pack(">i", len(header) + len(body)) + header + body


def decode_node_ids(response: bytes) -> frozenset[int]:
    """The node ids in a Metadata v4 response (without its length).

    ::

        correlation_id int32 | throttle_time_ms int32 | brokers [node_id int32 | host string | port int32 |
        rack string or null] | cluster id, controller, topics: not looked at

    Raises:
        struct.error: the bytes end early.
    """
    _correlation_id, _throttle_time_ms, count = struct.unpack_from(">iii", response, 0)
    position = 12
    node_ids = []
    for _ in range(count):
        (node_id,) = struct.unpack_from(">i", response, position)
        node_ids.append(node_id)
        position = _after_string(response, position + 4)  # host
        position = _after_string(response, position + 4)  # port, rack
    return frozenset(node_ids)


def _after_string(data: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">h", data, position)
    return position + 2 + max(0, int(length))  # -1 is null


def _receive(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise EOFError
        received += chunk
    return bytes(received)
