"""What a failed Spark job means: an error of ours, a lost process, a lost Spark, or the user's transform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError

from directkafka.error_notes import Notes
from directkafka.errors import DirectKafkaError, EnvironmentFaultError, TransformError, WorkerLostError
from directkafka.pipeline import application
from directkafka.pipeline.spark_failure import faults_of, is_gone, lost_process, told

__all__ = ["from_executor", "java_end_told", "spark_is_gone"]


def from_executor(error: Exception) -> DirectKafkaError:
    """The error that a failed job stands for."""
    if isinstance(error, DirectKafkaError):
        return error
    if _java_is_gone(error):
        return EnvironmentFaultError(
            what="Spark's JVM ended while the pipeline ran; what is committed is in the ledger",
            remedy="Run the pipeline again: it goes on from there. Look why it ended: in what Spark printed, and in "
            "the kernel's log, which tells of processes that were killed for their memory.",
        )
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


@contextmanager
def java_end_told() -> Iterator[None]:
    """Tell of a JVM that ends, wherever that is noticed: any call into it may be the first one without an answer.

    Raises:
        EnvironmentFaultError: it has ended.
    """
    try:
        yield
    except DirectKafkaError:
        raise
    except Exception as error:
        if _java_is_gone(error):
            raise from_executor(error) from error
        raise


def spark_is_gone(error: BaseException) -> bool:
    """Whether the Spark application itself has ended, so that no task can say anything."""
    return _java_is_gone(error) or is_gone(error)


def _java_is_gone(error: BaseException) -> bool:
    """Whether an error is that of a call without an answer, and the JVM has ended: killed, or out of memory."""
    try:
        faults = faults_of(error)
    except (Py4JError, OSError):  # it has told that something failed, and does not tell what any more
        return True
    is_unanswered = isinstance(error, Py4JError | PySparkRuntimeError | ConnectionError | EOFError)
    return is_unanswered and not isinstance(error, Py4JJavaError) and not faults and application.is_gone()
