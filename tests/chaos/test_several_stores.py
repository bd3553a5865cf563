"""A pipeline into two databases, killed between their two commits: the one that is behind catches up exactly.

Three stores of different kinds, too; ``test_three_stores.py`` has more of these, without Spark.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import CARRIERS, HEAD, NUMBERS, PARTITIONS, PipelineProcess, State, produce_numbers
from tests.chaos.pipelines import JOB as NUMBERS_JOB
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.processes import running

from directkafka import Pipeline, PostgresSink
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE
from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = pytest.mark.real

COUNT = 300

FILE = (
    HEAD
    + """
[transform]
{transform}

[[sink]]
type = "postgres"
dsn = "${{FIRST}}"
table = "records"

[[sink]]
type = "postgres"
dsn = "${{SECOND}}"
table = "records"
"""
)


THREE = (
    HEAD
    + """
[transform]
{transform}

[[sink]]
type = "kafka"
"kafka.bootstrap.servers" = "${{KAFKA}}"
topic = "{target}"
from = "records"

[[sink]]
type = "postgres"
dsn = "${{FIRST}}"
table = "records"
from = "numbers"

[[sink]]
type = "duckdb"
path = "{folder}/air.duckdb"
table = "records"
from = "numbers"
"""
)

THREE_OUTPUTS = {"spark": 'python = "three_stores_job:transform"', "native": 'arrow = "three_stores_job:native"'}
JOB = """
import pyarrow as pa
import pyarrow.compute as pc


def native(batch):
    number = pc.cast(pc.cast(batch.column("value"), pa.string()), pa.int64())
    place = [batch.column(name) for name in ("topic", "partition", "offset")]
    numbers = pa.RecordBatch.from_arrays([*place, number], ["topic", "partition", "offset", "number"])
    return {"numbers": numbers, "records": batch.select(["key", "value"])}


def transform(source):
    from pyspark.sql import functions as f

    number = f.col("value").cast("string").cast("long").alias("number")
    return {
        "numbers": source.select("topic", "partition", "offset", number),
        "records": source.select("key", "value"),
    }
