"""Spark jobs in threads of their own: one that may take so long and no longer, one that may be given up."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from pyspark import InheritableThread, SparkContext, SparkJobInfo
from pyspark.sql import SparkSession

from directkafka.errors import WorkerLostError

T = TypeVar("T")

#: How long a cancelled job is waited for, in seconds. One that Spark does not submit at all, since it counts fewer
#: slots than a barrier stage has tasks, is left to Spark: nothing is left then that it could write into.
_CANCEL_S: Final = 10.0
_CANCEL_AGAIN_S: Final = 0.2
_LOOK_S: Final = 0.02
#: How often a thread that is waited for is seen to be alive.
_ALIVE_S: Final = 1.0


class JobOverdue(Exception):  # noqa: N818 - whether it is an error, and which one, the caller knows
    """A job did not end in time, and was cancelled.

    Attributes:
        has_begun: whether its newest stage had a task that ran; false when all of them waited for slots.
    """

    def __init__(self, *, has_begun: bool) -> None:
        super().__init__("its tasks were slow" if has_begun else "its tasks found no slots")
        self.has_begun = has_begun


class BackgroundJob(Generic[T]):
    """A job that runs from now on, in a thread of its own.

    A call into the JVM cannot be left, and Spark knows a job by the thread that began it. What the calling thread has
    set for its jobs (a pool, a group) counts for this one as well.

    Args:
        session: whose job it is.
        job: runs it.
    """

    def __init__(self, session: SparkSession, job: Callable[[], T]) -> None:
        self._context = session.sparkContext
        self._tag = f"directkafka-{uuid.uuid4().hex}"
        self._outcome: Future[T] = Future()
        self._thread = InheritableThread(target=self._run, args=(job,), name=self._tag, daemon=True)
        self._thread.start()

    def _run(self, job: Callable[[], T]) -> None:
        try:
            self._context.addJobTag(self._tag)
            self._outcome.set_result(job())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller raises it
            self._outcome.set_exception(error)

    @property
    def is_over(self) -> bool:
        """Whether there is a result, or an error."""
        return self._outcome.done()

    def result(self, limit_s: float | None = None) -> T:
        """Wait for what the job returns.

        Raises:
            TimeoutError: it is not over after so many seconds.
            WorkerLostError: it could not begin.
            Exception: what the job raised.
        """
        deadline = math.inf if limit_s is None else time.monotonic() + limit_s
        while not self._outcome.done():
            if (left_s := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            if not self._thread.is_alive() and not self._outcome.done():
                raise WorkerLostError(cause="the thread of a job ended before it could reach Spark")
            wait([self._outcome], min(left_s, _ALIVE_S))
        return self._outcome.result()

    def cancel(self) -> bool:
        """Cancel until it is over: Spark cancels the jobs it knows, and this one may be submitted a moment later.

        Returns:
            Whether it is over; a job is waited for ten seconds.
        """
        deadline = time.monotonic() + _CANCEL_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            # A Spark that is gone runs nothing, and PySpark says so in many ways.
            with suppress(Exception):
                self._context.cancelJobsWithTag(self._tag)
            self._thread.join(_CANCEL_AGAIN_S)
        return not self._thread.is_alive()

    def has_begun(self) -> bool:
        """Whether the newest stage of the job, which was cancelled, had a task that ran."""
        return _has_begun(self._context, self._tag)


def run_within(session: SparkSession, job: Callable[[], T], *, limit_ms: int) -> T:
    """Run a job, and cancel it when it takes too long, or when this thread is interrupted.

    Args:
        session: whose job it is.
        job: runs it.
        limit_ms: how long it may take, in milliseconds.

    Raises:
        JobOverdue: it did not end in time.
        Exception: what the job raised.
    """
    running = BackgroundJob(session, job)
    try:
        return running.result(limit_ms / 1000)
    except TimeoutError:
        if running.is_over:  # it ended just now, or the error is the job's own
            return running.result()
    finally:
        if not running.is_over:
            running.cancel()
    raise JobOverdue(has_begun=running.has_begun())


def _has_begun(context: SparkContext, tag: str) -> bool:
    """Whether the newest stage of the tagged jobs, which are cancelled, had a task that ran.

    What Spark tells of a stage at work may be seconds old, and says "no task" of one whose tasks all began at once; it
    is brought up to date when the stage ends, and that is told before the job's end.
    """
    # Python's tracker knows no tags, and no launch times.
    jvm_context: Any = context._jsc.sc()
    numbers = list(jvm_context.statusTracker().getJobIdsForTag(tag))
    deadline = time.monotonic() + _CANCEL_S
    jobs = _jobs(context, numbers)
    while any(job.status == "RUNNING" for job in jobs) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        jobs = _jobs(context, numbers)
    stages = [number for job in jobs for number in job.stageIds]
    # None: Spark has not submitted the job, for it counts too few slots.
    return bool(stages) and bool(
        jvm_context.statusStore().lastStageAttempt(max(stages)).firstTaskLaunchedTime().isDefined()
    )


def _jobs(context: SparkContext, numbers: Sequence[int]) -> list[SparkJobInfo]:
    tracker = context.statusTracker()
    return [job for number in numbers if (job := tracker.getJobInfo(number)) is not None]
