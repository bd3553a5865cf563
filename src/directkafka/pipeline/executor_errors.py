"""What a failed Spark job means: an error of ours, a lost process, a lost Spark, or the user's transform."""

from __future__ import annotations

from directkafka.error_notes import Notes
from directkafka.errors import DirectKafkaError, EnvironmentFaultError, TransformError, WorkerLostError
from directkafka.pipeline.spark_failure import is_gone, lost_process, told

__all__ = ["from_executor", "spark_is_gone"]


def from_executor(error: Exception) -> DirectKafkaError:
    """The error that a failed job stands for."""
    if isinstance(error, DirectKafkaError):
        return error
    if spark_is_gone(error):
        return EnvironmentFaultError(
            what="Spark was shut down while the pipeline ran; nothing of the batch in flight was committed",
            remedy="Run the pipeline again, and stop it before Spark is stopped.",
        )
    ours = Notes.of_this_process().read(str(error))
    if ours is not None:
        return ours
    lost = lost_process(error)
    if lost is not None:
        return WorkerLostError(cause=lost)
    return TransformError(source="on an executor", cause=told(error))


def spark_is_gone(error: BaseException) -> bool:
    """Whether the Spark application itself has ended, so that no task can say anything."""
    return is_gone(error)
