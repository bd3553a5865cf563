"""Spark settings that depend on the machine."""

from __future__ import annotations

import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from directkafka.spark.private_folder import private_folder
from directkafka.spark.settings import _worker_daemon, _worker_sockets, spark_settings
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


def test_without_pyspark_python_workers_run_what_python3_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    python = tmp_path / "python3"
    python.write_text("")
    python.chmod(0o700)
    assert _worker_daemon("local[*]") == {}
    # A virtual environment has it by several names, and another one has links to the same file.
    (tmp_path / "python").symlink_to(python)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert spark_settings()["spark.python.daemon.module"] == MODULE
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "python").symlink_to(python)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "other" / "python"))
    assert "spark.python.daemon.module" not in spark_settings()
    assert spark_settings("spark://host:7077") == {}
