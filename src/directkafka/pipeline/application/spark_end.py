"""Errors of a run whose Spark has ended: whether they come from that end, or are the run's own."""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from directkafka.errors import EnvironmentFaultError, TransformError, WorkerLostError
from directkafka.pipeline.application.spark_application import is_gone
from directkafka.pipeline.execution.executor_errors import UNANSWERED, spark_is_gone
from directkafka.pipeline.retry import may_pass


def words_of(error: Exception) -> str:
    """An error's text; Py4J asks the JVM for that of its own, and the JVM may be gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever Py4J makes of a JVM that does not answer
        return "Java cannot be asked for its words any more"


def is_of_the_end(error: Exception, *, is_starting: bool) -> bool:
    """Whether an error comes from the end of Spark, which broke its own start or the batch in flight.

    A JVM that ends while it starts has many words for it. After the start these come from that end: a lost process, a
    fault of the environment, a call without an answer, and what may pass at another try, if Spark is gone. All else is
    the pipeline's own failure, also if Spark has ended meanwhile: a commit whose outcome is unknown, records that are
    lost, a row that is refused, a bug.
    """
    if isinstance(error, EnvironmentFaultError | WorkerLostError):
        return True
    try:
        if spark_is_gone(error):
            return True
    except Py4JError:  # Java would have told more of it, and does not answer
        return is_gone()
    is_of_the_start = is_starting and isinstance(error, Py4JError | PySparkException)
    return (is_of_the_start or may_pass(error) or _is_of_a_broken_call(error)) and is_gone()


def _is_of_a_broken_call(error: Exception) -> bool:
    """Whether a call into the JVM got no answer; a failure that the JVM has told is one, as Py4JJavaError is."""
    # What ends a job is told as the transform's.
    cause = error.__cause__ if isinstance(error, TransformError) else error
    return isinstance(cause, UNANSWERED) and not isinstance(cause, Py4JJavaError)
