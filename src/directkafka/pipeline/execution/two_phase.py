"""The second job of a large batch: each target of a sink is written by exactly one task, inside the open transaction.

The rows are those of the first job, kept by Spark; between the tasks that find their targets and those that write them
they travel in chunks (:mod:`directkafka.row_chunks`), not as rows of the JVM's.

A barrier stage runs all writers at once, and none twice at a time. With dynamic allocation Spark refuses barrier
stages; an ordinary stage is used then, and speculation, which would run a task twice, must be off. A task that is run
again all the same raises before it writes (:mod:`directkafka.kafka.transactions.attempt_fencing`).

A barrier stage begins when there is a free slot for each of its tasks, and Spark waits for the slots without a limit.
So the stage has no more tasks than the executors have slots *now*, and the job is cancelled when the transaction's time
is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from directkafka.errors import DirectKafkaError, EnvironmentFaultError, WorkerLostError
from directkafka.pipeline.execution.background_job import JobOverdue, run_within
from directkafka.pipeline.execution.session import application_setting
from directkafka.pipeline.execution.share_tasks import SHARE, ChunkWriter, RouteTask
from directkafka.pipeline.execution.write_task import WriteTask, reports_of
from directkafka.row_chunks import CHUNK
from directkafka.sinks.api import SecondPhase, Sink, TaskReport
from directkafka.spark.dataframe import map_in_arrow

#: If a job has less time than this, in milliseconds, it may be cancelled before Spark begins its tasks, even with free
#: slots: then the time was too short.
_BEGIN_MS_MIN: Final = 1_000


def write_shares(output: DataFrame, phase: SecondPhase, *, is_of_chunks: bool = False) -> tuple[TaskReport, ...]:
    """Shuffle the rows by target, in chunks, and run one writer on each share.

    Args:
        output: the rows.
        phase: the sink's second phase.
        is_of_chunks: whether the frame has the rows as chunks.

    Raises:
        EnvironmentFaultError: the writers did not get slots to run in.
        DirectKafkaError: the phase takes too long; the sink makes this error.
        Exception: what Spark makes of a failed task.
    """
    if phase.limit_ms <= 0:
        raise phase.too_slow()
    session = output.sparkSession
    is_barrier = can_run_barriers(session)
    # A barrier stage is run again as a whole, so all its writers see the same routing.
    route = RouteTask(phase, is_claimed=not is_barrier, is_of_chunks=is_of_chunks)
    routed = map_in_arrow(output, route, f"{SHARE} int, {CHUNK} binary")
    shares = routed.repartitionById(phase.writer_count, f.col(SHARE))
    written = map_in_arrow(shares, WriteTask(ChunkWriter(phase.writer)), "report binary", barrier=is_barrier)
    try:
        reports = run_within(session, written.toArrow, limit_ms=phase.limit_ms)
    except JobOverdue as overdue:
        raise _error_of(overdue, phase) from None
    return reports_of(reports)


def writers_max(session: SparkSession) -> int:
    """The most writing tasks that a job may have.

    For a barrier stage: the slots of the executors that are there now, which Spark compares with when the stage is
    submitted (``maxNumConcurrentTasks``). ``spark.default.parallelism`` may be any number; it counts only for other
    stages: they can run tasks one after the other, and dynamic allocation adds executors for tasks that wait.

    Raises:
        WorkerLostError: a barrier stage is needed, and there is no executor now.
    """
    context = session.sparkContext
    if not can_run_barriers(session):
        return max(1, context.defaultParallelism)
    jvm_context: Any = context._jsc.sc()
    slots = int(jvm_context.maxNumConcurrentTasks(jvm_context.resourceProfileManager().defaultResourceProfile()))
    if slots < 1:
        raise WorkerLostError(cause="Spark has no executor now that could run the tasks that write")
    return slots


def can_run_barriers(session: SparkSession) -> bool:
    """Whether Spark runs barrier stages: only without dynamic allocation."""
    return not _is_on(session, "spark.dynamicAllocation.enabled")


def check_speculation(session: SparkSession, sinks: Sequence[Sink]) -> None:
    """Refuse an application that would run a writing task twice at a time.

    Raises:
        EnvironmentFaultError: dynamic allocation and speculation are both on, and a sink has a second phase.
    """
    if can_run_barriers(session) or not _is_on(session, "spark.speculation"):
        return
    for sink in sinks:
        if sink.capabilities.has_second_phase:
            raise EnvironmentFaultError(
                what=f"the sink {sink.name} writes each partition from one task, and with "
                "spark.dynamicAllocation.enabled and spark.speculation Spark may run a task twice at a time",
                remedy="Set spark.speculation to false, or switch dynamic allocation off, so that writers run in a "
                "barrier stage.",
            )


def _error_of(overdue: JobOverdue, phase: SecondPhase) -> DirectKafkaError:
    """Tasks that were slow, or that never began."""
    if overdue.has_begun or phase.limit_ms < _BEGIN_MS_MIN:
        return phase.too_slow()
    return EnvironmentFaultError(
        what=f"a large batch is written by {phase.writer_count} tasks, and in {phase.limit_ms} ms they could not "
        "begin, since other jobs of the application hold the executors' cores, or executors were lost. Nothing of the "
        "batch was committed",
        remedy="Run the pipeline in an application of its own, give this one more cores, or lower the sink's "
        "tasks_max.",
    )


def _is_on(session: SparkSession, setting: str) -> bool:
    return (application_setting(session, setting) or "false").lower() == "true"
