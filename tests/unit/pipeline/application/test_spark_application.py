"""Spark settings that depend on the machine."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.logger import PySparkLogger

from directkafka.pipeline.application.spark_application import (
    _escaped,
    _local,
    _quieten,
    _settings_file,
    send_output_to,
)
from directkafka.pipeline.application.spark_log import SparkLog


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_pyspark_s_account_of_a_failed_query_goes_where_spark_s_output_does(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    logger, output = PySparkLogger.getLogger(name), SparkLog("flights")
    logger.propagate = False
    send_output_to(output)
    logger.error("a record's value", errorClass="CAST_INVALID_INPUT")
    assert "a record's value" in output.path.read_text()
    send_output_to(None)
    output.close(is_kept=True)
    assert capsys.readouterr().err == ""
    logger.error("to the terminal again")
    assert "to the terminal again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("master", "is_alone"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("spark://host:7077", False)],
)
def test_nothing_listens_for_others_where_nobody_else_takes_part(
    master: str, is_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    settings = _local(master)
    assert (settings.get("spark.driver.bindAddress") == "127.0.0.1") is is_alone
    assert (settings.get("spark.ui.enabled") == "false") is is_alone


def test_what_spark_submit_starts_keeps_its_ui_and_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not _local("local[2]").keys() & {"spark.ui.enabled", "spark.driver.host", "spark.driver.bindAddress"}


def test_settings_are_told_by_a_file_of_the_user_alone_which_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf a=b pyspark-shell")
    with _settings_file({"spark.a": "b c"}) as is_told:
        assert is_told
        arguments = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        path = Path(arguments[arguments.index("--properties-file") + 1])
        assert path.read_text() == "spark.a=b\\ c\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert arguments[-3:] == ["--conf", "a=b", "pyspark-shell"]
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--conf a=b pyspark-shell"
    assert not path.exists()


def test_a_file_of_settings_that_the_user_names_stays_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file mine pyspark-shell")
    with _settings_file({"spark.a": "b"}) as is_told:
        assert not is_told
        assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--properties-file mine pyspark-shell"


def test_a_jvm_that_ends_before_the_accumulators_server_leaves_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server: Any = object.__new__(AccumulatorTCPServer)
    context: Any = SimpleNamespace(_accumulatorServer=server)

    def break_off() -> str:
        try:
            raise ConnectionResetError("the JVM is gone")
        except ConnectionResetError:
            server.handle_error(None, ("127.0.0.1", 1))
        return capsys.readouterr().err

    assert "Traceback" in break_off(), "by now PySpark's server is quiet by itself"
    _quieten(context)
    assert break_off() == ""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        (" a=b:c", r"\ a\=b\:c"),
        ("#!", r"\#\!"),
        ("C:\\temp", r"C\:\\temp"),
        ("one\ntwo", r"one\ntwo"),
    ],
)
def test_a_setting_is_written_as_java_reads_it(text: str, written: str) -> None:
    assert _escaped(text) == written
