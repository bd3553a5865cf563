"""A driver that ends, or stands still, while a batch is committed and the next one is staged already.

A lock on the table holds the commit up for as long as it takes, so that both batches' rows are seen in the database.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import (
    CARRIERS,
    HEAD,
    JOB,
    NUMBERS,
    PARTITIONS,
    PipelineProcess,
    State,
    produce_numbers,
)
from tests.processes import running
from tests.waiting import until

from directkafka import Pipeline
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 400
NAME = "numbers"
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
inline_bytes_max = 0
"""
)


class World:
    """A topic of numbers, a database, and pipelines between them."""

    def __init__(self, kafka: str, dsn: str, topic: str, folder: Path, carrier: str) -> None:
        self._environment = {"KAFKA": kafka, "DSN": dsn}
        self._dsn = dsn
        self._folder = folder
        self._values = {"name": NAME, "master": "local[2]", "folder": folder, "topic": topic, "batch": 100}
        self._values["transform"] = NUMBERS[carrier]
        (folder / "numbers_job.py").write_text(JOB)

    def start(self) -> PipelineProcess:
        return PipelineProcess(self._file("100ms"), {**os.environ, **self._environment}, self._folder)

    def run_in_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable, value in self._environment.items():
            monkeypatch.setenv(variable, value)
        Pipeline.from_toml(self._file("available-now")).run()

    def _file(self, trigger: str) -> Path:
        file = self._folder / f"{trigger}.toml"
        file.write_text(FILE.format(trigger=trigger, **self._values))
        return file

    def state(self) -> State:
        return State.read(self._dsn, NAME)

    def staged_batches(self) -> set[int]:
        """Numbers of the batches that have a staging table."""
        return {int(name.split("_")[4]) for name in self.state().staging}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody writes to the table meanwhile."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute('CREATE TABLE records (topic text, partition int, "offset" bigint, number bigint)')
            with connection.transaction():
                connection.execute("LOCK TABLE records IN SHARE MODE")
                yield


@pytest.fixture(params=CARRIERS)
def world(
    request: pytest.FixtureRequest,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    tmp_path: Path,
) -> World:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    return World(kafka_broker.bootstrap_servers, database, topic, tmp_path, request.param)


def all_there(state: State) -> None:
    assert sorted(row[3] for row in state.rows) == list(range(COUNT))
    assert state.staging == []


def test_a_driver_killed_with_the_next_batch_staged_loses_and_doubles_nothing(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(world.start()) as driver, world.locked():
        until(lambda: world.staged_batches() == {1, 2}, "the batch ahead is not staged", timeout_s=90)
        os.kill(driver.process.pid, signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL
    assert world.state().rows == []
    world.run_in_process(monkeypatch)
    all_there(world.state())


def test_a_driver_that_stood_still_with_the_next_batch_staged_lands_nothing_of_either(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(world.start()) as older:
        with world.locked():
            until(lambda: world.staged_batches() == {1, 2}, "the batch ahead is not staged", timeout_s=90)
            os.kill(older.process.pid, signal.SIGSTOP)
            older.wait_until_stopped()
        world.run_in_process(monkeypatch)
        done = world.state()
        all_there(done)
        older.go_on()
        assert older.wait() == FENCED, older.messages()
    assert world.state() == done
