"""``directkafka replay``: what it passes on, and what it prints; without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from directkafka.cli import all_commands as _commands  # noqa: F401 - they register with the app
from directkafka.cli import commands
from directkafka.cli.app import app
from directkafka.pipeline.pipeline import Pipeline
from directkafka.pipeline.replay.report import ReplaySummary

FILE = """
[pipeline]
name = "flights"
[source]
"kafka.bootstrap.servers" = "nowhere:1"
subscribe = "air"
[transform]
sql = "SELECT 1"
[[sink]]
type = "sqlite"
path = "{folder}/air.db"
table = "flights"
[dead_letters]
type = "sqlite"
path = "{folder}/air.db"
table = "rejected"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Tests of this process must keep its stdout.
    monkeypatch.setattr("directkafka.cli.commands.claim_stdout", lambda: None)
    monkeypatch.setattr("directkafka.cli.commands.set_up_logging", lambda **_: None)
    path = tmp_path / "flights.toml"
    path.write_text(FILE.format(folder=tmp_path))
    return path


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def replay(self: Pipeline, *, dry_run: bool = False, **chosen: Any) -> ReplaySummary:
        calls.append({"dry_run": dry_run} | {name: value for name, value in chosen.items() if value is not None})
        return ReplaySummary.of({"late": 2, "round": 1}, None if dry_run else {"late": 1})

    monkeypatch.setattr(Pipeline, "replay", replay)
    monkeypatch.setattr(Pipeline, "session", lambda self: None)
    return calls


def test_a_dry_run_prints_the_reasons_and_passes_the_choice_on(file: Path, called: list[dict[str, Any]]) -> None:
    options = ["--reason", "late", "--topic", "air", "--partition", "0", "--from-offset", "1", "--until-offset", "9"]
    times = ["--since", "2013-01-01T00:00:00Z", "--until", "2014-01-01T00:00:00Z", "--limit", "5"]
    done = CliRunner().invoke(app, ["replay", str(file), "--dry-run", "--format", "json", *options, *times])
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"reason": "late", "letters": 2},
        {"reason": "round", "letters": 1},
    ]
    assert "3 dead letters would be tried; nothing was changed" in done.stderr
    assert called == [
        {
            "dry_run": True, "reason": "late", "topic": "air", "partition": 0, "from_offset": 1, "until_offset": 9,
            "since": "2013-01-01T00:00:00Z", "until": "2014-01-01T00:00:00Z", "limit": 5,
        }
    ]  # fmt: skip


def test_a_replay_prints_a_table_and_what_was_rejected_again(file: Path, called: list[dict[str, Any]]) -> None:
    done = CliRunner().invoke(app, ["replay", str(file)])
    assert done.exit_code == 0, done.output
    assert "Replayed dead letters" in done.stdout
    assert "rejected again" in done.stdout
    assert "3 dead letters tried, 1 of them rejected again" in done.stderr
    assert called == [{"dry_run": False}]


def test_traces_that_are_asked_for_without_their_extra_are_told_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
    monkeypatch.setattr("directkafka.options.texts.find_spec", lambda _: None)
    with commands._traced():
        pass
    assert "no traces are sent: the package opentelemetry is not installed" in capsys.readouterr().err
