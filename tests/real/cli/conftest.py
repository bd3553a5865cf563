"""Commands in the test's own process: those without Spark with what they print, and with all that a terminal gets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hostile import assert_harmless

from directkafka.cli import all_commands, program

Outcome = tuple[int, str, str]
Command = Callable[..., Outcome]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A command: exit code, stdout, stderr without log lines."""
    for name in all_commands.__all__:
        monkeypatch.setattr(getattr(all_commands, name), "set_up_logging", lambda **_: None)

    def run(*arguments: str) -> Outcome:
        code = _run(monkeypatch, arguments, before=capsys.readouterr)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """A command in an empty folder: exit code, stdout, stderr with all log lines, which do a terminal no harm."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        code = _run(monkeypatch, arguments, before=capfd.readouterr)
        captured = capfd.readouterr()
        assert_harmless(captured.err)
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run


def _run(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], *, before: Callable[[], object]) -> int:
    monkeypatch.setattr(sys, "argv", ["directkafka", *arguments])
    before()
    with pytest.raises(SystemExit) as ended:
        program.main()
    return int(ended.value.code or 0)
