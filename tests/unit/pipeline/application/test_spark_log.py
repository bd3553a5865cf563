"""The file that Spark's output goes to: whose it is, how long it gets, how many there are."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from directkafka.pipeline.application import spark_log
from directkafka.pipeline.application.spark_log import SparkLog


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def printed(log: SparkLog, text: str) -> None:
    subprocess.run(["printf", "%s", text], stdout=log.fileno(), check=True)


def test_a_log_is_its_user_s_alone_and_says_what_was_printed_first() -> None:
    log = SparkLog("flights of ../today")
    text = "WARNING: Using incubator modules: a.b\n\n no java \nlast\n"
    printed(log, text)
    assert log.first_words() == "no java"
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
    assert log.path.name.startswith("flights-of-..-today-")
    log.close(is_kept=True)
    assert log.path.read_text() == text


@pytest.mark.parametrize(("text", "is_kept"), [("a line", False), ("", True)])
def test_a_log_that_nobody_needs_goes(text: str, is_kept: bool) -> None:
    log = SparkLog("flights")
    printed(log, text)
    log.close(is_kept=is_kept)
    assert not log.path.exists()


def test_a_log_that_grows_too_long_loses_its_beginning_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log, "_BYTES_MAX", 1000)
    monkeypatch.setattr(spark_log, "_BYTES_KEPT", 10)
    log = SparkLog("flights")
    printed(log, "x" * 990 + "0123456789")
    log.shorten()
    assert log.path.stat().st_size == 1000
    printed(log, "y")
    log.shorten()
    printed(log, "z")
    assert log.path.read_text() == "... cut off ...\n123456789yz"
    log.close(is_kept=False)


def test_the_newest_logs_are_kept(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log, "_FILES_MAX", 3)
    folder = SparkLog("first").path.parent
    for number in range(5):
        path = folder / f"old-{number}.log"
        path.write_text("old")
        os.utime(path, (number, number))
    log = SparkLog("newest")
    assert {path.name.partition("-2")[0] for path in folder.iterdir()} >= {"first", "newest"}
    assert len(list(folder.iterdir())) == 3
    log.close(is_kept=False)


def test_a_folder_that_others_may_write_to_is_not_used(temporary: Path) -> None:
    foreign = temporary / spark_log._FOLDER
    foreign.mkdir()
    foreign.chmod(0o777)
    log = SparkLog("flights")
    assert log.path.parent != foreign
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
    log.close(is_kept=False)


def test_log_lines_of_this_library_are_handed_on_once_and_nothing_else() -> None:
    told: list[str] = []
    log = SparkLog("flights", told.append)
    ours = "2026-01-02 03:04:05,678 WARNING directkafka.sources: records were lost"
    printed(log, f"26/01/02 WARN Utils: hostname\n{ours}\nprinted by a function\n{ours[:30]}")
    log.tell_news()
    printed(log, f"{ours[30:]} again\nWARNING directkafka: no time\n")
    log.tell_news()
    log.tell_news()
    log.close(is_kept=False)
    assert told == [ours, f"{ours} again"]


def test_a_log_that_nobody_looks_at_is_followed() -> None:
    told = threading.Event()
    log = SparkLog("flights", lambda _: told.set())
    printed(log, "2026-01-02 03:04:05,678 WARNING directkafka.sources: records were lost\n")
    assert told.wait(60)
    log.close(is_kept=False)
