"""What a failed Spark job is taken for, from what Spark really said, and from what records made it say."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Sequence

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkValueError
from tests.unit.pipeline.spark_texts import FAILURES, SparkError, named

from directkafka.errors import (
    DataLossError,
    DirectKafkaError,
    EnvironmentFaultError,
    FencedError,
    StoreUnavailableError,
    TransformError,
    WorkerLostError,
)
from directkafka.errors.data_loss import CouldNotReadOffsetRangeError
from directkafka.errors.transport import Notes
from directkafka.pipeline.application import spark_application
from directkafka.pipeline.execution.executor_errors import from_executor, spark_is_gone, too_much_for_driver
from directkafka.pipeline.retry import may_pass

Chain = Sequence[Sequence[str]]

NOTES = Notes.of_this_process()
LOSS = CouldNotReadOffsetRangeError(topic="t", partition=3, lost_from=5, lost_until=9, detail="aged out")
FENCED = FencedError(store="db", pipeline="p", held=1, found=2)

ABORTED = "Job aborted due to stage failure: "
TASK = f"{ABORTED}Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 7) "
SPARK = "org.apache.spark.SparkException"


def note_of(error: DirectKafkaError, notes: Notes = NOTES) -> str:
    return str(notes.on(type(error)(**vars_of(error))).__notes__[-1])


def vars_of(error: DirectKafkaError) -> dict[str, object]:
    return {field.name: getattr(error, field.name) for field in dataclasses.fields(error)}


def python_failed(*lines: str) -> SparkError:
    """A task's function has raised."""
    text = "\n".join(["[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback", *lines])
    return SparkError([["org.apache.spark.api.python.PythonException", text]])


def test_an_error_of_ours_comes_back_with_its_fields() -> None:
    error = from_executor(python_failed("DataLossError: ...", note_of(LOSS), " SQLSTATE: 38000"))
    assert isinstance(error, DataLossError)
    assert (error.partition, error.lost_from, error.lost_until) == (3, 5, 9)
    assert not may_pass(error)


def test_a_store_that_a_task_could_not_reach_may_pass() -> None:
    assert may_pass(from_executor(python_failed(note_of(StoreUnavailableError(store="db", cause="too many")))))


def test_a_note_counts_before_the_loss_of_a_worker() -> None:
    chain = [[SPARK, f"{TASK}(host executor 1): {SPARK}: Python worker exited unexpectedly\n{note_of(FENCED)}"]]
    assert isinstance(from_executor(SparkError(chain)), FencedError)


# A process is gone.


@pytest.mark.parametrize(
    "chain",
    [
        *named("worker_exit"), *named("worker_kill"), *named("exec_kill"),
        *named("localcheckpoint_lost_arrow"), *named("localcheckpoint_lost_shuffle"),
        [[SPARK, f"{TASK}(h executor 1): ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"]],
        [[SPARK, f"{TASK}(h executor 1): FetchFailed(BlockManagerId(1, h, 7337), shuffleId=0, mapIndex=1)"]],
        [[SPARK, f"{ABORTED}ShuffleMapStage 3 (toArrow at job.py:1) has failed the maximum allowable number of times: "
                 "4. Most recent failure reason:\norg.apache.spark.shuffle.MetadataFetchFailedException: Missing"]],
        [[SPARK, f"{ABORTED}A shuffle map stage with indeterminate output was failed and retried. However, Spark "
                 "cannot rollback the ResultStage 4"]],
        [[SPARK, f"{ABORTED}Stage failed because barrier task ResultTask(3, 0) finished unsuccessfully.\n"
                 "ExecutorLostFailure (executor 0 exited caused by one of the running tasks)"]],
        [[SPARK, f"{ABORTED}Could not recover from a failed barrier ResultStage. Most recent failure reason: Stage "
                 f"failed because barrier task ResultTask(3, 0) finished unsuccessfully.\n{SPARK}: Python worker "
                 "exited unexpectedly (crashed)"]],
    ],
)  # fmt: skip
def test_a_lost_process_is_worth_another_try(chain: Chain) -> None:
    error = from_executor(SparkError(chain))
    assert isinstance(error, WorkerLostError)
    assert "\n" not in error.cause
    assert may_pass(error)


# What Spark says of itself.


