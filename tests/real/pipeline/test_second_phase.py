"""The job that writes a large batch, on a real Spark: how many tasks, how long, and what is left of it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.waiting import until

from directkafka.errors import EnvironmentFaultError, TransformError
from directkafka.pipeline.execution.background_job import run_within
from directkafka.pipeline.execution.two_phase import write_shares, writers_max
from directkafka.sinks.api import TARGET, SecondPhase, TaskReport

pytestmark = pytest.mark.real

SLOTS = 2


def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column(TARGET, pa.array([number % SLOTS for number in range(batch.num_rows)], pa.int32()))


def count(batches: Iterator[pa.RecordBatch]) -> TaskReport:
    return TaskReport(rows=sum(batch.num_rows for batch in batches), attempt="a", staged=True)


class Sleeper:
    """A writer, or a task of somebody else, that ends when a file is there; another one says that it has begun."""

    def __init__(self, folder: Path) -> None:
        self.begun = folder / "begun"
        self.end = folder / "end"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        report = count(batches)
        self.begun.touch()
        while not self.end.exists():
            time.sleep(0.02)
        return report

    def as_map(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self(batches)
        yield from ()


def claim_nothing(partition: int) -> None:
    raise AssertionError("a barrier stage needs no claims")


def too_slow() -> TransformError:
    return TransformError(source="the test", cause="it was too slow")


def phase(writer: object = count, *, limit_ms: int = 60_000) -> SecondPhase:
    return SecondPhase(
        router=route,
        claim_routing=claim_nothing,
        writer=writer,  # type: ignore[arg-type]
        writer_count=SLOTS,
        limit_ms=limit_ms,
        too_slow=too_slow,
    )


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 100, numPartitions=SLOTS)


@contextmanager
def busy(spark: SparkSession, sleeper: Sleeper) -> Iterator[None]:
    """Somebody else's job holds a slot."""
    frame = spark.range(0, 1, numPartitions=1).mapInArrow(sleeper.as_map, "id long")
    thread = threading.Thread(target=frame.count)
    thread.start()
    try:
        until(sleeper.begun.exists, "the other job does not begin")
        yield
    finally:
        sleeper.end.touch()
        thread.join()


def is_idle(spark: SparkSession) -> bool:
    return not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_as_many_tasks_write_as_have_a_slot_whatever_the_default_parallelism(spark: SparkSession) -> None:
    assert writers_max(spark) == SLOTS


def test_writers_that_find_no_slots_are_cancelled_in_time(rows: DataFrame, tmp_path: Path) -> None:
    """A barrier stage needs both slots at once, and Spark would wait for ever."""

    def failure(limit_ms: int) -> str:
        with pytest.raises((EnvironmentFaultError, TransformError)) as caught:
            write_shares(rows, phase(limit_ms=limit_ms))
        return str(caught.value)

    with busy(rows.sparkSession, Sleeper(tmp_path)):
        message = failure(2_000)
        if message == str(too_slow()):
            # A loaded machine has not dealt the rows by then.
            message = failure(30_000)
    assert re.search(r"by 2 tasks, and in \d+000 ms they could not begin", message), message
    until(lambda: is_idle(rows.sparkSession), "the writers' job is still there")
    assert sum(report.rows for report in write_shares(rows, phase())) == 100


@pytest.mark.parametrize("limit_ms", [0, 1])
def test_a_time_that_is_over_before_tasks_could_begin_is_no_want_of_slots(rows: DataFrame, limit_ms: int) -> None:
    """What came before has used it up, and all slots are free."""
    with pytest.raises(TransformError, match="it was too slow"):
        write_shares(rows, phase(limit_ms=limit_ms))
    until(lambda: is_idle(rows.sparkSession), "the writers' job is still there")


@pytest.mark.slow
def test_writers_that_are_too_slow_are_cancelled_in_time(rows: DataFrame, tmp_path: Path) -> None:
    sleeper = Sleeper(tmp_path)
    # A cold Spark on a loaded machine takes seconds until it begins the tasks of its first job.
    write_shares(rows, phase())
    with pytest.raises(TransformError, match="it was too slow"):
        write_shares(rows, phase(sleeper, limit_ms=10_000))
    sleeper.end.touch()
    until(lambda: is_idle(rows.sparkSession), "the writers' job is still there")


def test_a_background_job_leaves_no_mark_on_the_thread_and_raises_what_the_job_raised(spark: SparkSession) -> None:
    before = spark.sparkContext.getJobTags()

    def fail() -> None:
        raise TimeoutError("the job's own")

    with pytest.raises(TimeoutError, match="the job's own"):
        run_within(spark, fail, limit_ms=10_000)
    assert run_within(spark, lambda: 7, limit_ms=10_000) == 7
    assert spark.sparkContext.getJobTags() == before
