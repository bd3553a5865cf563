"""The pool of a process: idle connections and receive buffers, kept from one task to the next.

A Python worker of Spark runs many tasks one after the other. A new connection for each costs a TCP and TLS
handshake, version negotiation and SASL; a new buffer costs the page faults of its first use. A channel is borrowed
by one range, or one writer, at a time and given back only when no answer is on its way. A client, which asks
questions, is kept likewise.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from directkafka.kafka.network.client import Channel, KafkaClient, open_channel
from directkafka.options.client import ClientOptions

#: Brokers close connections after 10 idle minutes (connections.max.idle.ms); we do it well before.
_IDLE_SECONDS_MAX = 120.0
_IDLE_CHANNELS_MAX = 16
_IDLE_CLIENTS_MAX = 4
_IDLE_BUFFERS_MAX = 3
#: A buffer that a huge record batch has grown is not kept.
_IDLE_BUFFER_BYTES_MAX = 16 * 1024 * 1024

_lock = threading.Lock()
#: Oldest first.
_idle: list[tuple[ClientOptions, Channel]] = []
_buffers: list[bytearray] = []
#: When each was given back, oldest first.
_clients: list[tuple[float, KafkaClient]] = []


def borrow(options: ClientOptions, host: str, port: int, *, timeout_ms: int | None = None) -> Channel:
    """An idle channel to this broker, or a new one.

    Args:
        options: the connection's; a channel is lent only for the very options it was opened with.
        host, port: the broker.
        timeout_ms: longest time for a new one, if less than the connection timeout of the options.

    Raises:
        BrokerUnreachableError: a new one is needed and the broker cannot be reached.
    """
    while (channel := _take(options, host, port)) is not None:
        now = time.monotonic()
        if now < channel.expires_at and now - channel.used_at < _IDLE_SECONDS_MAX and channel.is_quiet():
            return channel
        channel.close()
    return open_channel(options, host, port, timeout_ms=timeout_ms)


def release(options: ClientOptions, channel: Channel) -> None:
    """Keep a channel on which no answer is outstanding for the next range; the oldest idle one may have to go."""
    channel.used_at = time.monotonic()
    with _lock:
        _idle.append((options, channel))
        surplus = _idle.pop(0)[1] if len(_idle) > _IDLE_CHANNELS_MAX else None
    if surplus is not None:
        surplus.close()


@contextmanager
def borrowed_client(options: ClientOptions) -> Iterator[KafkaClient]:
    """A client that has its connections from earlier use, or a new one; kept for the next user unless one fails.

    Args:
        options: the client's; it is lent only for the very options it was made with.
    """
    client = _take_client(options) or KafkaClient(options)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    with _lock:
        _clients.append((time.monotonic(), client))
        surplus = _clients.pop(0)[1] if len(_clients) > _IDLE_CLIENTS_MAX else None
    if surplus is not None:
        surplus.close()


def _take_client(options: ClientOptions) -> KafkaClient | None:
    """The idle client with these options that was used last; those that were idle for too long are closed."""
    with _lock:
        stale = [idle for idle in _clients if time.monotonic() - idle[0] > _IDLE_SECONDS_MAX]
        _clients[:] = [idle for idle in _clients if idle not in stale]
        idle_entry = next((idle for idle in reversed(_clients) if idle[1].options == options), None)
        if idle_entry is not None:
            _clients.remove(idle_entry)
    for _, client in stale:
        client.close()
    return idle_entry[1] if idle_entry is not None else None


def borrow_buffers(count: int) -> list[bytearray]:
    """Receive buffers that have their size from earlier use, as far as there are any, and empty ones."""
    with _lock:
        kept = _buffers[:count]
        del _buffers[:count]
    return kept + [bytearray() for _ in range(count - len(kept))]


def release_buffers(buffers: list[bytearray]) -> None:
    """Keep buffers that nobody looks into any more for the next range."""
    useful = [buffer for buffer in buffers if 0 < len(buffer) <= _IDLE_BUFFER_BYTES_MAX]
    with _lock:
        _buffers.extend(useful[: _IDLE_BUFFERS_MAX - len(_buffers)])


def _take(options: ClientOptions, host: str, port: int) -> Channel | None:
    """The idle channel to this broker that was used last."""
    with _lock:
        for index in reversed(range(len(_idle))):
            opened_with, channel = _idle[index]
            if (channel.host, channel.port) == (host, port) and opened_with == options:
                del _idle[index]
                return channel
    return None


def _forget_parents_channels() -> None:
    """In a forked child: two readers on one socket would take each other's bytes.

    The child closes its copies only; ending the connections would end them for the parent.
    """
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it in the moment of the fork
    _lock = threading.Lock()
    for _, channel in _idle:
        channel.socket.close()
    _idle.clear()
    # Forgotten, not closed: to close is to take part in the parent's conversation.
    _clients.clear()


def close_idle() -> None:
    """Close all that is kept: at the end of the process, so that brokers are told, or when it is not to be trusted."""
    with _lock:
        channels, clients = _idle.copy(), _clients.copy()
        _idle.clear()
        _clients.clear()
    for _, channel in channels:
        channel.close()
    for _, client in clients:
        client.close()


os.register_at_fork(after_in_child=_forget_parents_channels)
atexit.register(close_idle)
