"""What is kept from range to range, and what is not."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import Channel
from directkafka.options.client import ClientOptions

OPTIONS = ClientOptions(bootstrap_servers=("broker:9092",))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ClientOptions, Channel]]:
    """An empty pool for this test."""
    kept: list[tuple[ClientOptions, Channel]] = []
    monkeypatch.setattr(connection_pool, "_idle", kept)
    monkeypatch.setattr(connection_pool, "_buffers", [])
    return kept


@pytest.fixture
def make(pool: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Channel]]:
    """Opens channels to brokers that are not there; also what :func:`connection_pool.borrow` opens."""
    sockets: list[socket.socket] = []

    def make(
        _: ClientOptions = OPTIONS, host: str = "broker", port: int = 9092, *, timeout_ms: int | None = None
    ) -> Channel:
        ours, theirs = socket.socketpair()
        sockets.extend((ours, theirs))
        channel = Channel(
            socket=ours, host=host, port=port, fetch_version=17, expires_at=float("inf"), client_id="test"
        )
        others_end[id(channel)] = theirs
        return channel

    monkeypatch.setattr(connection_pool, "open_channel", make)
    yield make
    for opened_socket in sockets:
        opened_socket.close()
    others_end.clear()


others_end: dict[int, socket.socket] = {}


def borrow(host: str = "broker", options: ClientOptions = OPTIONS) -> Channel:
    return connection_pool.borrow(options, host, 9092)


def test_what_is_given_back_is_lent_again(make: Callable[..., Channel]) -> None:
    channel = make()
    connection_pool.release(OPTIONS, channel)
    assert borrow() is channel
    assert borrow() is not channel


def test_the_channel_that_was_used_last_is_lent_first(make: Callable[..., Channel]) -> None:
    first, second = make(), make()
    connection_pool.release(OPTIONS, first)
    connection_pool.release(OPTIONS, second)
    assert [borrow(), borrow()] == [second, first]


def test_a_channel_is_lent_only_for_its_broker_and_its_options(make: Callable[..., Channel]) -> None:
    channel = make()
    connection_pool.release(OPTIONS, channel)
    assert borrow("another") is not channel
    other = ClientOptions(bootstrap_servers=("broker:9092",), isolation_level="read_committed")
    assert borrow(options=other) is not channel
    assert borrow() is channel


def test_a_channel_whose_session_is_over_is_closed(make: Callable[..., Channel]) -> None:
    channel = make()
    channel.expires_at = time.monotonic() - 1
    connection_pool.release(OPTIONS, channel)
    assert borrow() is not channel
    assert channel.socket.fileno() == -1


def test_a_channel_that_was_idle_for_long_is_closed(make: Callable[..., Channel]) -> None:
    channel = make()
    connection_pool.release(OPTIONS, channel)
    channel.used_at -= 121
    assert borrow() is not channel
    assert channel.socket.fileno() == -1


def test_a_channel_that_the_broker_closed_is_not_lent(make: Callable[..., Channel]) -> None:
    channel = make()
    connection_pool.release(OPTIONS, channel)
    others_end[id(channel)].close()
    assert borrow() is not channel


def test_a_full_pool_lets_the_oldest_go(
    make: Callable[..., Channel], pool: list[tuple[ClientOptions, Channel]]
) -> None:
    made = [make(host=f"broker-{number}") for number in range(17)]
    for channel in made:
        connection_pool.release(OPTIONS, channel)
    assert [channel for _, channel in pool] == made[1:]
    assert made[0].socket.fileno() == -1


def test_the_end_of_the_process_closes_what_is_idle(
    make: Callable[..., Channel], pool: list[tuple[ClientOptions, Channel]]
) -> None:
    channel = make()
    connection_pool.release(OPTIONS, channel)
    connection_pool.close_idle()
    assert pool == []
    assert channel.socket.fileno() == -1


def test_buffers_come_back_with_their_size_and_the_rest_is_empty(pool: object) -> None:
    connection_pool.release_buffers([bytearray(100), bytearray(), bytearray(200)])
    assert sorted(map(len, connection_pool.borrow_buffers(3))) == [0, 100, 200]
    assert list(map(len, connection_pool.borrow_buffers(2))) == [0, 0]


def test_huge_buffers_and_more_than_a_range_uses_are_not_kept(pool: object) -> None:
    connection_pool.release_buffers([bytearray(16 * 1024 * 1024 + 1)])
    connection_pool.release_buffers([bytearray(1)] * 2)
    connection_pool.release_buffers([bytearray(1)] * 2)
    assert list(map(len, connection_pool.borrow_buffers(5))) == [1, 1, 1, 0, 0]
