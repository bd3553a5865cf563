"""Signals and errors around a command that needs Spark; the Spark is none."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from directkafka.cli.spark_run import spark_in_file, stopped_by_signals
from directkafka.errors import (
    DirectKafkaError,
    EnvironmentFaultError,
    FencedError,
    OptionError,
    StoreUnavailableError,
    WorkerLostError,
)
from directkafka.pipeline import application
from directkafka.pipeline.spark_log import SparkLog

FENCED = FencedError(pipeline="p", store="s", held=1, found=2)
LOST = WorkerLostError(cause="a worker died")
GONE = EnvironmentFaultError(what="Spark was shut down", remedy="Run it again.")
DOWN = StoreUnavailableError(store="s", cause="no answer")
WRONG = OptionError(option="o", reason="wrong")


class Stopping:
    """What is needed of a pipeline."""

    is_asked = False

    def session(self) -> None: ...

    def request_stop(self) -> None:
        self.is_asked = True


def ask() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("error", "is_gone"), [(LOST, False), (GONE, False), (DOWN, True), (ConnectionError("broken"), True)]
)
def test_what_a_signal_to_all_processes_breaks_is_no_failure(
    error: Exception, is_gone: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(application, "is_gone", lambda: is_gone)
    pipeline: Any = Stopping()
    with stopped_by_signals(pipeline):
        ask()
        raise error
    assert pipeline.is_asked
    assert "SIGTERM ended Spark as well; the next start goes on from what the ledger has" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "ask", "is_gone"),
    [
        (LOST, lambda: None, True),
        (FENCED, ask, True),
        (WRONG, ask, True),
        (DOWN, ask, False),
    ],
    ids=["nobody asked", "fenced", "wrong usage", "a failure of its own"],
)
def test_any_other_failure_stays_one(
    error: DirectKafkaError, ask: Callable[[], None], is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "is_gone", lambda: is_gone)
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
            assert application._output is not None
            outputs.append(application._output)
            os.write(application._output.fileno(), b"a line of Spark")
            raise type(error)(**vars(error))

    with pytest.raises(type(error)) as caught:
        run()
    path = outputs[0].path
    assert [f"What Spark printed: {path}"] * is_named == getattr(caught.value, "__notes__", [])
    assert path.exists() is is_named
    assert application._output is None
