"""Signals and errors around a command that needs Spark; the Spark is none."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from tests.processes import run_without_reader_of_stderr

from directkafka.cli import app as module
from directkafka.cli.app import spark_in_file, stopped_by_signals
from directkafka.errors import (
    CommitUnknownError,
    DirectKafkaError,
    EnvironmentFaultError,
    FencedError,
    OptionError,
    RowRejectedError,
    StoreUnavailableError,
    TransformError,
    WorkerLostError,
)
from directkafka.errors.data_loss import CouldNotReadOffsetRangeError
from directkafka.pipeline.application import spark_application, spark_end
from directkafka.pipeline.application.spark_log import SparkLog

FENCED = FencedError(pipeline="p", store="s", held=1, found=2)
LOST = WorkerLostError(cause="a worker died")
GONE = EnvironmentFaultError(what="Spark was shut down", remedy="Run it again.")
DOWN = StoreUnavailableError(store="s", cause="no answer")
WRONG = OptionError(option="o", reason="wrong")
UNKNOWN = CommitUnknownError(store="s", pipeline="p", batch_id=1, cause="no answer")
REJECTED = RowRejectedError(store="s", sink="t", detail="too long")
LOSS = CouldNotReadOffsetRangeError(topic="t", partition=0, lost_from=1, lost_until=2, detail="gone")


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class ToldByJavaError(Py4JJavaError):
    """A failure that Java has told, while there was a Java."""

    def __init__(self) -> None:
        Exception.__init__(self, "a job failed")
        self.java_exception = None

    def __str__(self) -> str:
        return "a job failed"


class SilentJavaError(ToldByJavaError):
    """One whose words Py4J asks for when they are wanted, of a Java that is gone by then."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


class Stopping:
    """What is needed of a pipeline."""

    is_asked = False

    def session(self) -> None: ...

    def request_stop(self) -> None:
        self.is_asked = True


@pytest.fixture(autouse=True)
def _late_signals_fail_a_test() -> Iterator[None]:
    """Without a handler, one that arrives after ``stopped_by_signals`` has ended would end the tests' process."""
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("nobody took the signal"))
    yield
    signal.signal(signal.SIGTERM, before)


def ask() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("error", "is_gone"),
    [
        (LOST, False),
        (GONE, False),
        (DOWN, True),
        (ConnectionError("broken"), True),
        (Py4JError("An error occurred while calling o26.count"), True),
        (Py4JNetworkError("Answer from Java side is empty"), False),
        (caused(TransformError(source="on an executor", cause="a call"), Py4JError("a call")), True),
    ],
)
def test_what_a_signal_to_all_processes_breaks_is_no_failure(
    error: Exception, is_gone: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spark_end, "is_gone", lambda: is_gone)
    pipeline: Any = Stopping()
    with stopped_by_signals(pipeline):
        ask()
        raise error
    assert pipeline.is_asked
    message = " ".join(capsys.readouterr().err.split())
    assert "SIGTERM ended Spark as well; the next start goes on from what the ledger has" in message
    assert f"({type(error).__name__}: {error})" in message


@pytest.mark.parametrize(
    ("error", "ask", "is_gone"),
    [
        (LOST, lambda: None, True),
        (FENCED, ask, True),
        (WRONG, ask, True),
        (DOWN, ask, False),
        (UNKNOWN, ask, True),
        (REJECTED, ask, True),
        (LOSS, ask, True),
        (caused(TransformError(source="f", cause="a bug"), ZeroDivisionError()), ask, True),
        (ToldByJavaError(), ask, True),
        (KeyError("a bug"), ask, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_any_other_failure_stays_one(
    error: Exception, ask: Callable[[], None], is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_end, "is_gone", lambda: is_gone)
    pipeline: Any = Stopping()

    def run() -> None:
        with stopped_by_signals(pipeline):
            ask()
            raise error

    with pytest.raises(type(error)):
        run()


@pytest.mark.parametrize(("error", "is_named"), [(GONE, True), (FENCED, False), (WRONG, False)])
def test_an_error_names_what_spark_printed_where_that_may_help(
    error: DirectKafkaError, is_named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outputs: list[SparkLog] = []

    def run() -> None:
        with spark_in_file("flights", verbose=False):
            assert spark_application._output is not None
            outputs.append(spark_application._output)
            os.write(spark_application._output.fileno(), b"a line of Spark")
            raise type(error)(**vars(error))

    with pytest.raises(type(error)) as caught:
        run()
    path = outputs[0].path
    assert [f"What Spark printed: {path}"] * is_named == getattr(caught.value, "__notes__", [])
    assert path.exists() is is_named
    assert spark_application._output is None


STOPPED_UNHEARD = """
import os, signal
from directkafka.cli.app import stopped_by_signals
class Stopping:
    is_asked = False
    def session(self): ...
    def request_stop(self): self.is_asked = True
pipeline = Stopping()
with stopped_by_signals(pipeline):
    os.kill(os.getpid(), signal.SIGTERM)
    print(pipeline.is_asked, flush=True)
"""


def test_a_stop_is_asked_for_though_nobody_reads_what_is_said_of_it() -> None:
    """As in ``directkafka run f.toml 2>&1 | tee log``, where Ctrl-C ends tee as well."""
    assert run_without_reader_of_stderr(STOPPED_UNHEARD) == (0, "True\n")


def test_a_stop_is_asked_for_before_a_word_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_before_messages: list[bool] = []
    pipeline: Any = Stopping()
    monkeypatch.setattr(module, "say", lambda _: asked_before_messages.append(pipeline.is_asked))
    with stopped_by_signals(pipeline):
        ask()
    assert asked_before_messages == [True]


def test_a_log_whose_last_lines_cannot_be_shown_does_not_hide_what_ended_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_log: SparkLog) -> None:
        raise OSError("the disk is full")

    def run() -> None:
        with spark_in_file("flights", verbose=False):
            raise DOWN

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(SparkLog, "tell_news", fail)
    with pytest.raises(StoreUnavailableError):
        run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_behind_spark_s_start_is_a_stop_and_nothing_of_spark_s(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    class Starting(Stopping):
        """A pipeline whose Spark sets a handler of its own while it starts, as PySpark does for Ctrl-C."""

        def session(self) -> None:
            signal.signal(number, lambda *_: pytest.fail("Spark was told instead"))

    pipeline: Any = Starting()
    with stopped_by_signals(pipeline):
        os.kill(os.getpid(), number)
    assert pipeline.is_asked
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    "error", [GONE, ToldByJavaError(), SilentJavaError()], ids=["ours", "of a JVM that ends", "of one that has ended"]
)
def test_a_signal_that_ends_spark_while_it_starts_leaves_the_pipeline_to_end_by_itself(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_end, "is_gone", lambda: True)

    class Starting(Stopping):
        """A pipeline whose Spark is ended while it starts."""

        def session(self) -> None:
            ask()
            raise error

    pipeline: Any = Starting()
    with stopped_by_signals(pipeline):
        assert pipeline.is_asked
