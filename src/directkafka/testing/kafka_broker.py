"""A real Kafka cluster for tests and the demo: Apache Kafka's own broker, one process per node, no Docker."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

from directkafka.errors import EnvironmentFaultError
from directkafka.testing.broker_jars import KAFKA_VERSION, broker_jars
from directkafka.testing.java import java_home
from directkafka.testing.kafka.config import INTERNAL, NodePorts, properties_text, server_properties
from directkafka.testing.kafka.metadata_probe import brokers_seen_by
from directkafka.testing.servers.ports import LOOPBACK, ReservedPort
from directkafka.testing.servers.process import ServerProcess, wait_until
from directkafka.testing.servers.watchdog import Watchdog

_DEFAULT_LISTENERS = {"PLAINTEXT": "PLAINTEXT"}
_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
_FORMAT_TIMEOUT_S = 60.0

#: A small heap, and the compiler that starts quickest: a broker is up in 1.6 s instead of 2.2 s. Without
#: UsePerfData the JVM writes nothing to /tmp/hsperfdata_*.
_JVM_OPTIONS = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
)


def _silent(message: str) -> None:
    """Where nobody listens to the progress."""


class KafkaBroker:
    """A real KRaft cluster on 127.0.0.1, each node broker and controller at once.

    The first use on a machine fetches the broker's jars (:func:`~directkafka.testing.broker_jars.broker_jars`).
    Ports are free ones and stay the same over :meth:`kill` and :meth:`restart`. Topics are not made by being
    named. Records stay, also with old timestamps, unless a topic's ``retention.ms`` or ``config`` says otherwise
    (Kafka's default is 7 days). The nodes end, and the temporary folder goes, when this process ends, however it ends.

    ::

        with KafkaBroker() as kafka:
            run_my_job(kafka.bootstrap_servers)

    Args:
        brokers (int): number of nodes, 1 or more; with 3, one may be killed and the cluster goes on.
        listeners: security protocol by listener name, for example ``{"PLAINTEXT": "PLAINTEXT", "SECURE":
            "SASL_SSL"}``; the settings of a secure one go into ``config``. Default: one plaintext listener.
        config: broker settings that win over the cluster's own.
        node_config: settings of single nodes by node id, for example ``{1: {"broker.rack": "a"}}``; they win over
            ``config``.
        version: Kafka's version, 4.0.0 or later.
        folder: where logs and configuration lie; kept at :meth:`stop`. Default: a temporary one.
        jvm_options: added to the ones chosen here; the later of two wins. A benchmark says
            ``("-XX:TieredStopAtLevel=4", "-Xmx2g")``. Behind them come those of the environment variable
            ``KAFKA_OPTS``, as with Kafka's own scripts.
        detached: the nodes live on after this process; only :meth:`stop`, :meth:`kill` or a signal ends them.
        progress: is told what is being fetched the first time.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        listeners: Mapping[str, str] | None = None,
        config: Mapping[str, object] | None = None,
        node_config: Mapping[int, Mapping[str, object]] | None = None,
        version: str = KAFKA_VERSION,
        folder: Path | str | None = None,
        jvm_options: Sequence[str] = (),
        detached: bool = False,
        progress: Callable[[str], None] = _silent,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster needs at least 1 broker, not {brokers}")
        self._node_ids = range(1, brokers + 1)
        self._protocols = dict(_DEFAULT_LISTENERS if listeners is None else listeners)
        self._config = dict(config or {})
        self._node_config = {node_id: dict(its) for node_id, its in (node_config or {}).items()}
        if strangers := sorted(set(self._node_config) - set(self._node_ids)):
            raise ValueError(f"node_config names the nodes {strangers}; this cluster has {list(self._node_ids)}")
        self._version = version
        self._given_folder = None if folder is None else Path(folder).absolute()
        self._jvm_options = (*_JVM_OPTIONS, *jvm_options, *shlex.split(os.environ.get("KAFKA_OPTS", "")))
        self._detached = detached
        self._progress = progress
        self._resources = contextlib.ExitStack()
        self._ports: dict[int, NodePorts] = {}
        self._nodes: dict[int, ServerProcess] = {}
        self._folder = Path()
        self._watchdog: Watchdog | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every node on the first listener, joined by commas."""
        return self.addresses(next(iter(self._protocols)))

    @property
    def pids(self) -> dict[int, int]:
        """Process id by node id, of the nodes that run."""
        return {node_id: node.pid for node_id, node in self._nodes.items() if node.is_running}

    @property
    def folder(self) -> Path:
        """Where each node has a folder ``node-ID`` with ``server.properties``, ``server.log`` and ``data``."""
        return self._folder

    def addresses(self, listener: str) -> str:
        """``host:port`` of every node on this listener, joined by commas.

        Raises:
            ValueError: the cluster has no such listener, or was not started.
        """
        if not self._ports or listener not in self._protocols:
            raise ValueError(
                f"no address of listener {listener!r}: the cluster has {', '.join(self._protocols)}, and "
                f"addresses only after start()"
            )
        return ",".join(f"{LOOPBACK}:{ports.listeners[listener]}" for ports in self._ports.values())

    def start(self) -> Self:
        """Start all nodes and return when each sees all the others.

        Raises:
            EnvironmentFaultError: Java or the jars cannot be had, or a node does not start; carries the end of
                its log.
        """
        if self._ports:
            raise RuntimeError("this KafkaBroker is started already")
        jars = broker_jars(self._version, progress=self._progress)
        try:
            self._allocate()
            self._write_config()
            self._format(jars)
            self._launch(self._node_ids)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all nodes, and remove the folder when it is a temporary one; may be called twice.

        Nodes with a folder of the caller's are asked to end in order; the others' data goes anyway, so they
        are killed.
        """
        if self._given_folder is not None:
            for node in self._nodes.values():
                node.request_stop()
            for node in self._nodes.values():
                node.wait_or_kill(_STOP_TIMEOUT_S)
        self.kill()
        self._nodes.clear()
        self._ports.clear()
        self._resources.close()

    def kill(self, node: int | None = None) -> None:
        """SIGKILL to one node, or to all; returns when the process is gone. Ports and data stay.

        Args:
            node: a node id, from 1; None for all.
        """
        for node_id in self._chosen(node):
            if node_id in self._nodes:
                self._nodes[node_id].kill()

    def restart(self, node: int | None = None) -> None:
        """Start one node, or all, again on their old data and ports; what still runs is killed first.

        Returns when all nodes that run see each other, which needs more than half of the cluster's nodes.

        Args:
            node: a node id, from 1; None for all.

        Raises:
            EnvironmentFaultError: as :meth:`start`.
        """
        if not self._ports:
            raise RuntimeError("this KafkaBroker was not started, or is stopped")
        self.kill(node)
        self._launch(self._chosen(node))

    def __enter__(self) -> Self:
        return self if self._ports else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _chosen(self, node: int | None) -> Sequence[int]:
        if node is None:
            return self._node_ids
        if node not in self._node_ids:
            raise ValueError(f"no node {node}: this cluster has the nodes {list(self._node_ids)}")
        return [node]

    def _allocate(self) -> None:
        """Watchdog, folder and ports, each given back by ``self._resources``."""
        if not self._detached:
            self._watchdog = Watchdog()
            self._resources.callback(self._watchdog.close)
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="directkafka-broker-"))
            self._resources.callback(shutil.rmtree, self._folder, ignore_errors=True)
            if self._watchdog is not None:
                self._watchdog.remove(self._folder)
        else:
            self._folder = self._given_folder
        for node_id in self._node_ids:
            names = [*self._protocols, INTERNAL]
            reserved = [self._resources.enter_context(ReservedPort()) for _ in [*names, "controller"]]
            listeners = {name: port.number for name, port in zip(names, reserved, strict=False)}
            self._ports[node_id] = NodePorts(listeners=listeners, controller=reserved[-1].number)

    def _node_folder(self, node_id: int) -> Path:
        return self._folder / f"node-{node_id}"

    def _write_config(self) -> None:
        for node_id in self._node_ids:
            folder = self._node_folder(node_id)
            (folder / "tmp").mkdir(parents=True, exist_ok=True)
            properties = server_properties(
                node_id=node_id,
                ports=self._ports,
                protocols=self._protocols,
                data_folder=str(folder / "data"),
                config={**self._config, **self._node_config.get(node_id, {})},
            )
            (folder / "server.properties").write_text(properties_text(properties))

    def _format(self, jars: Path) -> None:
        """Give the nodes' data folders their identity, unless they have one from an earlier start.

        Kafka's tool is run for one node; the others get a copy with their own ids, which saves a JVM each.
        """
        first, *others = (self._node_folder(node_id) for node_id in self._node_ids)
        if (first / "data" / "meta.properties").exists():
            return
        cluster_id = _random_id()
        arguments = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster_id,
            "-c",
            "server.properties",
        ]
        done = subprocess.run(
            self._java(first, jars, arguments),
            cwd=first,
            capture_output=True,
            text=True,
            timeout=_FORMAT_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            # Settings and stack frames are indented, the reasons are not.
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line[:1].strip()]
            raise EnvironmentFaultError(
                what=f"Kafka {self._version} refuses its configuration:\n" + "\n".join(lines[-5:]) + "\n",
                remedy="Correct KafkaBroker's listeners or config.",
            )
        for node_id, folder in enumerate(others, start=2):
            (folder / "data").mkdir(exist_ok=True)
            shutil.copy(first / "data" / "bootstrap.checkpoint", folder / "data")
            identity = {
                "version": "1",
                "cluster.id": cluster_id,
                "node.id": str(node_id),
                "directory.id": _random_id(),
            }
            (folder / "data" / "meta.properties").write_text(properties_text(identity))

    def _java(self, folder: Path, jars: Path, arguments: Sequence[str]) -> list[str]:
        log_options = {
            "defaultLogLevel": "info",
            "showDateTime": "true",
            "dateTimeFormat": "HH:mm:ss.SSS",
        }
        return [
            str(java_home() / "bin" / "java"),
            *self._jvm_options,
            *(f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in log_options.items()),
            # The compression libraries unpack themselves there, and a killed JVM does not tidy up.
            f"-Djava.io.tmpdir={folder / 'tmp'}",
            *("-cp", f"{jars}/*"),
            *arguments,
        ]

    def _launch(self, node_ids: Collection[int]) -> None:
        jars = broker_jars(self._version)
        for node_id in node_ids:
            folder = self._node_folder(node_id)
            self._nodes[node_id] = ServerProcess(
                self._java(folder, jars, ["kafka.Kafka", "server.properties"]),
                log_file=folder / "server.log",
                watchdog=self._watchdog,
                popen_options={"cwd": folder},
            )
        wait_until(
            lambda: self._all_see_each_other(at_least=set(node_ids)),
            servers=[self._nodes[node_id] for node_id in node_ids],
            timeout_s=_READY_TIMEOUT_S,
            what=f"Kafka node {', '.join(map(str, node_ids))} is not ready",
        )

    def _all_see_each_other(self, *, at_least: set[int]) -> bool:
        running = set(self.pids)
        # A node that has just died is no longer among those that are asked, and must not pass for ready.
        return at_least <= running and all(
            running <= brokers_seen_by(LOOPBACK, self._ports[node_id].listeners[INTERNAL]) for node_id in running
        )


def _random_id() -> str:
    """A UUID as Kafka writes it: 16 bytes in URL-safe base64, without padding.

    Like Kafka's own it never begins with a dash, which its tools would take for an option.
    """
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text
