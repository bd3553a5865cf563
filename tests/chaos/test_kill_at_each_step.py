"""A driver killed with SIGKILL at every numbered step, and what a restart makes of it.

Each test runs a pipeline in a process of its own whose environment arms one fault point. The process dies right
there; the database is compared with the ledger as it is; then the pipeline runs again to the end, and every
record must be there exactly once. A reader looks on all the while, and never sees a part of a batch.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import CARRIERS, PARTITIONS, Job, Watcher, produce_numbers
from tests.processes import running

from directkafka.fault_points import FAULT_POINTS
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

COUNT = 400

#: Passed once in a driver's life; the others once for each batch, and are armed for the second.
ONCE = {"fence.before", "fence.done", "ledger.read", "origin.planned", "origin.committed"}

#: What the commit of batch 0 passes as well: its pass is the first, the second batch's the third.
IN_EVERY_COMMIT = {point for point in FAULT_POINTS if point.startswith("commit.")}

#: On executors; of other stores: ``test_file_stores.py``, ``test_kafka_store.py``; of replays: ``test_replay.py``; of
#: resets: ``test_reset.py``; of records that are set apart: ``test_isolation.py``.
ELSEWHERE = {
    point
    for point, text in FAULT_POINTS.items()
    if point.startswith(("task.", "log.", "replay.", "reset.", "isolation.")) or "Kafka" in text
}


POINTS = [(carrier, point) for carrier in CARRIERS for point in FAULT_POINTS if point not in ELSEWHERE]


def armed(point: str) -> str:
    if point in ONCE:
        return f"{point}=kill"
    return f"{point}@{3 if point in IN_EVERY_COMMIT else 2}=kill"


@pytest.fixture
def job(kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path) -> Job:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    return Job(folder=tmp_path, name="numbers", kafka=kafka_broker.bootstrap_servers, dsn=database, topic=topic)


@pytest.mark.slow  # the quick run has all of them without Spark, test_engine_steps.py
@pytest.mark.parametrize(("carrier", "point"), POINTS)
def test_a_driver_killed_at_a_step_loses_and_doubles_nothing(
    carrier: str, point: str, job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.carrier = carrier
    with Watcher(job) as watcher:
        with running(job.start(faults=armed(point))) as driver:
            assert driver.wait() == -signal.SIGKILL, driver.messages()
        left = job.state()
        left.check()
        assert len(left.rows) < COUNT, "the kill came after the end, so it proved nothing"
        job.run_in_process(monkeypatch)
    job.state().check_complete(COUNT)
    assert watcher.problem == ""
    assert watcher.looks > 0
