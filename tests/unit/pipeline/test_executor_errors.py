"""What a failed Spark job is taken for."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from directkafka.error_notes import with_note
from directkafka.errors import (
    DataLossError,
    EnvironmentFaultError,
    FencedError,
    StoreUnavailableError,
    TransformError,
    WorkerLostError,
)
from directkafka.pipeline.executor_errors import from_executor, spark_is_gone
from directkafka.pipeline.retry import may_pass

LOSS = DataLossError(
    condition="COULD_NOT_READ_OFFSET_RANGE", topic="t", partition=3, lost_from=5, lost_until=9, detail="aged out"
)


def job_failed(*lines: str, jvm: str = "java.lang.Thread.run") -> Exception:
    """As PySpark tells it."""
    return Exception("Job aborted due to stage failure:\n" + "\n".join(lines) + f"\n\nJVM stacktrace:\n{jvm}")


def test_an_error_of_ours_comes_back_with_its_fields() -> None:
    note = with_note(LOSS).__notes__[-1]
    found = from_executor(job_failed("Traceback (most recent call last):", "DataLossError: ...", note))
    assert isinstance(found, DataLossError)
    assert (found.partition, found.lost_from, found.lost_until) == (3, 5, 9)
    assert not may_pass(found)


def test_a_store_that_a_task_could_not_reach_may_pass() -> None:
    note = with_note(StoreUnavailableError(store="db", cause="too many connections")).__notes__[-1]
    assert may_pass(from_executor(job_failed(note)))


def test_a_note_counts_before_the_signs_of_a_lost_worker() -> None:
    fenced = with_note(FencedError(store="db", pipeline="p", held=1, found=2)).__notes__[-1]
    assert isinstance(from_executor(job_failed("ExecutorLostFailure (executor 1)", fenced)), FencedError)


@pytest.mark.parametrize(
    "sign",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
        "FetchFailed(BlockManagerId(1, h, 7337), shuffleId=0)",
    ],
)
def test_a_lost_process_is_worth_another_try(sign: str) -> None:
    found = from_executor(job_failed("Task 0 in stage 1.0 failed 1 times", sign))
    assert isinstance(found, WorkerLostError)
    assert found.cause == sign
    assert may_pass(found)


def test_a_sign_in_the_jvms_stack_counts_as_well() -> None:
    assert isinstance(
        from_executor(job_failed("x", jvm="Caused by: Python worker exited unexpectedly")), WorkerLostError
    )


def test_the_users_own_exception_is_the_transforms_failure_in_its_last_words() -> None:
    found = from_executor(job_failed("Traceback (most recent call last):", '  File "job.py"', "ValueError: bad row"))
    assert isinstance(found, TransformError)
    assert found.cause == "ValueError: bad row"
    assert not may_pass(found)


def test_an_error_without_words_is_told_by_its_type() -> None:
    assert from_executor(MemoryError()).cause == "MemoryError"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("An error occurred while trying to connect to the Java server"),
        Exception("Job 4 cancelled because SparkContext was shut down"),
        Exception("IllegalStateException: Cannot call methods on a stopped SparkContext."),
    ],
)
def test_a_spark_that_is_gone_is_no_fault_of_the_transform_and_does_not_come_back(error: Exception) -> None:
    assert spark_is_gone(error)
    found = from_executor(error)
    assert isinstance(found, EnvironmentFaultError)
    assert not may_pass(found)


def test_an_error_of_ours_that_never_left_the_driver_stays_itself() -> None:
    assert from_executor(LOSS) is LOSS
