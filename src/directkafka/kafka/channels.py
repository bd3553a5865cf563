"""Idle fetch connections of this process, kept from task to task.

A Python worker of Spark runs many tasks one after the other; a new connection for each costs a TCP and TLS
handshake, version negotiation and SASL. A channel is borrowed by one range at a time and given back only when
no answer is on its way.
"""

from __future__ import annotations

import os
import threading
import time

from directkafka.kafka.client import Channel, open_channel
from directkafka.options import ClientOptions

__all__ = ["borrow", "give_back"]

#: Brokers close connections after 10 idle minutes (connections.max.idle.ms); we do it well before.
_IDLE_SECONDS_MAX = 120.0
_IDLE_CHANNELS_MAX = 16

_lock = threading.Lock()
_idle: dict[tuple[ClientOptions, str, int], list[Channel]] = {}
_owner = os.getpid()


def borrow(options: ClientOptions, host: str, port: int) -> Channel:
    """An idle channel to this broker, or a new one.

    Raises:
        BrokerUnreachableError: a new one is needed and the broker cannot be reached.
    """
    now = time.monotonic()
    with _lock:
        _forget_parents_channels()
        waiting = _idle.get((options, host, port), [])
        while waiting:
            channel = waiting.pop()
            if now < channel.expires_at and now - channel.used_at < _IDLE_SECONDS_MAX:
                return channel
            channel.close()
    return open_channel(options, host, port)


def give_back(options: ClientOptions, channel: Channel) -> None:
    """Keep a channel on which no answer is outstanding for the next range."""
    channel.used_at = time.monotonic()
    with _lock:
        _forget_parents_channels()
        if sum(map(len, _idle.values())) >= _IDLE_CHANNELS_MAX:
            channel.close()
        else:
            _idle.setdefault((options, channel.host, channel.port), []).append(channel)


def _forget_parents_channels() -> None:
    """A forked process shares its parent's sockets; two readers on one socket would take each other's bytes."""
    global _owner  # noqa: PLW0603 - the process that the idle channels belong to
    if _owner != os.getpid():
        _owner = os.getpid()
        _idle.clear()