@pytest.mark.parametrize("chain", [*named("stop_during"), *named("after_stop")])
def test_a_spark_that_is_gone_is_no_fault_of_the_transform_and_does_not_come_back(chain: Chain) -> None:
    error = SparkError(chain)
    assert spark_is_gone(error)
    own_error = from_executor(error)
    assert isinstance(own_error, EnvironmentFaultError)
    assert not may_pass(own_error)


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("An error occurred while trying to connect to the Java server"),
        AttributeError("'NoneType' object has no attribute 'sc'"),
    ],
)
def test_a_python_without_its_spark_knows_that_it_is_gone(error: Exception) -> None:
    assert isinstance(from_executor(error), EnvironmentFaultError)


class Silent:
    """A Java exception of a JVM that has been killed since."""

    def getClass(self) -> None:  # noqa: N802 - Java's name
        raise ConnectionRefusedError(111, "Connection refused")


def silent_failure() -> Exception:
    error = Py4JJavaError.__new__(Py4JJavaError)
    Exception.__init__(error, "a job failed")
    error.java_exception = Silent()
    return error


def unread_answer() -> Exception:
    """What ``DataFrame.schema`` raises when the call behind it fails."""
    try:
        try:
            raise ConnectionRefusedError(111, "refused")
        except ConnectionRefusedError as refused:
            raise PySparkValueError(
                errorClass="CANNOT_PARSE_DATATYPE", messageParameters={"msg": str(refused)}
            ) from refused
    except PySparkValueError as error:
        return error


UNANSWERED = [
    Py4JError("An error occurred while calling o12.collectToPython"),
    ConnectionRefusedError(111, "refused"),
    unread_answer(),
]


@pytest.mark.parametrize(
    "error", [*UNANSWERED, silent_failure()], ids=["a call", "a socket", "a schema", "what Java has told"]
)
def test_a_jvm_that_was_killed_is_told_as_such(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_application, "java_answers", lambda: False)
    assert spark_is_gone(error)
    own_error = from_executor(error)
    assert isinstance(own_error, EnvironmentFaultError)
    assert own_error.what.startswith("Spark's JVM ended")


@pytest.mark.parametrize("error", UNANSWERED, ids=["a call", "a socket", "a schema"])
def test_the_same_words_beside_a_jvm_that_runs_are_the_transform_s(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_application, "java_answers", lambda: True)
    assert not spark_is_gone(error)
    assert isinstance(from_executor(error), TransformError)


@pytest.mark.parametrize("chain", [*named("big"), *named("big_collect")])
def test_a_result_that_the_driver_may_not_hold_is_known(chain: Chain) -> None:
    assert too_much_for_driver(SparkError(chain))


# The user's transform.


@pytest.mark.parametrize("version", FAILURES)
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("cast", '[CAST_INVALID_INPUT] The value \'12x\' of the type "STRING" cannot be cast to "INT" because it is'),
        ("divide", "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`"),
        ("raise_error", "[USER_RAISED_EXCEPTION] line1"),
        ("udf", "ValueError: bad value"),
        ("mapinarrow", "ValueError: bad batch"),
        ("mapinarrow_note", "ValueError: bad batch"),
        ("chained", "RuntimeError: outer"),
    ],
)
def test_the_transforms_failure_is_told_by_the_line_that_says_what_it_was(version: str, name: str, cause: str) -> None:
    error = from_executor(SparkError(FAILURES[version][name]))
    assert isinstance(error, TransformError)
    assert error.cause.startswith(cause)
    assert "\n" not in error.cause
    assert not may_pass(error)


@pytest.mark.parametrize(
    "outer",
    [
        [SPARK, f"{TASK}(h executor 1): org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero."],
        ["org.apache.spark.sql.streaming.StreamingQueryException", "[STREAM_FAILED] Query [id = 1] terminated"],
    ],
)
def test_of_a_chain_what_happened_first_is_told(outer: Sequence[str]) -> None:
    inner = ["org.apache.spark.SparkArithmeticException", "[DIVIDE_BY_ZERO] Division by zero.\n\nat job.py:1"]
    error = from_executor(SparkError([outer, inner]))
    assert isinstance(error, TransformError)
    assert error.cause == "[DIVIDE_BY_ZERO] Division by zero."


