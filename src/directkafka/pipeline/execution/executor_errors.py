"""The meaning of a failed Spark job: an error of ours, a lost process, a lost Spark, or the user's transform.

Spark's account of it holds words of records, which must not decide. A failed job is a chain of Java exceptions, each
with a class and a message. The class is Spark's, and so is the condition (``CAST_INVALID_INPUT``); a message is Spark's
up to where it tells a value. So nothing is looked for *in* a message: it is compared from its beginning, where no
record has a say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException, PySparkRuntimeError

from directkafka.errors import DirectKafkaError, EnvironmentFaultError, TransformError, WorkerLostError
from directkafka.errors.transport import Notes
from directkafka.pipeline.application import spark_application

_SPARKS_OWN: Final = "org.apache.spark."
_SPARK: Final = f"{_SPARKS_OWN}SparkException"
_PYTHON: Final = f"{_SPARKS_OWN}api.python.PythonException"
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]*)\] ")

#: A message tells the record's value, which may be of any size; more of it is of no use.
_TOLD_MAX: Final = 2_000

#: Longest chain that is followed.
_LINKS_MAX: Final = 20

_ABORTED: Final = r"(?:Job aborted due to stage failure: )"
_BLOCK_LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
#: How the failure of one task is told: how it was lost, or the class of its exception and that one's message.
_TASK_LOST: Final = (
    r"(?:ExecutorLostFailure \(executor |FetchFailed\(|Resubmitted|"
    rf"org\.apache\.spark\.SparkException: (?:Python worker exited unexpectedly|\[{_BLOCK_LOST}\]))"
)
#: A process that ran tasks is gone, or what it kept.
_LOST: Final = re.compile(
    rf"{_ABORTED}?Python worker exited unexpectedly"
    rf"|{_ABORTED}Task \d+ in stage [\d.]+ failed \d+ times, most recent failure: "
    rf"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^()\n]*\): {_TASK_LOST}"
    rf"|{_ABORTED}?(?:Could not recover from a failed barrier ResultStage\. Most recent failure reason: )?"
    rf"Stage failed because barrier task (?:Result|ShuffleMap)Task\([\d, ]+\) finished unsuccessfully\.\s+{_TASK_LOST}"
    rf"|{_ABORTED}(?:ShuffleMap|Result)Stage \d+ \([^\n]*\) has failed the maximum allowable number of times: "
    # What was computed again, after a loss, was not the same: Spark's checksums of shuffles say so.
    rf"|{_ABORTED}(?:A shuffle map stage with indeterminate output was failed and retried\.|"
    r"rolling back due to indeterminate output of shuffle map stage |"
    r"Task with indeterminate results from old attempt succeeded)"
)
_TOO_MUCH: Final = re.compile(
    rf"{_ABORTED}?Total size of serialized results of \d+ tasks \([^()]*\) is bigger than spark\.driver\.maxResultSize"
)
_SHUT_DOWN: Final = re.compile(r"Job \d+ cancelled because SparkContext was shut down")
_STOPPED: Final = (
    "Cannot call methods on a stopped SparkContext",
    "LiveListenerBus is stopped",
    "SparkContext has been shutdown",
)

#: PySpark's own stumbling over a context that is gone.
_STUMBLED: Final = "'NoneType' object has no attribute 'sc'"
_NO_SESSION: Final = "SESSION_OR_CONTEXT_NOT_EXISTS"

#: The last line of an exception in a traceback comes behind lines that are indented.
_TRACEBACK: Final = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class JavaError:
    """One Java exception of a chain.

    Attributes:
        class_name: its Java class.
        message: its message, of which only the beginning is sure to be Spark's.
    """

    class_name: str
    message: str

    @property
    def condition(self) -> str | None:
        """The error condition of one of Spark's exceptions, with which their messages begin."""
        match = _CONDITION.match(self.message) if self.class_name.startswith(_SPARKS_OWN) else None
        return None if match is None else match[1]


def java_errors(error: BaseException) -> tuple[JavaError, ...]:
    """The chain behind what PySpark raised, from the outside in; empty for an exception of Python's own."""
    return tuple(_java_errors(error))


def _is_shut_down(error: BaseException) -> bool:
    """Whether an error says that Spark was shut down."""
    if isinstance(error, Py4JNetworkError):
        return True
    if isinstance(error, AttributeError):
        return str(error) == _STUMBLED
    chain = java_errors(error)
    if not chain and isinstance(error, PySparkException):
        return error.getCondition() == _NO_SESSION
    return any(
        _SHUT_DOWN.match(java_error.message) if java_error.class_name == _SPARK else _is_stopped(java_error)
        for java_error in chain
    )


