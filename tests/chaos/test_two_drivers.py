"""Two drivers of one pipeline: the newer one owns it, the older one lands nothing and says so by exit code 3."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import CARRIERS, PARTITIONS, Job, Watcher, produce_numbers
from tests.processes import running

from directkafka.testing import KafkaBroker

#: tests/chaos/test_engine_steps.py has an engine that stands still in its commit, for every store and without Spark.
pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 400
FENCED = 3

#: The fence waits 10 s for the lock at most, then ends the session that holds it; the rest is the batches' own.
TAKE_OVER_S_MAX = 60.0


@pytest.fixture
def job(kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path) -> Job:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    return Job(folder=tmp_path, name="numbers", kafka=kafka_broker.bootstrap_servers, dsn=database, topic=topic)


#: Every step after the fence, where the second batch with rows passes it. At commit.ledger_updated it holds the ledger
#: row's lock, and the newer driver must end its session. Elsewhere it finds out when it goes on.
STOPS = [
    "fence.done@1",
    "ledger.read@1",
    "origin.planned@1",
    "origin.committed@1",
    "batch.planned@2",
    "batch.written@2",
    "commit.begun@3",
    "commit.ledger_updated@3",
    "commit.rows_moved@3",
    "commit.answered@3",
    "batch.reported@2",
]


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("point", STOPS)
def test_a_driver_that_stood_still_lands_nothing_after_a_newer_one_took_over(
    point: str, carrier: str, job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.carrier = carrier
    with Watcher(job) as watcher, running(job.start(faults=f"{point}=stop")) as older:
        older.wait_until_stopped()
        began = time.monotonic()
        job.run_in_process(monkeypatch)
        took_s = time.monotonic() - began
        done = job.state()
        done.check_complete(COUNT)
        assert took_s < TAKE_OVER_S_MAX
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
        assert job.state() == done
    assert watcher.problem == ""


@pytest.mark.parametrize("carrier", CARRIERS)
def test_of_two_drivers_that_run_at_once_the_older_stops(
    carrier: str, job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.carrier = carrier
    with running(job.start()) as older:
        older.wait_for_batches(1)
        job.run_in_process(monkeypatch)
        # Whatever the older one got done before the fence counts; it notices with its next batch.
        produce_numbers(job.kafka, job.topic, 30, first=COUNT)
        assert older.wait() == FENCED, older.messages()
        job.run_in_process(monkeypatch)
        job.state().check_complete(COUNT + 30)
