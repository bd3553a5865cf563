"""Whole pipelines from Kafka through Spark, or past it, into MySQL, SQLite and DuckDB: killed and overtaken.

What Postgres' pipelines go through in ``test_kill_at_each_step.py``, ``test_two_drivers.py`` and
``test_processes_and_signals.py``.
"""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pymysql
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import (
    CARRIERS,
    PARTITIONS,
    Job,
    executor_above,
    produce_numbers,
    wait_until_stopped_below,
)
from tests.contract.mysql_harness import NO_SUCH_TABLE, MySQLHarness
from tests.processes import running

import directkafka as dk
from directkafka.sinks.api import LedgerEntry, Sink
from directkafka.sinks.mysql.session import is_error
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 400
FENCED = 3

STORES = ("mysql", "sqlite", "duckdb")

#: The fence of a start, what stands between two batches, and each step of a commit, in the second batch with records.
KILLS = (
    "fence.done",
    "batch.planned@2",
    "batch.written@2",
    "commit.begun@3",
    "commit.ledger_updated@3",
    "commit.rows_moved@3",
    "commit.answered@3",
)

#: Where an older driver may stand still: what it goes on with must land nowhere.
STOPS = ("batch.written@2", "commit.begun@3")


@dataclass
class StoreJob(Job):
    """A pipeline whose rows and ledger are in one of :data:`STORES`."""

    def sink(self) -> Sink:
        """The sink of the numbers, as another process has it."""
        kinds: dict[str, Any] = {"mysql": dk.MySQLSink, "sqlite": dk.SQLiteSink, "duckdb": dk.DuckDBSink}
        sink: Sink = kinds[self.store](self.dsn, "records")
        return sink

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the store answers; nothing where there is no such table yet."""
        if self.store == "mysql":
            try:
                return sorted(MySQLHarness(self.dsn).query(query))
            except pymysql.MySQLError as error:
                if not is_error(error, NO_SUCH_TABLE):
                    raise
                return []
        if not Path(self.dsn).exists():
            return []
        connect: Any = sqlite3.connect if self.store == "sqlite" else duckdb.connect
        with closing(connect(self.dsn)) as connection:
            try:
                return sorted(connection.execute(query).fetchall())
            except (sqlite3.OperationalError, duckdb.CatalogException):
                return []

    def check(self) -> int:
        """How many records there are: those that the ledger says are done, each once, and totals agree."""
        sink = self.sink()
        entry: LedgerEntry | None = sink.store.read(self.name)
        sink.store.close()
        quote = "`" if self.store == "mysql" else '"'
        rows = self.rows(f"SELECT {quote}partition{quote}, {quote}offset{quote}, number FROM records")
        progress = entry.progress if entry and entry.batch_id >= 0 else ()
        assert [row[:2] for row in rows] == sorted(
            (part.partition, offset) for part in progress for offset in range(part.origin, part.end)
        )
        totals: dict[int, tuple[int, int]] = {}
        for partition, _, number in rows:
            records, numbers = totals.get(partition, (0, 0))
            totals[partition] = (records + 1, numbers + number)
        stored = self.rows(f"SELECT {quote}partition{quote}, records, numbers FROM totals")
        assert {partition: (int(records), int(numbers)) for partition, records, numbers in stored} == totals
        assert len({number for _, _, number in rows}) == len(rows)
        return len(rows)

    def check_complete(self) -> None:
        """All of them, and nothing staged is left."""
        assert self.check() == COUNT
        if self.store == "mysql":
            assert MySQLHarness(self.dsn).leftovers() == []
        else:
            assert list(Path(self.dsn).parent.glob("*-staging")) == []


@pytest.fixture(params=STORES)
def job(
    request: pytest.FixtureRequest, kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> StoreJob:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    store = request.param
    dsn = request.getfixturevalue("mysql_database") if store == "mysql" else str(tmp_path / f"numbers.{store}")
    return StoreJob(
        folder=tmp_path, name="numbers", kafka=kafka_broker.bootstrap_servers, dsn=dsn, topic=topic, store=store
    )


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("point", KILLS)
def test_a_driver_killed_at_a_step_loses_and_doubles_nothing(
    point: str, carrier: str, job: StoreJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.carrier = carrier
    with running(job.start(faults=f"{point}=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    assert job.check() < COUNT, "the kill came after the end, so it proved nothing"
    job.run_in_process(monkeypatch)
    job.check_complete()


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("point", STOPS)
def test_a_driver_that_stood_still_lands_nothing_after_a_newer_one(
    point: str, carrier: str, job: StoreJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.carrier = carrier
    with running(job.start(faults=f"{point}=stop")) as older:
        older.wait_until_stopped()
        job.run_in_process(monkeypatch)
        job.check_complete()
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
    job.check_complete()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_worker_killed_after_it_staged_its_rows_costs_a_batch_and_no_record(carrier: str, job: StoreJob) -> None:
    job.carrier, job.inline_bytes_max = carrier, 0
    with running(job.start(faults="task.staged=kill")) as driver:
        driver.end_caught_up()
    assert list(job.folder.glob("fired-*")), "no worker was killed, so this proved nothing"
    job.check_complete()


@pytest.mark.parametrize("carrier", CARRIERS)
def test_an_executor_that_is_lost_with_rows_staged_costs_an_attempt_and_no_record(carrier: str, job: StoreJob) -> None:
    job = replace(job, carrier=carrier, inline_bytes_max=0, master="local-cluster[2,1,1024]")
    with running(job.start(faults="task.staged@2=stop")) as driver:
        worker = wait_until_stopped_below(driver.process.pid)
        executor = executor_above(worker)
        executor.kill()
        with suppress(psutil.NoSuchProcess):
            worker.kill()
        driver.end_caught_up()
    job.check_complete()
