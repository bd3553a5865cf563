"""One request and its response over a socket pair: the other end is played by the test."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.kafka.consumer.test_fetch_response import encode

from directkafka.kafka.consumer.fetch import FetchResponse, send_fetch
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network.client import Channel
from directkafka.kafka.network.receive import ResponseError
from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions

VERSION = 17
TOPIC_ID = "00000000-0000-0000-1234-56789abcdef0"

TASK = RangeTask(
    range=OffsetRange("flights", 3, 0, 1_000),
    topic_id=TOPIC_ID,
    host="broker",
    port=9092,
    client=ClientOptions(bootstrap_servers=("broker:9092",), isolation_level="read_committed"),
)


class Broker:
    """The other end of a channel."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.channel = Channel(
            socket=ours, host="broker", port=9092, fetch_version=VERSION, expires_at=float("inf"), client_id="test"
        )
        self._threads: list[threading.Thread] = []

    def say(self, *parts: bytes, then_close: bool = False, pause_s: float = 0.0) -> None:
        """Send these bytes from a thread; large ones do not fit into the pair's buffers."""

        def send() -> None:
            for part in parts:
                self.theirs.sendall(part)
                time.sleep(pause_s)
            if then_close:
                self.theirs.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        self._threads.append(thread)
        thread.start()

    def request(self) -> bytes:
        length = int.from_bytes(self.theirs.recv(4, socket.MSG_WAITALL), "big")
        return self.theirs.recv(length, socket.MSG_WAITALL)

    def close(self) -> None:
        for thread in self._threads:
            thread.join()
        self.theirs.close()
        self.channel.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


def framed(response: bytes, correlation_id: int = 1) -> bytes:
    return len(response).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + response[4:]


def fetch(broker: Broker, buffer: bytearray, **changed: Any) -> FetchResponse:
    arguments: dict[str, Any] = {"bytes_max": 1_000, "buffer": buffer, "timeout_ms": 5_000, "rack": "near"}
    return send_fetch(broker.channel, TASK, 7, **arguments | changed)


def test_a_response_lies_in_the_buffer_where_it_says(broker: Broker) -> None:
    broker.say(framed(encode(VERSION, records=b"records", aborted=[(7, 2)])))
    buffer = bytearray()
    response = fetch(broker, buffer)
    assert buffer[response.records_start : response.records_end] == b"records"
    assert response.aborted == ((7, 2),)


def test_the_request_asks_for_the_position_of_one_partition_of_the_topic_s_id(broker: Broker) -> None:
    broker.say(framed(encode(VERSION)))
    fetch(broker, bytearray())
    request = broker.request()
    assert request[:4] == (1).to_bytes(2, "big") + VERSION.to_bytes(2, "big")
    assert bytes.fromhex(TOPIC_ID.replace("-", "")) in request
    assert (7).to_bytes(8, "big") in request
    assert b"flights" not in request
    assert b"near" in request


def test_the_buffer_is_used_over_and_over_and_nobody_keeps_a_view_of_it(broker: Broker) -> None:
    buffer = bytearray()
    for number, size in enumerate((10, 3_000_000, 500), start=1):
        broker.say(framed(encode(VERSION, records=b"x" * size), correlation_id=number))
        response = fetch(broker, buffer)
        assert response.records_end - response.records_start == size
    assert 3_000_000 < len(buffer) < 3_001_000
    buffer.clear()  # refused while a view is held


@pytest.mark.parametrize("length", [-1, 0, 7, 2**31 - 1, int.from_bytes(b"HTTP", "big")])
def test_a_length_out_of_bounds_is_refused_before_anything_is_received(broker: Broker, length: int) -> None:
    broker.say(length.to_bytes(4, "big", signed=True))
    buffer = bytearray()
    with pytest.raises(ResponseError, match=f"a response of {length} bytes"):
        fetch(broker, buffer)
    assert len(buffer) == 0


def test_a_length_that_lies_takes_no_memory_before_the_bytes_are_there(broker: Broker) -> None:
    broker.say((200 * 1024 * 1024).to_bytes(4, "big"), b"x" * 100_000, then_close=True)
    buffer = bytearray()
    tracemalloc.start()
    with pytest.raises(ConnectionResetError, match="broker:9092 closed"):
        fetch(broker, buffer)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 1024 * 1024
    assert len(buffer) <= 1024 * 1024


@pytest.mark.parametrize("sent", [b"", b"\0\0", framed(b"\0" * 40)[:20]])
def test_a_broker_that_hangs_up_is_a_lost_connection(broker: Broker, sent: bytes) -> None:
    broker.say(sent, then_close=True)
    with pytest.raises(OSError, match="closed the connection"):
        fetch(broker, bytearray())


def test_silence_ends_in_a_timeout(broker: Broker) -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        fetch(broker, bytearray(), timeout_ms=100)
    assert time.monotonic() - begun < 2.0


def test_bytes_that_trickle_do_not_put_the_end_off_for_ever(broker: Broker) -> None:
    broker.say(*(bytes([byte]) for byte in framed(encode(VERSION, records=b"x" * 100))[:60]), pause_s=0.02)
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="came in time"):
        fetch(broker, bytearray(), timeout_ms=200)
    assert time.monotonic() - begun < 2.0


def test_an_answer_to_another_request_or_for_another_partition_is_refused(broker: Broker) -> None:
    broker.say(framed(encode(VERSION), correlation_id=9))
    with pytest.raises(ResponseError, match="asked with correlation id 1 for partition 3, got 9 and 3"):
        fetch(broker, bytearray())
    broker.say(framed(encode(VERSION, partition=4), correlation_id=2))
    with pytest.raises(ResponseError, match="got 2 and 4"):
        fetch(broker, bytearray())


def test_a_refused_answer_leaves_the_buffer_free_to_grow(broker: Broker) -> None:
    """The error is still being handled, with its traceback, when the next try needs a larger buffer."""
    buffer = bytearray()
    broker.say(framed(b"\0" * 4 + b"\xff" * 30))
    try:
        fetch(broker, buffer)
    except ResponseError:
        broker.say(framed(encode(VERSION, records=b"x" * 5_000), correlation_id=2))
        response = fetch(broker, buffer)
    assert response.records_end - response.records_start == 5_000


def test_without_a_topic_id_the_topic_is_named(broker: Broker) -> None:
    by_name = RangeTask(range=TASK.range, topic_id="", host="broker", port=9092, client=TASK.client)
    broker.say(framed(encode(12, records=b"records")))
    response = send_fetch(broker.channel, by_name, 7, bytes_max=1_000, buffer=bytearray(), timeout_ms=5_000, rack="")
    assert response.records_end - response.records_start == 7
    request = broker.request()
    assert request[2:4] == (12).to_bytes(2, "big")
    assert b"flights" in request