def test_a_value_that_looks_like_a_traceback_is_told_as_the_value_that_it_is() -> None:
    value = "Traceback (most recent call last):\n  File\nsend the password to me"
    cast = f'[CAST_INVALID_INPUT] The value \'{value}\' of the type "STRING" cannot be cast to "INT"'
    error = from_executor(SparkError([["org.apache.spark.SparkNumberFormatException", cast]]))
    assert isinstance(error, TransformError)
    assert error.cause == "[CAST_INVALID_INPUT] The value 'Traceback (most recent call last):"


def test_of_a_line_of_a_megabyte_the_beginning_is_told() -> None:
    error = from_executor(python_failed("ValueError: " + "x" * 1_000_000))
    assert isinstance(error, TransformError)
    assert len(error.cause) < 3_000


def test_an_error_without_words_is_told_by_its_type() -> None:
    assert from_executor(MemoryError()).cause == "MemoryError"  # type: ignore[attr-defined]


def test_an_error_of_ours_that_never_left_the_driver_stays_itself() -> None:
    assert from_executor(LOSS) is LOSS


# What a record holds is no word of Spark's, nor of ours.


def forged_note(name: str = "FencedError", values: str = "") -> str:
    values = values or json.dumps(vars_of(FENCED))
    return f"[directkafka {name} {values} {'0' * 64}]"


FORGED = [
    forged_note(),
    forged_note("OptionError", '{"option": "x", "reason": "send the password to me"}'),
    forged_note("StoreUnavailableError", "{not json}"),
    f"[directkafka FencedError {json.dumps(vars_of(FENCED))}]",
    note_of(FENCED, Notes(b"another driver's")),
    note_of(FENCED).replace('"held": 1', '"held": 7'),
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
    f"{SPARK}: Python worker exited unexpectedly (crashed)",
    "FetchFailed(BlockManagerId(1, h, 7337), shuffleId=0)",
    "Job 4 cancelled because SparkContext was shut down",
    "Cannot call methods on a stopped SparkContext.",
    "SparkContext or SparkSession should be created",
    f"{TASK}(h executor 1): ExecutorLostFailure (executor 1 exited",
    "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_1_0 not found!",
    f"{ABORTED}Total size of serialized results of 1 tasks (2.9 MiB) is bigger than spark.driver.maxResultSize",
]


@pytest.mark.parametrize("value", FORGED)
@pytest.mark.parametrize("before", ["", "\n", "12\n\n"])
def test_a_record_cannot_make_up_what_ends_or_repeats_a_batch(value: str, before: str) -> None:
    text = before + value
    cast = f'[CAST_INVALID_INPUT] The value \'{text}\n\' of the type "STRING" cannot be cast to "INT"'
    told = f"[USER_RAISED_EXCEPTION] {text}\n SQLSTATE: P0001"
    for error in (
        SparkError([["org.apache.spark.SparkNumberFormatException", cast]]),
        SparkError([["org.apache.spark.SparkRuntimeException", told]]),
        SparkError(
            [
                [SPARK, f"{TASK}(h executor 1): org.apache.spark.SparkRuntimeException: {told}"],
                ["org.apache.spark.SparkRuntimeException", told],
            ]
        ),
        SparkError([[SPARK, f"{TASK}(h executor 1): org.apache.spark.api.python.PythonException: ValueError: {text}"]]),
        SparkError([["java.lang.IllegalStateException", f"a function of the user's: {text}"]]),
        python_failed('  File "job.py", line 3, in parse', f"ValueError: {text}", " SQLSTATE: 38000"),
        python_failed(f"ValueError: {text}\n{value}\n"),
        ValueError(text),
    ):
        own_error = from_executor(error)
        assert isinstance(own_error, TransformError), error
        assert not too_much_for_driver(error)


def test_the_key_is_in_no_text_and_reaches_the_tasks() -> None:
    assert NOTES.key.hex() not in repr(NOTES) + note_of(FENCED)
    assert repr(NOTES.key) not in repr(NOTES)
    assert pickle.loads(pickle.dumps(NOTES)) == NOTES


def test_a_note_of_a_version_with_other_fields_is_no_error_of_ours() -> None:
    signed = NOTES._signature("FencedError", '{"other": 1}')
    assert NOTES.read(f'[directkafka FencedError {{"other": 1}} {signed}]') is None
