"""What processes of one JVM of Spark tell each other by files, and what somebody else has put there."""

from __future__ import annotations

import os
import sys
import tempfile
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import psutil
import pytest

from directkafka import jvm_files, own_folders
from directkafka.jvm_files import claim, read, write


@pytest.fixture(autouse=True)
def _of_a_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    be_of(os.getpid(), monkeypatch)


def be_of(jvm: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_files, "_jvm", lambda: jvm)


def test_a_process_of_spark_s_is_known_by_its_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert jvm_files._jvm() is None
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    main.__spec__ = ModuleSpec("pyspark.sql.streaming.python_streaming_source_runner", None)
    assert jvm_files._jvm() == os.getppid()
    main.__spec__ = ModuleSpec("pyspark.daemon", None)
    assert jvm_files._jvm() == psutil.Process(os.getppid()).ppid()


def test_what_is_written_is_there_for_the_processes_of_the_jvm_and_for_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("a", b"1")
    write("a", b"2")
    assert (read("a"), read("b")) == (b"2", None)
    be_of(os.getppid(), monkeypatch)
    assert read("a") is None


def test_one_process_of_a_jvm_has_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [claim("a"), claim("a"), claim("b")] == [True, False, True]
    be_of(os.getppid(), monkeypatch)
    assert claim("a")


def test_a_jvm_that_has_the_number_of_an_earlier_one_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_files, "_stat", lambda *_: "100")
    write("a", b"1")
    assert claim("a")
    monkeypatch.setattr(jvm_files, "_stat", lambda *_: "200")
    assert read("a") is None
    assert claim("a")


def test_nothing_is_written_where_the_system_does_not_tell_one_jvm_from_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jvm_files, "_stat", lambda *_: "")
    write("a", b"1")
    assert read("a") is None
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_spark_has_not_started_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    be_of(None, monkeypatch)
    write("a", b"1")
    assert read("a") is None
    assert [claim("a"), claim("a")] == [True, True]
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_everybody_has_the_claim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    write("a", b"1")
    assert read("a") is None
    assert [claim("a"), claim("a")] == [True, True]


@pytest.mark.parametrize("what", ["a link", "a folder that others may write to", "a folder of another user"])
def test_what_somebody_else_has_put_in_the_folder_s_place_is_left_alone(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Old files are removed there: a link must not lead that to a folder with something else in it."""
    write("a", b"1")
    folder, elsewhere = tmp_path / jvm_files._FOLDER, tmp_path / "elsewhere"
    folder.rename(elsewhere)
    if what == "a link":
        folder.symlink_to(elsewhere)
    else:
        elsewhere = elsewhere.rename(folder)
    if what == "a folder that others may write to":
        folder.chmod(0o777)
    if what == "a folder of another user":
        monkeypatch.setattr(own_folders, "USER_ID", os.getuid() + 1)
    old = elsewhere / "accounts"
    old.mkdir()
    os.utime(old, (0, 0))
    there = sorted(elsewhere.iterdir())
    assert read("a") is None
    be_of(os.getppid(), monkeypatch)
    write("b", b"2")
    assert claim("b")
    assert (read("a"), read("b")) == (None, None)
    assert sorted(elsewhere.iterdir()) == there


def test_a_file_in_the_folder_s_place_makes_nobody_the_second(tmp_path: Path) -> None:
    (tmp_path / jvm_files._FOLDER).touch()
    write("a", b"1")
    assert read("a") is None
    assert [claim("a"), claim("a")] == [True, True]


@pytest.mark.parametrize("leave", [lambda: claim("b"), lambda: write("b", b"2")], ids=["a claim", "a content"])
def test_the_folder_of_a_jvm_that_ended_long_ago_goes_and_that_of_a_running_one_stays(
    leave: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a", b"1")
    (running,) = (path.parent for path in tmp_path.rglob("*") if path.is_file())
    ended, recent = running.with_name("1-never-x"), running.with_name("2-never-x")
    ended.mkdir()
    (ended / "a").touch()
    recent.mkdir()
    for folder in (running, ended):
        os.utime(folder, (0, 0))
    be_of(os.getppid(), monkeypatch)
    leave()
    assert not ended.exists()
    assert recent.exists()
    be_of(os.getpid(), monkeypatch)
    assert read("a") == b"1"
