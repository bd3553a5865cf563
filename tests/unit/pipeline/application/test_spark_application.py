"""Spark settings that depend on the machine."""

from __future__ import annotations

import os
import shlex
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.accumulators import AccumulatorTCPServer

from directkafka.pipeline.application.spark_application import (
    _escaped,
    _local,
    _quieten,
    _settings_file,
    _worker_daemon,
    _worker_sockets,
)
from directkafka.pipeline.application.spark_log import private_folder
from directkafka.spark.worker_daemon import MODULE

SOCKET_NAME = ".00000000-0000-0000-0000-000000000000.sock"
ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"


def folder_of(root: Path, path_bytes: int) -> Path:
    """A folder under ``root`` whose path is exactly so long."""
    name = "x" * (path_bytes - len(str(root)) - 1)
    folder = root / name
    folder.mkdir()
    return folder


@pytest.fixture
def short_root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="d") as root:
        yield Path(root)


def test_workers_talk_over_unix_sockets_in_a_folder_of_the_user_alone(tmp_path: Path) -> None:
    assert _worker_sockets("local[2]", Path("/tmp/x")) == {ENABLED: "true", FOLDER: "/tmp/x"}
    assert stat.S_IMODE(private_folder().stat().st_mode) == 0o700


def test_the_longest_folder_that_is_taken_holds_a_socket_and_the_next_is_left_alone(short_root: Path) -> None:
    longest = 103 - len(SOCKET_NAME) - 1
    taken, left_alone = folder_of(short_root, longest), folder_of(short_root, longest + 1)
    assert _worker_sockets("local[2]", left_alone) == {}
    assert _worker_sockets("local[2]", taken)[FOLDER] == str(taken)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(taken / SOCKET_NAME))


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host:6443"])
def test_executors_of_other_machines_are_left_alone(master: str) -> None:
    assert _worker_sockets(master, Path("/tmp/x")) == {}


def test_workers_start_from_files_where_they_run_the_driver_s_own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert _worker_daemon("local[2]") == {"spark.python.daemon.module": MODULE}


@pytest.mark.parametrize(
    ("master", "python", "platform"),
    [
        ("yarn", sys.executable, "linux"),
        ("local[2]", "/another/python", "linux"),
        ("local[2]", sys.executable, "darwin"),
    ],
)
def test_spark_s_own_daemon_is_left_elsewhere(
    master: str, python: str, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    assert _worker_daemon(master) == {}


@pytest.mark.parametrize(("master", "is_alone"), [("local", True), ("local[*]", True), ("spark://host:7077", False)])
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
