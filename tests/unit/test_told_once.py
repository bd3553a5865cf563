"""A line is told once to a program, and once to all the processes that Spark's daemon forks for it."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import psutil
import pytest

from directkafka import told_once
from directkafka.options.client import ClientOptions
from directkafka.options.read_policy import ReadPolicy
from directkafka.options.source import SourceOptions
from directkafka.told_once import warn_once

LOG = logging.getLogger("directkafka.test")


@pytest.fixture(autouse=True)
def _a_new_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(told_once, "_told", set())


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process that was just forked remembers: nothing."""
    monkeypatch.setattr(told_once, "_told", set())


def test_a_program_is_told_a_line_once_and_another_line_too(caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2, 1):
        warn_once(LOG, "ignored: %d", number)
    assert caplog.messages == ["ignored: 1", "ignored: 2"]


LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "b"}
READ = {"kafka.bootstrap.servers": "host:1", "subscribe": "flights"}


@pytest.mark.parametrize(
    "call",
    [
        lambda: client({"session.timeout.ms": "1"}),
        lambda: client({"security.protocol": "SASL_SSL", "sasl.oauthbearer.token.callback": "m:f", **LOGIN}),
        lambda: client({"security.protocol": "SASL_PLAINTEXT", **LOGIN}),
        lambda: SourceOptions.parse({**READ, "kafka.group.id": "g"}, streaming=True),
        lambda: SourceOptions.parse({**READ, "maxOffsetsPerTrigger": "5"}, streaming=False),
        lambda: ReadPolicy.from_spark_conf({"spark.streaming.kafka.consumer.cache.enabled": "false"}),
    ],
    ids=["of Java", "of another login", "an open login", "of groups", "of streams", "of Spark's cache"],
)
def test_settings_that_are_ignored_or_warned_of_are_told_once(
    call: Callable[[], object], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Spark makes the data source anew, in another of its processes."""
    monkeypatch.setattr(told_once, "_jvm", lambda: 1)
    for _ in range(2):
        call()
        another_process(monkeypatch)
        call()
    assert len(caplog.messages) == 1


def client(params: dict[str, str]) -> ClientOptions:
    return ClientOptions.from_kafka_params({"bootstrap.servers": "host:1", **params}, where="a test")


def test_a_process_of_spark_s_is_known_by_its_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_once._jvm() is None
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    main.__spec__ = ModuleSpec("pyspark.sql.streaming.python_streaming_source_runner", None)
    assert told_once._jvm() == os.getppid()
    main.__spec__ = ModuleSpec("pyspark.daemon", None)
    assert told_once._jvm() == psutil.Process(os.getppid()).ppid()


def test_processes_of_one_jvm_tell_a_line_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told_once, "_jvm", lambda: 1)
    for _ in range(3):
        another_process(monkeypatch)
        warn_once(LOG, "ignored")
    assert len(caplog.messages) == 1
    another_process(monkeypatch)
    monkeypatch.setattr(told_once, "_jvm", lambda: 2)
    warn_once(LOG, "ignored")
    assert len(caplog.messages) == 2


def test_a_line_is_told_where_nothing_can_be_remembered(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(told_once, "_jvm", lambda: 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    for _ in range(2):
        another_process(monkeypatch)
        warn_once(LOG, "ignored")
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("what", ["a link", "a folder that others may write to", "a folder of another user"])
def test_what_somebody_else_has_put_in_the_folder_s_place_is_left_alone(
    what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Old files are removed there: a link must not lead that to a folder with something else in it."""
    folder, elsewhere = tmp_path / told_once._FOLDER, tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if what == "a link":
        folder.symlink_to(elsewhere)
    else:
        elsewhere = elsewhere.rename(folder)
    if what == "a folder that others may write to":
        folder.chmod(0o777)
    if what == "a folder of another user":
        monkeypatch.setattr(told_once, "_USER_ID", os.getuid() + 1)
    old = elsewhere / "accounts"
    old.touch()
    os.utime(old, (0, 0))
    monkeypatch.setattr(told_once, "_jvm", lambda: 1)
    warn_once(LOG, "ignored")
    assert list(elsewhere.iterdir()) == [old]
    assert caplog.messages == ["ignored"]


def test_a_file_in_the_folder_s_place_silences_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / told_once._FOLDER).touch()
    monkeypatch.setattr(told_once, "_jvm", lambda: 1)
    warn_once(LOG, "ignored")
    assert caplog.messages == ["ignored"]


def test_what_older_programs_left_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(told_once, "_jvm", lambda: 1)
    warn_once(LOG, "ignored")
    (old,) = (path for path in tmp_path.rglob("*") if path.is_file())
    os.utime(old, (0, 0))
    warn_once(LOG, "another")
    assert not old.exists()
