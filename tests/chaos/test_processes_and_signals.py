"""Ends that are asked for, workers that die, and executors that are other processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import PARTITIONS, Job, produce_numbers, running

from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

COUNT = 400


@pytest.fixture
def job(kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path) -> Job:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    return Job(folder=tmp_path, name="numbers", kafka=kafka_broker.bootstrap_servers, dsn=database, topic=topic)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_driver_that_is_asked_to_stop_ends_with_success_between_two_batches(
    number: signal.Signals, job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(job.start()) as driver:
        driver.wait_for_batches(1)
        driver.process.send_signal(number)
        assert driver.wait() == 0, driver.messages()
    job.state().check()
    job.run_in_process(monkeypatch)
    job.state().check_complete(COUNT)


def test_a_worker_killed_after_it_staged_its_rows_costs_a_batch_and_no_record(job: Job) -> None:
    job.inline_bytes_max = 0
    with running(job.start(faults="task.staged=kill")) as driver:
        driver.wait_until_caught_up()
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0, driver.messages()
    assert list(job.folder.glob("fired-*")), "no worker was killed, so this proved nothing"
    job.state().check_complete(COUNT)


@pytest.mark.slow
def test_a_temporary_folder_with_a_long_path_is_no_obstacle(job: Job) -> None:
    """Spark's Unix sockets would not fit into it."""
    long = job.folder / ("x" * 100)
    long.mkdir()
    job.trigger = "available-now"
    with running(job.start(TMPDIR=str(long), SPARK_SUBMIT_OPTS=f"-Djava.io.tmpdir={long}")) as driver:
        assert driver.wait() == 0, driver.messages()
    job.state().check_complete(COUNT)


@pytest.mark.slow
def test_executors_in_processes_of_their_own_give_the_same_rows(job: Job) -> None:
    job.master = "local-cluster[2,1,1024]"
    with running(job.start()) as driver:
        driver.wait_until_caught_up()
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0, driver.messages()
    job.state().check_complete(COUNT)