"""


@pytest.fixture
def second_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    name = f"second_{os.urandom(4).hex()}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


def rows(dsn: str) -> list[tuple[str, int, int, int]]:
    return State.read(dsn, "numbers").rows


def numbers_in(folder: Path, topic: str, carrier: str) -> dict[str, object]:
    """What the file of a pipeline of numbers says, and beside it the transform."""
    (folder / "numbers_job.py").write_text(NUMBERS_JOB)
    return {
        "name": "numbers", "master": "local[2]", "folder": folder, "topic": topic, "batch": 60,
        "transform": NUMBERS[carrier],
    }  # fmt: skip


def killed_driver(file: Path, world: Mapping[str, str], point: str, folder: Path) -> None:
    """Run the file as a program that is killed at a fault point."""
    environment = {**os.environ, **world, "DIRECTKAFKA_FAULTS": f"{point}=kill"}
    with running(PipelineProcess(file, environment, folder)) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()


def batch_id(dsn: str) -> int:
    ledger = State.read(dsn, "numbers").ledger
    return int(ledger["batch_id"]) if ledger else -1


@pytest.mark.parametrize(
    ("point", "first_ahead"),
    [
        # Each batch passes twice, once for each database; batch 0 as well.
        pytest.param("commit.answered@1", 1, marks=pytest.mark.slow),
        pytest.param("commit.answered@5", 1, marks=pytest.mark.slow),
        pytest.param("commit.rows_moved@6", 1, marks=pytest.mark.slow),
        pytest.param("commit.answered@6", 0, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_driver_killed_between_two_commits_leaves_two_equal_databases(
    carrier: str,
    point: str,
    first_ahead: int,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    second_database: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    world = {"KAFKA": kafka_broker.bootstrap_servers, "FIRST": database, "SECOND": second_database}
    file = tmp_path / "two.toml"
    values = numbers_in(tmp_path, topic, carrier)
    file.write_text(FILE.format(trigger="100ms", **values))
    killed_driver(file, world, point, tmp_path)
    assert batch_id(database) - batch_id(second_database) == first_ahead
    assert len(rows(database)) < COUNT

    for name, value in world.items():
        monkeypatch.setenv(name, value)
    file.write_text(FILE.format(trigger="available-now", **values))
    Pipeline.from_toml(file).run()
    assert sorted(row[3] for row in rows(database)) == list(range(COUNT))
    assert rows(second_database) == rows(database)
    assert batch_id(second_database) == batch_id(database)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["commit.rows_moved@1", "commit.answered@1", "commit.answered@2", "commit.answered@3"]
)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_pipeline_killed_while_it_leaves_its_checkpoint_goes_on_in_two_equal_databases(
    carrier: str,
    point: str,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    second_database: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its ledgers wait for a new checkpoint, and the direct engine comes: first it commits a batch 0 to both."""
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT // 2)
    world = {"KAFKA": kafka_broker.bootstrap_servers, "FIRST": database, "SECOND": second_database}
    file = tmp_path / "two.toml"
    values = numbers_in(tmp_path, topic, carrier)
    for name, value in world.items():
        monkeypatch.setenv(name, value)
    file.write_text(FILE.format(trigger="available-now", **values))
    Pipeline.from_toml(file).run()
    for dsn in (database, second_database):
        wait_for_checkpoint(dsn)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT - COUNT // 2, first=COUNT // 2)
    killed_driver(file, world, point, tmp_path)
    Pipeline.from_toml(file).run()
    assert sorted(row[3] for row in rows(database)) == list(range(COUNT))
    assert rows(second_database) == rows(database)
    first, second = (State.read(dsn, "numbers").ledger for dsn in (database, second_database))
    assert first is not None
    assert second is not None
    assert first["lineage"] == second["lineage"] != OPEN_LINEAGE
    assert first["batch_id"] == second["batch_id"]


def wait_for_checkpoint(dsn: str) -> None:
    """What ``directkafka restart --from ledger`` leaves in a store."""
    with closing(PostgresSink(dsn, "records").store) as store:
        generation, entry = store.fence("numbers"), store.read("numbers")
        assert entry is not None
        waiting = replace(entry, generation=generation, lineage=OPEN_LINEAGE, batch_id=0, row_counts={}, total_rows={})
        store.commit(waiting, previous=entry)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["commit.answered@4", "commit.answered@8", "commit.rows_moved@9"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_driver_with_spark_killed_between_two_of_three_commits_leaves_equal_stores(
    carrier: str,
    point: str,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, target = create_topic(partitions=PARTITIONS), create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    world = {"KAFKA": kafka_broker.bootstrap_servers, "FIRST": database}
    (tmp_path / "three_stores_job.py").write_text(JOB)
    # The name is also that of a topic, on a broker that other tests use too.
    name = f"numbers-{target[-8:]}"
    values = {"name": name, "master": "local[2]", "folder": tmp_path, "topic": topic, "batch": 60, "target": target}
    values["transform"] = THREE_OUTPUTS[carrier]
    file = tmp_path / "three.toml"
    file.write_text(THREE.format(trigger="100ms", **values))
    killed_driver(file, world, point, tmp_path)

    for variable, value in world.items():
        monkeypatch.setenv(variable, value)
    file.write_text(THREE.format(trigger="available-now", **values))
    Pipeline.from_toml(file).run()
    wait_until_stable(kafka_broker.bootstrap_servers, target)
    written = read_committed(kafka_broker.bootstrap_servers, target)
    assert sorted(int(record.value) for record in written) == list(range(COUNT))
    in_postgres = State.read(database, name).rows
    assert sorted(row[3] for row in in_postgres) == list(range(COUNT))
    with duckdb.connect(str(tmp_path / "air.duckdb")) as connection:
        assert sorted(connection.execute("SELECT * FROM records").fetchall()) == in_postgres
