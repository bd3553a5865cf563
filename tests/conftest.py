"""Fixtures for all tests. Nothing costly is imported or started before a test asks for it."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from directkafka.testing import EmbeddedPostgres, KafkaBroker

_ROOT = Path(__file__).parent.parent
_ADMIN_TIMEOUT_S = 30.0


@pytest.fixture
def create_topic(kafka_broker: KafkaBroker, topic: Callable[[], str]) -> Callable[..., str]:
    """``create_topic(partitions=1, config={})`` makes a topic on the session's broker and returns its name."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})

    def create(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = topic()
        made = admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])
        made[name].result(_ADMIN_TIMEOUT_S)
        return name

    return create


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One real Postgres for the whole session; tests that kill it make one of their own."""
    from directkafka.testing import EmbeddedPostgres

    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The connection string of an empty database for this test alone."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark for the whole session: two cores, UTC, and all its files in a temporary folder."""
    from directkafka.testing.java import use_java

    use_java()
    folder = tmp_path_factory.mktemp("spark")
    # Workers unpickle functions of the test modules by importing them as `tests....`.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("directkafka tests")
    for name, value in _spark_config(folder).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _spark_config(folder: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": "directkafka.sources.worker_daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
