"""What a failed Spark job means: an error of ours, a lost process, a lost Spark, or the user's transform."""

from __future__ import annotations

from py4j.protocol import Py4JNetworkError

from directkafka.error_notes import from_note
from directkafka.errors import DirectKafkaError, EnvironmentFaultError, TransformError, WorkerLostError

__all__ = ["from_executor", "spark_is_gone"]

#: What Spark says when a task did not fail but lost the process that ran it.
_LOST_SIGNS = ("Python worker exited unexpectedly", "ExecutorLostFailure", "worker was lost", "FetchFailed")

#: What it says when it has been shut down, or is about to be; the last one is PySpark's own stumbling.
_GONE_SIGNS = (
    "SparkContext was shut down",
    "stopped SparkContext",
    "SparkContext or SparkSession should be created",
    "'NoneType' object has no attribute 'sc'",
)


def from_executor(error: Exception) -> DirectKafkaError:
    """The error that a failed job stands for."""
    if isinstance(error, DirectKafkaError):
        return error
    if spark_is_gone(error):
        return EnvironmentFaultError(
            what="Spark was shut down while the pipeline ran; nothing of the batch in flight was committed",
            remedy="Run the pipeline again, and stop it before Spark is stopped.",
        )
    text = str(error)
    ours = from_note(text)
    if ours is not None:
        return ours
    lost = next((line for line in text.splitlines() for sign in _LOST_SIGNS if sign in line), None)
    if lost is not None:
        return WorkerLostError(cause=lost.strip())
    lines = [line.strip() for line in text.partition("\n\nJVM stacktrace")[0].splitlines() if line.strip()]
    return TransformError(source="on an executor", cause=lines[-1] if lines else type(error).__name__)


def spark_is_gone(error: BaseException) -> bool:
    """Whether the Spark application itself has ended, so that no task can say anything."""
    return isinstance(error, Py4JNetworkError) or any(sign in str(error) for sign in _GONE_SIGNS)
