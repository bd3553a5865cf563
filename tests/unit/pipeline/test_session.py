"""Spark settings that depend on the machine."""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from directkafka.pipeline.session import _worker_daemon, _worker_sockets
from directkafka.sources.worker_daemon import MODULE

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


def test_workers_talk_over_unix_sockets_in_the_temporary_folder(
    short_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short_root))
    settings = _worker_sockets("local[2]")
    assert settings == {ENABLED: "true", FOLDER: str(short_root)}


def test_the_longest_folder_that_is_taken_holds_a_socket_and_the_next_is_left_alone(
    short_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = 103 - len(SOCKET_NAME) - 1
    taken, left_alone = folder_of(short_root, longest), folder_of(short_root, longest + 1)
    monkeypatch.setattr(tempfile, "tempdir", str(left_alone))
    assert _worker_sockets("local[2]") == {}
    monkeypatch.setattr(tempfile, "tempdir", str(taken))
    assert _worker_sockets("local[2]")[FOLDER] == str(taken)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(taken / SOCKET_NAME))


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host:6443"])
def test_executors_of_other_machines_are_left_alone(master: str) -> None:
    assert _worker_sockets(master) == {}


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
