"""A cluster of three brokers for tests: who leads what, partitions that move, disks that are lost, frozen nodes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka.admin import AdminClient
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.admin import ElectionType
from tests.real.kafka.logs import admin
from tests.waiting import WAIT_S, until

import directkafka.kafka.network.connections  # noqa: F401 - it makes the scheme of the administrator's sockets known
from directkafka.testing import KafkaBroker

NODES = (1, 2, 3)


def heal(broker: KafkaBroker) -> None:
    """Start what was killed, and wait until every partition is in sync again."""
    for node in sorted(set(NODES) - set(broker.pids)):
        broker.restart(node)
    administrator = admin(broker.bootstrap_servers)
    until(lambda: _is_healthy(administrator), "the cluster did not recover")


def _is_healthy(administrator: AdminClient) -> bool:
    topics = administrator.list_topics(timeout=WAIT_S).topics
    partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
    return all(
        sorted(partition.isrs) == sorted(partition.replicas) and partition.leader >= 0 for partition in partitions
    )


def partition_of(servers: str, topic: str) -> Any:
    """What confluent-kafka knows of partition 0: ``leader``, ``replicas``, ``isrs``.

    Waited for: a broker that has not heard of a new topic yet answers with the topic and no partition.
    """
    client = admin(servers)
    return until(
        lambda: client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions.get(0), f"{topic} has no partition"
    )


def address_of(broker: KafkaBroker, node: int) -> tuple[str, int]:
    """Host and port of a node."""
    host, _, port = broker.bootstrap_servers.split(",")[node - 1].partition(":")
    return host, int(port)


def place_on(servers: str, topic: str, nodes: Sequence[int]) -> None:
    """Move partition 0 to these nodes, the first of which is to lead it; returns when it is so."""
    partition = TopicPartition(topic, 0)
    with _asking(servers) as administrator:
        assert administrator.alter_partition_reassignments({partition: list(nodes)})[partition] is None

    def has_moved() -> bool:
        seen = partition_of(servers, topic)
        return sorted(seen.isrs) == sorted(seen.replicas) == sorted(nodes)

    until(has_moved, "the partition did not move")
    elect(servers, topic, nodes[0])


def elect(servers: str, topic: str, node: int, how: ElectionType = ElectionType.PREFERRED) -> None:
    """Make a node the leader of partition 0: its first replica, or (``UNCLEAN``) one that lacks records."""

    def leads() -> bool:
        if partition_of(servers, topic).leader == node:
            return True
        # The controller may have died with the leader.
        with suppress(KafkaError), _asking(servers) as administrator:
            administrator.elect_leaders(how, {topic: [0]}, raise_errors=False)
        return False

    until(leads, f"node {node} was not elected")


@contextmanager
def _asking(servers: str) -> Iterator[KafkaAdminClient]:
    """kafka-python's administrator: confluent-kafka's can neither move partitions nor elect leaders.

    It asks while a broker is still coming back, and leaves each socket open that is refused; ours are closed.
    """
    administrator = KafkaAdminClient(bootstrap_servers=servers.split(","), proxy_url="directkafka://")
    try:
        yield administrator
    finally:
        administrator.close()


def lose_log(broker: KafkaBroker, node: int, topic: str) -> None:
    """Remove what a dead node has stored of partition 0, as if its disk had been replaced."""
    assert node not in broker.pids
    shutil.rmtree(broker.folder / f"node-{node}" / "data" / f"{topic}-0")


@contextmanager
def frozen(broker: KafkaBroker, node: int) -> Iterator[None]:
    """A node that keeps its connections, accepts new ones, and does nothing: SIGSTOP."""
    pid = broker.pids[node]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
