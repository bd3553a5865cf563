"""A job's bound, without Spark: what is cancelled, and how often."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import WorkerLostError
from directkafka.pipeline.execution import background_job
from directkafka.pipeline.execution.background_job import BackgroundJob, JobOverdue, run_within


class FakeContext:
    """Spark that submits a job only after it was cancelled so many times: what it does not know, it does not cancel."""

    def __init__(self, cancels_in_vain: int) -> None:
        self._in_vain = cancels_in_vain
        self.cancelled = threading.Event()
        self.tags: list[str] = []
        in_jvm = SimpleNamespace(statusTracker=lambda: SimpleNamespace(getJobIdsForTag=lambda _: []))
        self._jsc = SimpleNamespace(sc=lambda: in_jvm)

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        self.tags.append(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        assert [tag] == self.tags
        self._in_vain -= 1
        if self._in_vain < 0:
            self.cancelled.set()

    def statusTracker(self) -> Any:  # noqa: N802 - Spark's name
        return SimpleNamespace(getJobInfo=lambda _: None)

    def run(self) -> None:
        """The job."""
        assert self.cancelled.wait(20), "nobody cancels it"
        raise RuntimeError("cancelled")


@pytest.fixture(autouse=True)
def plain_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_job, "InheritableThread", threading.Thread)


def session_of(context: FakeContext) -> Any:
    return SimpleNamespace(sparkContext=context)


def test_a_thread_that_ends_before_it_reaches_spark_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's thread copies properties to the JVM before it runs anything of ours, and that may raise."""

    class Broken(threading.Thread):
        def run(self) -> None:
            """It ends."""

    monkeypatch.setattr(background_job, "InheritableThread", Broken)
    job = BackgroundJob(session_of(FakeContext(0)), lambda: 1)
    with pytest.raises(WorkerLostError, match="before it could reach Spark"):
        job.result()
    assert job.cancel()


def test_a_spark_that_is_gone_cancels_nothing_and_says_nothing() -> None:
    context, ended = FakeContext(0), threading.Event()

    def cancel(tag: str) -> None:
        ended.set()
        raise AttributeError("'NoneType' object has no attribute 'cancelJobsWithTag'")

    context.cancelJobsWithTag = cancel  # type: ignore[method-assign]
    job = BackgroundJob(session_of(context), lambda: ended.wait(20))
    assert job.cancel()
    assert job.result() is True


def test_a_job_that_is_submitted_after_it_was_cancelled_is_cancelled_again() -> None:
    context = FakeContext(cancels_in_vain=2)
    with pytest.raises(JobOverdue) as caught:
        run_within(session_of(context), context.run, limit_ms=10)
    assert context.cancelled.is_set()
    assert not caught.value.has_begun


def test_an_interrupted_wait_cancels_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    context = FakeContext(cancels_in_vain=0)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(background_job, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_within(session_of(context), context.run, limit_ms=10_000)
    assert context.cancelled.is_set()


def test_a_job_that_ends_just_at_its_limit_has_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    result, waited = BackgroundJob.result, []

    def overdue_once(job: BackgroundJob[int], timeout_s: float | None = None) -> int:
        value = result(job)
        if not waited:
            waited.append(timeout_s)
            raise TimeoutError
        return value

    monkeypatch.setattr(BackgroundJob, "result", overdue_once)
    assert run_within(session_of(FakeContext(cancels_in_vain=0)), lambda: 7, limit_ms=10) == 7


def test_a_job_in_time_is_not_cancelled_and_raises_its_own_errors() -> None:
    context = FakeContext(cancels_in_vain=0)
    assert run_within(session_of(context), lambda: 7, limit_ms=10_000) == 7

    def fail() -> None:
        raise TimeoutError("the job's own")

    with pytest.raises(TimeoutError, match="the job's own"):
        run_within(session_of(context), fail, limit_ms=10_000)
    assert not context.cancelled.is_set()
