"""Topics made by confluent-kafka, ready to be used when they are handed over."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

_TIMEOUT_S = 60.0
_POLL_S = 0.02


def make_topic(
    servers: str, name: str, partitions: int = 1, *, replicas: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Make a topic and wait until a broker names the leaders of all its partitions.

    The controller answers when the topic is decided. A broker hears of it a moment later, and until then says that
    there is none.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(name, partitions, replicas, config=dict(config or {}))])
    made[name].result(_TIMEOUT_S)
    deadline = time.monotonic() + _TIMEOUT_S
    while not _is_led(admin, name, partitions):
        assert time.monotonic() < deadline, f"{name} has no leaders"
        time.sleep(_POLL_S)
    return name


def _is_led(admin: AdminClient, name: str, partitions: int) -> bool:
    seen = admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
    return len(seen) == partitions and all(partition.leader >= 0 for partition in seen.values())
