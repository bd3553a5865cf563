"""Ends that are asked for, workers that die, and executors that are other processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import CARRIERS, PARTITIONS, Job, executor_above, produce_numbers, wait_until_stopped_below
from tests.processes import running
from tests.waiting import until

from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

COUNT = 400

#: From a stop to the end of the process, Spark's own end among it, on a loaded machine. The commit is left within 5 s
#: (``tests/real/sinks/test_postgres_locks.py``).
STOP_S_MAX = 30.0


@pytest.fixture
def job(kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path) -> Job:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    return Job(folder=tmp_path, name="numbers", kafka=kafka_broker.bootstrap_servers, dsn=database, topic=topic)


# That SIGTERM ends a driver with 0 is in the two that follow, too.
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["direct", "structured"])
def test_a_driver_behind_a_forgotten_session_s_lock_names_it_and_can_be_stopped(
    engine: str, job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.checkpoint = job.folder / "checkpoint" if engine == "structured" else None
    with running(job.start()) as driver:
        driver.wait_for_batches(1)
        with psycopg.connect(job.dsn, application_name="forgotten psql") as other:
            other.execute("LOCK TABLE records")
            pid = other.info.backend_pid
            produce_numbers(job.kafka, job.topic, COUNT, first=COUNT)
            until(lambda: "forgotten psql" in driver.messages(), "no word of the lock")
            driver.process.send_signal(signal.SIGTERM)
            assert driver.wait(STOP_S_MAX) == 0, driver.messages()
        assert f"on records behind process {pid} (user 'postgres'" in driver.messages()
        assert "a stop was asked for while it waited for" in driver.messages()
    job.state().check()
    job.run_in_process(monkeypatch)
    job.state().check_complete(2 * COUNT)


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["spark", pytest.param("native", marks=pytest.mark.slow)])
def test_a_worker_killed_after_it_staged_its_rows_costs_a_batch_and_no_record(carrier: str, job: Job) -> None:
    job.carrier = carrier
    job.inline_bytes_max = 0
    with running(job.start(faults="task.staged=kill")) as driver:
        driver.end_caught_up()
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
@pytest.mark.parametrize("carrier", CARRIERS)
def test_executors_in_processes_of_their_own_give_the_same_rows(carrier: str, job: Job) -> None:
    job.carrier = carrier
    job.master = "local-cluster[2,1,1024]"
    with running(job.start()) as driver:
        driver.end_caught_up()
    job.state().check_complete(COUNT)


#: An executor that is silent for this long is given up.
IMPATIENT = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "6s",
    "spark.network.timeoutInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "6s",
}


@pytest.mark.slow
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "cut off"])
def test_an_executor_that_is_lost_with_rows_staged_costs_an_attempt_and_no_record(
    number: signal.Signals, carrier: str, job: Job
) -> None:
    """Its rows are staged, and its report never arrives: SPARK-39195's case.

    Stopped, it is what the driver sees of a network that is cut: it is given up while it lives, and another one does
    its tasks. It hears of that when it goes on.
    """
    job = replace(job, carrier=carrier, inline_bytes_max=0, master="local-cluster[2,1,1024]", conf=IMPATIENT)
    with running(job.start(faults="task.staged@2=stop")) as driver:
        worker = wait_until_stopped_below(driver.process.pid)
        executor = executor_above(worker)
        executor.send_signal(number)
        # Its daemon may have ended it: that goes with an executor that is killed.
        with suppress(psutil.NoSuchProcess):
            worker.resume()
        driver.wait_until_caught_up()
        with suppress(psutil.NoSuchProcess):
            executor.resume()
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0, driver.messages()
    job.state().check_complete(COUNT)
