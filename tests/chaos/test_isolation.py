"""Pipelines that set records apart, killed between the tries of a search, before their letters are committed, after.

Whatever a driver leaves, each record that the ledger counts is in one place: a row, or a dead letter.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from tests.chaos.pipelines import CARRIERS, HEAD, NUMBERS, PARTITIONS, PipelineProcess
from tests.chaos.pipelines import JOB as NUMBERS_JOB
from tests.processes import running

from directkafka import Pipeline
from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 300
BAD = {50, 51, 120, 299}
FENCED = 3
FILE = (
    HEAD
    + """
[transform]
{transform}

[[sink]]
type = "postgres"
dsn = "${{DSN}}"
table = "records"

[dead_letters]
type = "postgres"
dsn = "${{LETTERS}}"
table = "letters"
on_error = "isolate"
"""
)


@dataclass
class World:
    """A topic of numbers and of texts that are none, and a pipeline over it.

    Attributes:
        stores: the databases of the rows and of the letters.
    """

    folder: Path
    topic: str
    kafka: str
    stores: tuple[str, str]
    file: Path = field(init=False)

    def start(self, faults: str) -> PipelineProcess:
        world = {**os.environ, **self.environment, "DIRECTKAFKA_FAULTS": faults}
        world["DIRECTKAFKA_FAULTS_ONCE"] = str(self.folder / "fired")
        return PipelineProcess(self.file, world, self.folder)

    @property
    def environment(self) -> dict[str, str]:
        return {"KAFKA": self.kafka, "DSN": self.stores[0], "LETTERS": self.stores[1]}

    def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        Pipeline.from_toml(self.file).run()

    def places(self, store: int, table: str) -> list[tuple[str, int, int]]:
        with psycopg.connect(self.stores[store]) as connection:
            if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
                return []
            query = f'SELECT topic, partition, "offset" FROM {table} ORDER BY 1, 2, 3'
            return connection.execute(query).fetchall()  # type: ignore[call-overload, no-any-return]

    def done(self, store: int) -> list[tuple[str, int, int]]:
        """The records that a store's ledger counts."""
        with psycopg.connect(self.stores[store]) as connection:
            if connection.execute("SELECT to_regclass('directkafka_ledger')").fetchone() == (None,):
                return []
            rows = connection.execute("SELECT progress FROM directkafka_ledger WHERE batch_id >= 0").fetchall()
        return sorted(
            (part["topic"], part["partition"], offset)
            for (progress,) in rows
            for part in progress
            for offset in range(part["end"])
        )

    def bad(self) -> set[tuple[str, int, int]]:
        return {(self.topic, number % PARTITIONS, number // PARTITIONS) for number in BAD}

    def check(self) -> int:
        """Each store is of one moment: what its ledger counts is there, and nothing else."""
        rows, dead = self.places(0, "records"), self.places(1, "letters")
        assert rows == [position for position in self.done(0) if position not in self.bad()]
        assert dead == [position for position in self.done(1) if position in self.bad()]
        return len(self.done(0))


@pytest.fixture(params=["one store", "two stores"])
def make_world(
    request: pytest.FixtureRequest,
    postgres: EmbeddedPostgres,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    tmp_path: Path,
    spark: SparkSession,
) -> Callable[[str], World]:
    def make(carrier: str) -> World:
        topic = create_topic(partitions=PARTITIONS)
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
        for number in range(COUNT):
            text = "none" if number in BAD else str(number)
            producer.produce(topic, text.encode(), partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        letters = database if request.param == "one store" else postgres.create_database(f"letters_{topic[-8:]}")
        world = World(tmp_path, topic, kafka_broker.bootstrap_servers, (database, letters))
        (tmp_path / "numbers_job.py").write_text(NUMBERS_JOB)
        world.file = tmp_path / "numbers.toml"
        world.file.write_text(
            FILE.format(
                name="numbers", trigger="available-now", master="local[2]", folder=tmp_path, topic=topic, batch=90,
                transform=NUMBERS[carrier],
            )
        )  # fmt: skip
        return world

    return make


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(
    "point",
    [
        "isolation.part_tried@1",
        "isolation.part_tried@6",
        "isolation.letters_written@1",
        "isolation.letters_written@2",
        "batch.written@1",
        "commit.rows_moved@3",
        "commit.answered@3",
    ],
)
def test_a_driver_killed_on_its_way_loses_and_doubles_nothing(
    point: str, carrier: str, make_world: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(carrier)
    with running(world.start(f"{point}=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    assert world.check() < COUNT, "the kill came after the end, so it proved nothing"
    world.run(monkeypatch)
    assert world.check() == COUNT
    assert len(world.places(1, "letters")) == len(BAD)


@pytest.mark.parametrize("point", ["isolation.part_tried@2", "isolation.letters_written@1"])
def test_a_driver_that_stood_still_lands_nothing_after_a_newer_one(
    point: str, make_world: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world("native")
    with running(world.start(f"{point}=stop")) as older:
        older.wait_until_stopped()
        world.run(monkeypatch)
        assert world.check() == COUNT
        older.go_on()
        assert older.wait() == FENCED, older.messages()
    assert world.check() == COUNT
