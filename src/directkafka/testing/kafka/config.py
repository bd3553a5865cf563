"""The broker's ``server.properties`` as a pure function of a cluster's description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from directkafka.testing.servers.ports import LOOPBACK

#: The listener that brokers talk to each other on and that readiness is asked on: plaintext in every cluster,
#: so that neither depends on the security of the listeners under test.
INTERNAL = "INTERNAL"
_CONTROLLER = "CONTROLLER"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The ports of one node.

    Attributes:
        listeners: port by listener name, :data:`INTERNAL` among them.
        controller: port of the quorum.
    """

    listeners: Mapping[str, int]
    controller: int


def server_properties(
    *,
    node_id: int,
    ports: Mapping[int, NodePorts],
    protocols: Mapping[str, str],
    data_folder: str,
    config: Mapping[str, object],
) -> dict[str, str]:
    """The settings of one node of a KRaft cluster in which each node is broker and controller.

    Args:
        node_id: which node.
        ports: the ports of all nodes by node id.
        protocols: security protocol by name of the listeners for clients.
        data_folder: where the node keeps its logs.
        config: the caller's settings; they win over the ones chosen here.
    """
    mine = ports[node_id]
    listeners = [f"{name}://{LOOPBACK}:{port}" for name, port in mine.listeners.items()]
    protocol_map = {**protocols, INTERNAL: "PLAINTEXT", _CONTROLLER: "PLAINTEXT"}
    voters = [f"{node}@{LOOPBACK}:{its.controller}" for node, its in sorted(ports.items())]
    identity = {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "log.dirs": data_folder,
        "listeners": ",".join([*listeners, f"{_CONTROLLER}://{LOOPBACK}:{mine.controller}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocol_map.items()),
        "inter.broker.listener.name": INTERNAL,
        "controller.listener.names": _CONTROLLER,
        "controller.quorum.voters": ",".join(voters),
    }
    chosen = {**_quick_settings(len(ports)), **identity, **config}
    return {name: _text(value) for name, value in chosen.items()}


def _quick_settings(brokers: int) -> dict[str, object]:
    """What differs from Kafka's defaults so that a small cluster is quick, and does nothing that no test asked for."""
    replication = min(brokers, 3)
    in_sync = min(replication, 2)
    return {
        # A test that misspells its topic should fail, not make one.
        "auto.create.topics.enable": False,
        # By default Kafka deletes what has a timestamp of more than 7 days ago, every 5 minutes. A test writes such
        # records, and loses them when the deletion comes between writing and reading.
        "log.retention.ms": -1,
        # 50 partitions of each internal topic are made at first use by default: seconds.
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        # A killed node is noticed, and may come back, after 3 s, not 9 s.
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 3000,
        # The cleaner takes its buffer at the start: 128 MB of a small heap by default.
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }


def properties_text(properties: Mapping[str, str]) -> str:
    """The settings as a Java properties file; backslashes and line ends in values are escaped."""
    lines: Sequence[str] = [
        f"{name}={value.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}"
        for name, value in properties.items()
    ]
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