def lost_process(error: BaseException) -> str | None:
    """What Spark says when tasks did not fail but lost the process that ran them or kept their input; else None."""
    for java_error in java_errors(error):
        if java_error.class_name == _SPARK and (java_error.condition == _BLOCK_LOST or _LOST.match(java_error.message)):
            return _shortened(_first_line(java_error.message))
    return None


def too_much_for_driver(error: BaseException) -> bool:
    """Whether Spark refused to bring a job's result to the driver for its size."""
    return any(
        java_error.class_name == _SPARK and _TOO_MUCH.match(java_error.message) for java_error in java_errors(error)
    )


def told(error: BaseException) -> str:
    """The line of a failure that says what it was, or its beginning, whatever a record holds."""
    return _shortened(_line_of(error))


def _line_of(error: BaseException) -> str:
    chain = java_errors(error)
    # The innermost exception with a condition is the nearest to what happened.
    named = [java_error for java_error in chain if java_error.condition is not None] or list(chain[-1:])
    if not named:
        return _raised(str(error)) or type(error).__name__
    java_error = named[-1]
    if (java_error.condition or "").startswith("PYTHON") or java_error.class_name == _PYTHON:
        return _raised(java_error.message)
    return _first_line(java_error.message) or java_error.class_name


def _java_errors(error: BaseException) -> Iterator[JavaError]:
    origin = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_LINKS_MAX):
        if origin is None:
            break
        yield JavaError(str(origin.getClass().getName()), str(origin.getMessage() or ""))
        origin = origin.getCause()
    else:
        return
    # What ends a query is told with a message of its own, and its cause beside it.
    cause = getattr(error, "_cause", None)
    if isinstance(cause, BaseException) and getattr(error, "_origin", None) is None:
        yield from _java_errors(cause)


def _is_stopped(java_error: JavaError) -> bool:
    return java_error.class_name == "java.lang.IllegalStateException" and java_error.message.startswith(_STOPPED)


def _shortened(text: str) -> str:
    return text if len(text) <= _TOLD_MAX else text[:_TOLD_MAX] + "..."


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _raised(text: str) -> str:
    """The line with which Python tells an exception: the first one behind a traceback's frames, which are indented."""
    lines = [line for line in text.partition("\n\nJVM stacktrace")[0].splitlines() if line.strip()]
    starts = [number for number, line in enumerate(lines) if line.rstrip().endswith(_TRACEBACK)]
    if not starts:
        return _first_line(text)
    behind = lines[starts[-1] + 1 :]
    return next((line.strip() for line in behind if not line.startswith(" ")), behind[-1].strip() if behind else "")


#: What Py4J and PySpark raise where a call into the JVM gets no answer.
UNANSWERED: Final = (Py4JError, PySparkRuntimeError, ConnectionError, EOFError)


def from_executor(error: Exception) -> DirectKafkaError:
    """The error that a failed job stands for."""
    if isinstance(error, DirectKafkaError):
        return error
    if _java_is_gone(error):
        return EnvironmentFaultError(
            what="Spark's JVM ended; what is committed is in the ledger",
            remedy="Run the pipeline again, in a new Python process: it goes on from there. To find out why the JVM "
            "ended, read what Spark printed, and the kernel's log, which names each process that was killed because "
            "memory ran out.",
        )
    if _is_shut_down(error):
        return EnvironmentFaultError(
            what="Spark was shut down meanwhile; a batch that was in flight is not committed",
            remedy="Start Spark again, then run this again. Stop a pipeline before Spark is stopped.",
        )
    ours = Notes.of_this_process().read(str(error))
    if ours is not None:
        return ours
    lost = lost_process(error)
    if lost is not None:
        return WorkerLostError(cause=lost)
    return TransformError(source="on an executor", cause=told(error))


@contextmanager
def job_errors() -> Iterator[None]:
    """Turn the failure of a Spark job in this block into the error that it stands for.

    Raises:
        DirectKafkaError: see :func:`from_executor`.
    """
    try:
        yield
    except DirectKafkaError:
        raise
    except Exception as error:
        raise from_executor(error) from error


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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those during which it was raised."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def spark_is_gone(error: BaseException) -> bool:
    """Whether the Spark application itself has ended, so that no task can say anything."""
    return _java_is_gone(error) or _is_shut_down(error)


def _java_is_gone(error: BaseException) -> bool:
    """Whether a call into the JVM got no answer because the JVM has ended: killed, or out of memory.

    A transform may raise the same types of errors when a connection of its own breaks. So the JVM is called once more.
    """
    try:
        java_errors(error)
        # PySpark says of some calls that it cannot read the answer, and the error of the call is behind that.
        is_unanswered = any(
            isinstance(cause, UNANSWERED) and not isinstance(cause, Py4JJavaError) for cause in _causes(error)
        )
    except (Py4JError, OSError):  # Java has reported a failure and ended, so its exception cannot be asked what it was
        is_unanswered = True
    return is_unanswered and not spark_application.java_answers()
