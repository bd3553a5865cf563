"""Kafka Connect with Debezium's connector for Postgres, as one process: what writes changes of a table to Kafka."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from psycopg.conninfo import conninfo_to_dict

from directkafka.testing.java import java_home
from directkafka.testing.maven_jars import Module, fetch_jars
from directkafka.testing.servers.ports import LOOPBACK, ReservedPort
from directkafka.testing.servers.process import ServerProcess
from directkafka.testing.servers.watchdog import Watchdog

CONNECT_VERSION: Final = "4.3.0"
DEBEZIUM_VERSION: Final = "3.2.0.Final"

_JVM_OPTIONS: Final = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_MODULES: Final = (
    Module(organisation="org.apache.kafka", name="connect-runtime", revision=CONNECT_VERSION),
    Module(organisation="io.debezium", name="debezium-connector-postgres", revision=DEBEZIUM_VERSION),
    Module(organisation="org.slf4j", name="slf4j-simple", revision="1.7.36"),
)


class DebeziumWorker:
    """Copies the changes of a Postgres database to Kafka; may be killed and started again, and goes on.

    The database needs ``wal_level = logical``. The first use on a machine fetches the jars (38 MB).

    Args:
        kafka: bootstrap servers.
        dsn: of the database.
        prefix: of the topics, which are ``prefix.schema.table``.
        schemas: whether events have their schemas in front.
        settings: further ones of the connector.
    """

    def __init__(
        self, kafka: str, dsn: str, *, prefix: str, schemas: bool, settings: Mapping[str, str] | None = None
    ) -> None:
        self._resources = contextlib.ExitStack()
        self._folder = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="directkafka-connect-")))
        self._watchdog = Watchdog()
        self._resources.callback(self._watchdog.close)
        self._port = self._resources.enter_context(ReservedPort())
        self._server: ServerProcess | None = None
        address = conninfo_to_dict(dsn)
        converter = "org.apache.kafka.connect.json.JsonConverter"
        self._write(
            "worker.properties",
            {
                "bootstrap.servers": kafka,
                "listeners": f"http://{self._port.address}",
                "key.converter": converter,
                "value.converter": converter,
                "key.converter.schemas.enable": str(schemas).lower(),
                "value.converter.schemas.enable": str(schemas).lower(),
                "offset.storage.file.filename": str(self._folder / "offsets"),
                "offset.flush.interval.ms": "500",
                "plugin.discovery": "only_scan",
            },
        )
        self._write(
            "connector.properties",
            {
                "name": prefix,
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "tasks.max": "1",
                "plugin.name": "pgoutput",
                "database.hostname": str(address.get("host", LOOPBACK)),
                "database.port": str(address["port"]),
                "database.user": str(address["user"]),
                "database.password": str(address["password"]),
                "database.dbname": str(address["dbname"]),
                "topic.prefix": prefix,
                "slot.name": prefix,
                "publication.name": prefix,
                "publication.autocreate.mode": "filtered",
                # Debezium leaves TRUNCATE out unless it is told not to.
                "skipped.operations": "none",
                "poll.interval.ms": "50",
                "topic.creation.default.partitions": "1",
                "topic.creation.default.replication.factor": "1",
                **(settings or {}),
            },
        )

    def start(self) -> Self:
        """Start it; does not wait until it is at work."""
        jars = fetch_jars(
            f"debezium/{DEBEZIUM_VERSION}", _MODULES, what=f"Kafka Connect {CONNECT_VERSION} and Debezium (38 MB, once)"
        )
        command = [
            str(java_home() / "bin" / "java"),
            *_JVM_OPTIONS,
            f"-Djava.io.tmpdir={self._folder}",
            *("-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone"),
            *map(str, self.files),
        ]
        options = {"cwd": self._folder}
        self._server = ServerProcess(command, log_file=self.log_file, watchdog=self._watchdog, popen_options=options)
        return self

    @property
    def files(self) -> tuple[Path, Path]:
        """What it is started with: Kafka Connect's properties, and the connector's."""
        return self._folder / "worker.properties", self._folder / "connector.properties"

    @property
    def log_file(self) -> Path:
        """What it says."""
        return self._folder / "connect.log"

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._server is not None and self._server.is_running

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._server is not None:
            self._server.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and remove its files."""
        self.kill()
        self._resources.close()

    def _write(self, name: str, properties: Mapping[str, str]) -> None:
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self._folder / name).write_text(lines)
