"""A range read from brokers that lie, keep silent, break off, or die: right rows, or an error that says why."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.real.kafka.logs import (
    consume,
    create_topic_again,
    host_and_port,
    offsets_of,
    options,
    produce,
    read,
    task_for,
)
from tests.real.kafka.proxy import KafkaProxy, SilentProxy, advertise

from directkafka.errors import BrokerResponseError, FetchTimeoutError, MalformedBatchError
from directkafka.kafka.consumer.fetch import parse_fetch_response
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]


# Brokers that misbehave.


def through(proxy: KafkaProxy, client_servers: str, topic: str, **fields: Any) -> RangeTask:
    return task_for(options(client_servers, **fields.pop("params", {})), topic, 0, 100, port=proxy.port, **fields)


def test_a_broker_that_never_answers_ends_in_a_timeout_in_bounded_time(servers: str, hundred: str) -> None:
    """It accepts, and shakes hands, and then says nothing to the fetch."""
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        known = task_for(options(servers), hundred, 0, 100, poll_timeout_ms=1_000)
        silent = replace(known, port=proxy.port, client=options(address))
        assert len(read(silent)) == 100
        proxy.change = lambda _: None
        begun = time.monotonic()
        with pytest.raises(FetchTimeoutError, match=address):
            read(silent)
        assert time.monotonic() - begun < 6.0


def test_a_flipped_byte_is_named_with_topic_partition_and_offset(servers: str, hundred: str) -> None:

    def flip(response: bytes) -> bytes:
        at = response.find(b"value 55")
        return response if at < 0 else response[:at] + b"V" + response[at + 1 :]

    with (
        KafkaProxy(*host_and_port(servers), change=flip) as proxy,
        pytest.raises(MalformedBatchError, match="CRC32C") as caught,
    ):
        read(through(proxy, servers, hundred))
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (hundred, 0, 50)


def test_a_flipped_byte_passes_when_checksums_are_not_wanted(servers: str, hundred: str) -> None:
    with KafkaProxy(
        *host_and_port(servers), change=lambda response: response.replace(b"value 55", b"Value 55")
    ) as proxy:
        rows = read(through(proxy, servers, hundred, params={"check_crcs": False}))
    assert rows[55][2] == b"Value 55"


def test_a_batch_header_that_is_none_is_an_error_that_says_so(servers: str, hundred: str) -> None:

    def old_format(response: bytes) -> bytes:
        if b"value 0" not in response:
            return response
        magic_at = parse_fetch_response(memoryview(response), 17).records_start + 16
        return response[:magic_at] + b"\x01" + response[magic_at + 1 :]

    with (
        KafkaProxy(*host_and_port(servers), change=old_format) as proxy,
        pytest.raises(MalformedBatchError, match="magic byte is 1"),
    ):
        read(through(proxy, servers, hundred))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda response: response[:20], id="cut off"),
        pytest.param(lambda response: b"\xff" * len(response), id="all ones"),
        pytest.param(lambda response: bytes(4) + response[4:], id="another correlation id"),
    ],
)
def test_an_answer_that_is_none_is_asked_for_again_elsewhere(
    servers: str, hundred: str, wrong: Callable[[bytes], bytes]
) -> None:
    """The leader is looked up again, which leads past the proxy."""

    def change(response: bytes) -> bytes:
        return wrong(response) if b"value 0" in response else response

    with KafkaProxy(*host_and_port(servers), change=change) as proxy:
        assert offsets_of(read(through(proxy, servers, hundred))) == list(range(100))


@pytest.mark.parametrize("length", [-1, 0, 7, 20, 2**31 - 1], ids="length {}".format)
def test_a_length_that_lies_is_asked_for_again_elsewhere(servers: str, hundred: str, length: int) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        task = through(proxy, servers, hundred, params={"request_timeout_ms": 500})
        proxy.lie = lambda response: length if b"value 0" in response else len(response)
        assert offsets_of(read(task)) == list(range(100))
        assert proxy.responses == 2


def test_a_length_that_promises_more_than_comes_costs_the_request_timeout(servers: str, hundred: str) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        task = through(proxy, servers, hundred, params={"request_timeout_ms": 500})
        proxy.lie = lambda response: 200_000_000 if b"value 0" in response else len(response)
        begun = time.monotonic()
        assert offsets_of(read(task)) == list(range(100))
        assert 0.5 <= time.monotonic() - begun < 5.0


def test_a_broker_that_accepts_and_says_nothing_is_left_after_the_connection_timeout(
    servers: str, hundred: str
) -> None:
    with SilentProxy(*host_and_port(servers)) as proxy:
        task = task_for(options(servers, socket_connection_setup_timeout_ms=500), hundred, 0, 100, port=proxy.port)
        begun = time.monotonic()
        assert offsets_of(read(task)) == list(range(100))
        assert 0.5 <= time.monotonic() - begun < 5.0


def test_a_connection_that_breaks_again_and_again_is_made_again(servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic()
    produce(servers, topic, [os.urandom(10_000) for _ in range(300)], batch_every=20)
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        # Every connection goes through the proxy, which cuts them all at every third response with records.
        as_proxy, with_records = advertise(servers, address), itertools.count(1)

        def change(response: bytes) -> bytes:
            if len(response) > 10_000 and next(with_records) % 3 == 0:
                proxy.cut()
            return as_proxy(response) or b""

        proxy.change = change
        client = options(address, max_partition_fetch_bytes=100_000, retry_backoff_ms=10)
        known = task_for(options(servers), topic, 0, 300)
        assert offsets_of(read(replace(known, port=proxy.port, client=client))) == list(range(300))
        assert next(with_records) > 6
        assert proxy.connections > 4


def test_an_error_that_no_retry_helps_is_raised_as_the_broker_names_it(servers: str, hundred: str) -> None:

    def refuse(response: bytes) -> bytes:
        at = response.find(b"value 0")
        # TOPIC_AUTHORIZATION_FAILED as the error of the whole response, after correlation id, tags and throttle.
        return response if at < 0 else response[:9] + (29).to_bytes(2, "big") + response[11:]

    with (
        KafkaProxy(*host_and_port(servers), change=refuse) as proxy,
        pytest.raises(BrokerResponseError, match="TOPIC_AUTHORIZATION_FAILED") as caught,
    ):
        read(through(proxy, servers, hundred))
    assert caught.value.code == 29


# Brokers that die.


@pytest.mark.slow
def test_a_broker_that_restarts_in_mid_range_costs_nothing_but_time() -> None:
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topic_again(servers, "flights")
        produce(servers, "flights", [os.urandom(10_000) for _ in range(500)], batch_every=10, acks="all")
        expected = consume(servers, "flights")
        reader = read_range(task_for(options(servers, max_partition_fetch_bytes=20_000), "flights", 0, 500))
        rows = [next(reader)]
        broker.kill()
        broker.restart()
        rows += reader
        read_offsets = [offset for batch in rows for offset in batch.column("offset").to_pylist()]
        assert read_offsets == offsets_of(expected)
