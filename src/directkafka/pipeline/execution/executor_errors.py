"""Meaning of a failed Spark job: an error of ours, a lost process, a lost Spark, or the user's transform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError

from directkafka.error_notes import Notes
from directkafka.errors import DirectKafkaError, EnvironmentFaultError, TransformError, WorkerLostError
from directkafka.pipeline.application import spark_application
from directkafka.pipeline.execution.spark_failure import faults_of, is_gone, lost_process, told

__all__ = ["from_executor", "java_end_told", "spark_is_gone"]

#: What Py4J and PySpark raise where a call into the JVM gets no answer.
_UNANSWERED: Final = (Py4JError, PySparkRuntimeError, ConnectionError, EOFError)


def from_executor(error: Exception) -> DirectKafkaError:
    """The error that a failed job stands for."""
    if isinstance(error, DirectKafkaError):
        return error
    if _java_is_gone(error):
        return EnvironmentFaultError(
            what="Spark's JVM ended; what is committed is in the ledger",
            remedy="Run the pipeline again: it goes on from there. To find out why the JVM ended, read what Spark "
            "printed, and the kernel's log, which names each process that was killed because memory ran out.",
        )
    if is_gone(error):
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
    """Turn the error of any call in this block into one that says so, if Spark's JVM has ended.

    Any call into a JVM that has ended may be the first one without an answer.

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
    """Whether a call into the JVM got no answer because the JVM has ended: killed, or out of memory.

    A transform may raise the same types of errors when a connection of its own breaks. So the JVM is called once more.
    """
    try:
        faults_of(error)
        is_unanswered = isinstance(error, _UNANSWERED) and not isinstance(error, Py4JJavaError)
    except (Py4JError, OSError):  # Java has reported a failure and ended, so its exception cannot be asked what it was
        is_unanswered = True
    return is_unanswered and not spark_application.java_answers()
