"""A pipeline under a registry, killed between the commits of two databases, while the newest schema becomes another.

Each record has a page. The first schema of the columns has none, so a row tells by which of the two it was read: the
batch that one database has already is read for the other one as at first, and the next batch by the newest schema.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.avro_records import written
from tests.chaos.pipelines import CARRIERS, HEAD, PipelineProcess
from tests.processes import running
from tests.registry_server import RegistryServer
from tests.registry_server import running as registry_running

from directkafka import Pipeline
from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT, BATCH = 30, 10
ID = {"name": "id", "type": "long"}
OLD = {"type": "record", "name": "Click", "fields": [ID]}
NEW = {**OLD, "fields": [ID, {"name": "page", "type": "string"}]}

FILE = (
    HEAD
    + """
"value.format" = "avro"
"value.registry.url" = "{registry}"

[transform]
{transform}

[[sink]]
type = "postgres"
dsn = "${{FIRST}}"
table = "clicks"
schema_policy = "add-columns"

[[sink]]
type = "postgres"
dsn = "${{SECOND}}"
table = "clicks"
schema_policy = "add-columns"
"""
)
TRANSFORMS = {"spark": "sql = 'SELECT offset, value.* FROM source'", "native": 'arrow = "clicks_job:clicks"'}
JOB = """
import pyarrow as pa


def clicks(batch):
    value = batch.column("value")
    names = [field.name for field in value.type]
    return pa.RecordBatch.from_arrays([batch.column("offset"), *value.flatten()], ["offset", *names])
"""


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_running() as server:
        server.add(1, OLD)
        server.add(2, NEW)
        yield server


@pytest.fixture
def second_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    name = f"second_{os.urandom(4).hex()}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


def selected(dsn: str, query: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_batch_that_one_store_has_is_read_for_the_other_one_with_the_same_schema(
    carrier: str,
    registry: RegistryServer,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    second_database: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, stores = create_topic(), (database, second_database)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for record in written(NEW, [{"id": number, "page": f"/{number}"} for number in range(COUNT)]):
        producer.produce(topic, b"\0\0\0\0\2" + record)
    assert producer.flush(30) == 0
    registry.add_version(f"{topic}-value", "latest", 1, OLD)
    world = {"KAFKA": kafka_broker.bootstrap_servers, "FIRST": database, "SECOND": second_database}
    (tmp_path / "clicks_job.py").write_text(JOB)
    values = {"name": "clicks", "master": "local[2]", "folder": tmp_path, "topic": topic, "batch": BATCH}
    values |= {"registry": registry.url, "transform": TRANSFORMS[carrier], "trigger": "available-now"}
    file = tmp_path / "clicks.toml"
    file.write_text(FILE.format(**values))
    # Each batch passes twice, once for each database; batch 0 as well.
    faults = {"DIRECTKAFKA_FAULTS": "commit.answered@5=kill", "DIRECTKAFKA_FAULTS_ONCE": str(tmp_path / "fired")}
    with running(PipelineProcess(file, {**os.environ, **world, **faults}, tmp_path)) as killed:
        assert killed.wait() == -signal.SIGKILL, killed.messages()
    registry.add_version(f"{topic}-value", "latest", 2, NEW)

    for name, value in world.items():
        monkeypatch.setenv(name, value)
    Pipeline.from_toml(file).run()

    pages = [(number, number, f"/{number}" if number >= 2 * BATCH else None) for number in range(COUNT)]
    for dsn in stores:
        assert selected(dsn, 'SELECT "offset", id, page FROM clicks ORDER BY 1') == pages
        counts = "SELECT row_counts, total_rows FROM directkafka_ledger WHERE batch_id >= 0"
        assert selected(dsn, counts) == [
            ({"clicks": BATCH, "(schema id of value)": 2}, {"clicks": COUNT}),
        ]
