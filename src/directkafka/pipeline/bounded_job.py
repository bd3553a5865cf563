"""A Spark job that may take so long, and no longer."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from pyspark import InheritableThread, SparkContext, SparkJobInfo
from pyspark.sql import SparkSession

__all__ = ["JobOverdue", "run_within"]

T = TypeVar("T")

#: How long a cancelled job is waited for, in seconds. One that Spark does not submit at all, since it counts fewer
#: slots than a barrier stage has tasks, is left to Spark: nothing is left then that it could write into.
_CANCEL_S: Final = 10.0
_CANCEL_AGAIN_S: Final = 0.2
_LOOK_S: Final = 0.02


class JobOverdue(Exception):  # noqa: N818 - whether it is an error, and which one, the caller knows
    """A job did not end in time, and was cancelled.

    Attributes:
        has_begun: whether its newest stage had a task that ran; false when all of them waited for slots.
    """

    def __init__(self, *, has_begun: bool) -> None:
        super().__init__("its tasks were slow" if has_begun else "its tasks found no slots")
        self.has_begun = has_begun


def run_within(session: SparkSession, job: Callable[[], T], *, limit_ms: int) -> T:
    """Run a job, and cancel it when it takes too long, or when this thread is interrupted.

    The job runs in a thread of its own: a call into the JVM cannot be left, and Spark knows a job by the thread that
    began it. What the calling thread has set for its jobs (a pool, a group) counts for this one as well.

    Args:
        session: whose job it is.
        job: runs it.
        limit_ms: how long it may take, in milliseconds.

    Raises:
        JobOverdue: it did not end in time.
        Exception: what the job raised.
    """
    context, tag = session.sparkContext, f"directkafka-{uuid.uuid4().hex}"
    outcome: Future[T] = Future()

    def run() -> None:
        context.addJobTag(tag)
        try:
            outcome.set_result(job())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller raises it
            outcome.set_exception(error)

    thread = InheritableThread(target=run, name=tag, daemon=True)
    thread.start()
    try:
        return outcome.result(limit_ms / 1000)
    except TimeoutError:
        if outcome.done():  # the job's own
            raise
    finally:
        if not outcome.done():
            _cancel(context, tag, thread)
    raise JobOverdue(has_begun=_has_begun(context, tag))


def _cancel(context: SparkContext, tag: str, thread: threading.Thread) -> None:
    """Cancel until it is over: Spark cancels the jobs it knows, and this one may be submitted a moment later."""
    deadline = time.monotonic() + _CANCEL_S
    while thread.is_alive() and time.monotonic() < deadline:
        context.cancelJobsWithTag(tag)
        thread.join(_CANCEL_AGAIN_S)


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
