"""The structured engine's driver killed with SIGKILL at every numbered step, and what a restart makes of it.

As for the direct engine, and with one more hole to fall into: between the store's commit and Spark's own note of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import NUMBERS, PARTITIONS, Job, PipelineProcess, produce_numbers
from tests.chaos.test_several_stores import FILE, batch_id, rows
from tests.processes import running

from directkafka import Pipeline
from directkafka.fault_points import FAULT_POINTS
from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = pytest.mark.real

COUNT = 400
FENCED = 3

#: Passed once in a run; the others once for each batch.
ONCE = {"fence.before", "fence.done", "ledger.read"}
#: Where Spark hands over what is committed already.
IN_THE_HOLE = {"commit.answered", "batch.reported"}
#: The direct engine's alone: here batch 0 is a batch like the others. And the one of tasks, which has its own test.
ELSEWHERE = {"origin.planned", "origin.committed", "task.staged"}
OF_OTHERS = ("task.", "log.", "replay.", "reset.", "isolation.")

POINTS = [
    point
    for point, text in FAULT_POINTS.items()
    # Points of Kafka's and of the files' stores, of replays, of resets and of isolation, are passed in the tests of
    # these. Here nothing is isolated: Spark plans the batches.
    if not (point in ELSEWHERE or point.startswith(OF_OTHERS) or "Kafka" in text)
]


@pytest.fixture
def job(kafka_broker: KafkaBroker, create_topic: Callable[..., str], database: str, tmp_path: Path) -> Job:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    return Job(
        folder=tmp_path,
        name="numbers",
        kafka=kafka_broker.bootstrap_servers,
        dsn=database,
        topic=topic,
        checkpoint=tmp_path / "checkpoint",
    )


def noted_by_spark(job: Job) -> int:
    """Number of the last batch that Spark has noted as done."""
    assert job.checkpoint is not None
    return max((int(path.name) for path in (job.checkpoint / "commits").glob("[0-9]*")), default=-1)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_query_killed_at_a_step_loses_and_doubles_nothing(
    point: str, job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # The third pass is that of the second batch with rows: batch 0 only says where the query starts.
    with running(job.start(faults=f"{point}=kill" if point in ONCE else f"{point}@3=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    left = job.state()
    left.check()
    assert len(left.rows) < COUNT, "the kill came after the end, so it proved nothing"
    if point in IN_THE_HOLE:
        assert left.ledger is not None
        assert left.ledger["batch_id"] == noted_by_spark(job) + 1 == 2
    elif point not in ONCE:
        assert left.ledger is not None
        assert left.ledger["batch_id"] == noted_by_spark(job) == 1
    job.run_in_process(monkeypatch)
    job.state().check_complete(COUNT)
    skipped = [record for record in caplog.records if "is committed already" in record.message]
    assert len(skipped) == (point in IN_THE_HOLE)


@pytest.mark.slow
def test_of_two_queries_of_one_pipeline_the_older_stops(
    job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both use one checkpoint, which Spark does not guard between two applications; the ledger does."""
    with running(job.start(faults="batch.written@3=stop")) as older:
        older.wait_until_stopped()
        job.run_in_process(monkeypatch)
        done = job.state()
        done.check_complete(COUNT)
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
        assert job.state() == done


@pytest.mark.slow
def test_a_query_that_is_asked_to_stop_ends_after_the_batch_in_flight_with_success(
    job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(replace(job, batch=20).start()) as driver:
        driver.wait_for_batches(2)
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0, driver.messages()
        assert "stopping after the batch in flight" in driver.messages()
        reported = driver.reports[-1]["batch_id"]
    left = job.state()
    left.check()
    assert left.ledger is not None
    assert left.ledger["batch_id"] == reported
    job.run_in_process(monkeypatch)
    job.state().check_complete(COUNT)


@pytest.mark.slow
def test_a_query_whose_tasks_stage_their_rows_loses_and_doubles_nothing(
    job: Job, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = replace(job, inline_bytes_max=0)
    with running(staging.start(faults="commit.rows_moved@3=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    staging.state().check()
    staging.run_in_process(monkeypatch)
    staging.state().check_complete(COUNT)


@pytest.fixture
def second_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    name = f"second_{os.urandom(4).hex()}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "killed_in"), [("commit.answered@1", 0), ("commit.answered@5", 2)])
def test_a_query_killed_between_two_stores_writes_to_the_second_alone(
    point: str,
    killed_in: int,
    job: Job,
    second_database: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each batch passes the point twice, once for each database; batch 0 has no rows."""
    world = {"KAFKA": job.kafka, "FIRST": job.dsn, "SECOND": second_database}
    values = {"name": "numbers", "master": "local[2]", "folder": job.folder, "topic": job.topic, "batch": 60}
    values["transform"] = NUMBERS["spark"]
    file = job.folder / "two.toml"

    def write(trigger: str) -> None:
        engine = f'engine = "structured"\ncheckpoint = "{job.checkpoint}"\n\n[spark]'
        file.write_text(FILE.format(trigger=trigger, **values).replace("[spark]", engine, 1))

    write("100ms")
    with running(
        PipelineProcess(file, {**os.environ, **world, "DIRECTKAFKA_FAULTS": f"{point}=kill"}, job.folder)
    ) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    assert (batch_id(job.dsn), batch_id(second_database)) == (killed_in, killed_in - 1)

    for name, value in world.items():
        monkeypatch.setenv(name, value)
    write("available-now")
    Pipeline.from_toml(file).run()
    assert sorted(row[3] for row in rows(job.dsn)) == list(range(COUNT))
    assert rows(second_database) == rows(job.dsn)
    assert batch_id(second_database) == batch_id(job.dsn)
