"""A Spark job that may take so long, and no longer."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

__all__ = ["JobOverdue", "Stages", "run_within"]

T = TypeVar("T")

#: How long a cancelled job is waited for, in seconds. A barrier stage that Spark has not submitted yet, since it does
#: not find enough slots, cannot be cancelled; when it is submitted, there is nothing left that it could write into.
_CANCEL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """How far a job is.

    Attributes:
        tasks: of the stage that is at work.
        begun: of these, how many have begun.
    """

    tasks: int
    begun: int


class JobOverdue(Exception):  # noqa: N818 - whether it is an error, and which one, the caller knows
    """A job did not end in time, and was cancelled.

    Attributes:
        stages: how far it was.
    """

    def __init__(self, stages: Stages) -> None:
        super().__init__(f"{stages.begun} of {stages.tasks} tasks had begun")
        self.stages = stages


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
        raise JobOverdue(_stages(session, tag)) from None
    finally:
        if not outcome.done():
            context.cancelJobsWithTag(tag)
            thread.join(_CANCEL_S)


def _stages(session: SparkSession, tag: str) -> Stages:
    """How far the newest stage of the tagged jobs is; nothing has begun where there is none yet."""
    tracker = session.sparkContext.statusTracker()
    # Python's tracker has no tags.
    jvm_context: Any = session.sparkContext._jsc.sc()
    jobs = [tracker.getJobInfo(number) for number in jvm_context.statusTracker().getJobIdsForTag(tag)]
    stages = [tracker.getStageInfo(number) for found in jobs if found is not None for number in found.stageIds]
    known = [one for one in stages if one is not None]
    if not known:
        return Stages(tasks=0, begun=0)
    newest = max(known, key=lambda one: one.stageId)
    begun = newest.numActiveTasks + newest.numCompletedTasks + newest.numFailedTasks
    return Stages(tasks=newest.numTasks, begun=begun)
