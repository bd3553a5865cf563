"""The second job of a large batch: each target of a sink is written by exactly one task, inside the open transaction.

The rows are those of the first job, kept by Spark. A barrier stage runs all writers at once and none twice at a time;
where dynamic allocation is on, Spark refuses barrier stages, and speculation, which would run a task twice, must be
off. A task that is run again all the same raises before it writes (:mod:`directkafka.kafka.claims`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StructField, StructType

from directkafka.error_notes import with_note
from directkafka.errors import DirectKafkaError, EnvironmentFaultError
from directkafka.pipeline.write_task import WriteTask
from directkafka.stores.base import TARGET, SecondPhase, Sink, TaskReport, TwoPhaseSink

__all__ = ["RouteTask", "can_run_barriers", "check_speculation", "write_shares"]


class RouteTask:
    """A function for ``mapInArrow``: adds to each row the number of its target.

    Args:
        phase: the sink's.
    """

    def __init__(self, phase: SecondPhase) -> None:
        self._router = phase.router

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Errors of ours keep their fields on the way to the driver."""
        try:
            yield from self._router(batches)
        except DirectKafkaError as error:
            raise with_note(error) from error.__cause__


def write_shares(output: DataFrame, phase: SecondPhase) -> tuple[TaskReport, ...]:
    """Shuffle the rows by target, and run one writer on each share.

    Raises:
        Exception: what Spark makes of a failed task.
    """
    schema = StructType([*output.schema.fields, StructField(TARGET, IntegerType())])
    routed = output.mapInArrow(RouteTask(phase), schema)
    shares = routed.repartitionById(phase.writer_count, f.col(TARGET) % phase.writer_count)
    written = shares.mapInArrow(WriteTask(phase.writer), "report binary", barrier=can_run_barriers(output.sparkSession))
    return tuple(pickle.loads(report) for report in written.toArrow().column("report").to_pylist())


def can_run_barriers(session: SparkSession) -> bool:
    """Whether the application has a fixed number of executors."""
    return not _is_on(session, "spark.dynamicAllocation.enabled")


def check_speculation(session: SparkSession, sinks: Sequence[Sink]) -> None:
    """Refuse an application that would run a writing task twice at a time.

    Raises:
        EnvironmentFaultError: dynamic allocation and speculation are both on, and a sink has a second phase.
    """
    if can_run_barriers(session) or not _is_on(session, "spark.speculation"):
        return
    for sink in sinks:
        if isinstance(sink, TwoPhaseSink):
            raise EnvironmentFaultError(
                what=f"the sink {sink.name} writes each partition from one task, and with "
                "spark.dynamicAllocation.enabled and spark.speculation Spark may run a task twice at a time",
                remedy="Set spark.speculation to false, or switch dynamic allocation off, so that writers run in a "
                "barrier stage.",
            )


def _is_on(session: SparkSession, setting: str) -> bool:
    return str(session.sparkContext.getConf().get(setting, "false")).lower() == "true"
