"""A line is told once to a program, and once to all the processes that Spark's daemon forks for it."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from directkafka import jvm_files, told_once
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
    monkeypatch.setattr(jvm_files, "_jvm", lambda: 1)
    for _ in range(2):
        call()
        another_process(monkeypatch)
        call()
    assert len(caplog.messages) == 1


def client(params: dict[str, str]) -> ClientOptions:
    return ClientOptions.from_kafka_params({"bootstrap.servers": "host:1", **params}, where="a test")


def test_processes_of_one_jvm_tell_a_line_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_files, "_jvm", lambda: 1)
    for _ in range(3):
        another_process(monkeypatch)
        warn_once(LOG, "ignored")
    assert len(caplog.messages) == 1
    another_process(monkeypatch)
    monkeypatch.setattr(jvm_files, "_jvm", lambda: 2)
    warn_once(LOG, "ignored")
    assert len(caplog.messages) == 2


def test_a_line_is_told_where_nothing_can_be_remembered(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jvm_files, "_jvm", lambda: 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    for _ in range(2):
        another_process(monkeypatch)
        warn_once(LOG, "ignored")
    assert len(caplog.messages) == 2
