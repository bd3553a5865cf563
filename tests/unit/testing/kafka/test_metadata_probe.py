from __future__ import annotations

import socket
import struct
import threading

import pytest

from directkafka.testing.kafka.metadata_probe import brokers_seen_by, decode_node_ids, encode_request
from directkafka.testing.servers.ports import ReservedPort


def _answer(*brokers: tuple[int, str, str | None]) -> bytes:
    body = struct.pack(">iii", 1, 0, len(brokers))
    for node_id, host, rack in brokers:
        body += struct.pack(">ih", node_id, len(host)) + host.encode() + struct.pack(">i", 9092)
        body += struct.pack(">h", -1) if rack is None else struct.pack(">h", len(rack)) + rack.encode()
    return body + struct.pack(">hii", -1, 1, 0)  # cluster id null, controller 1, no topics


def test_the_request_says_how_long_it_is() -> None:
    request = encode_request()
    assert struct.unpack_from(">ihhi", request) == (len(request) - 4, 3, 4, 1)


def test_node_ids_are_found_whether_or_not_brokers_have_racks() -> None:
    assert decode_node_ids(_answer()) == frozenset()
    assert decode_node_ids(_answer((1, "a", None), (7, "host.example", "rack-1"), (3, "", ""))) == {1, 3, 7}


def test_an_answer_that_ends_early_is_refused() -> None:
    whole = _answer((1, "a", None), (2, "b", None))
    with pytest.raises(struct.error):
        decode_node_ids(whole[:20])


def test_a_port_that_nobody_listens_on_has_no_brokers() -> None:
    with ReservedPort() as port:
        assert brokers_seen_by("127.0.0.1", port.number) == frozenset()


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        (b"", set()),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", set()),
        (struct.pack(">i", 4) + b"\0\0\0\1", set()),
        (struct.pack(">i", len(_answer((5, "h", None)))) + _answer((5, "h", None)), {5}),
    ],
    ids=["hangs up", "another protocol", "too short", "a broker"],
)
def test_only_a_whole_answer_counts(reply: bytes, seen: set[int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        assert brokers_seen_by("127.0.0.1", server.getsockname()[1]) == seen
        thread.join()
