"""Exit codes, and what goes to stdout."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hostile import HOSTILE, assert_harmless

from directkafka import errors
from directkafka.cli import program
from directkafka.errors import (
    AlreadyRunningError,
    CommitUnknownError,
    DirectKafkaError,
    EnvironmentFaultError,
    FencedError,
    OptionError,
    data_loss,
    streams,
)
from directkafka.errors import kafka as kafka_errors

PATIENCE_S = 300.0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OptionError(option="trigger", reason="is wrong"), 2),
        (FencedError(store="db", pipeline="p", held=1, found=2), 3),
        (CommitUnknownError(store="db", pipeline="p", batch_id=1, cause="no answer"), 1),
        (EnvironmentFaultError(what="no Java", remedy="Install it."), 1),
        (AlreadyRunningError(pipeline="p"), 1),
    ],
)
def test_an_error_becomes_its_exit_code_and_a_message_on_stderr(
    error: DirectKafkaError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*, standalone_mode: bool) -> None:
        raise error

    monkeypatch.setattr(program, "app", fail)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == code
    output = capsys.readouterr()
    assert output.out == ""
    assert "error" in output.err


def test_brackets_in_a_message_are_no_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*, standalone_mode: bool) -> None:
        raise OptionError(option="sink", reason="write [[sink]], not [/sink] or [bold]")

    monkeypatch.setattr(program, "app", fail)
    with pytest.raises(SystemExit):
        program.main()
    assert "write [[sink]], not [/sink] or [bold]" in capsys.readouterr().err


ERRORS = [
    member
    for module in (errors, kafka_errors, data_loss, streams)
    for member in vars(module).values()
    if isinstance(member, type) and issubclass(member, DirectKafkaError) and member.__module__ == module.__name__
    if not member.__name__.startswith("_")
]


@pytest.mark.parametrize("error_type", ERRORS)
def test_every_error_shows_hostile_values_as_text(
    error_type: type[DirectKafkaError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each of its fields that is a text, or a sequence of texts."""
    for value in (text for name, text in HOSTILE.items() if name != "a million lines"):
        named = {field.name: _hostile(field, value) for field in dataclasses.fields(error_type)}
        with pytest.raises(SystemExit):
            run_main(error_type(**named), monkeypatch)
        output = capsys.readouterr()
        assert output.out == ""
        assert_harmless(output.err)
        assert [line for line in output.err.splitlines() if not line.startswith(("error ", "    "))] == []


def _hostile(field: dataclasses.Field[object], value: str) -> object:
    if "tuple" in str(field.type):
        return (value,)
    return value if "str" in str(field.type) else 1


def run_main(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*, standalone_mode: bool) -> None:
        raise error

    monkeypatch.setattr(program, "app", fail)
    program.main()


def test_what_nobody_foresaw_is_shown_as_text_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in HOSTILE.values():
        with pytest.raises(SystemExit) as ended:
            run_main(ValueError(value), monkeypatch)
        assert ended.value.code == 1
        message = capsys.readouterr().err
        assert_harmless(message)
        assert "test_program.py" in message, "where it happened"


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "directkafka", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=folder,
        check=False,
    )


@pytest.mark.parametrize("arguments", [("run", "none.toml"), ("check", "none.toml"), ("verify", "none.toml")])
def test_a_file_that_is_not_there_is_wrong_usage(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = command(*arguments, "--format", "json", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "none.toml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("fly",), ("run",), ("run", "x.toml", "--format", "xml"), ("run", "--fast")])
def test_what_the_command_line_does_not_know_is_wrong_usage(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = command(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


def test_help_and_version_are_data(tmp_path: Path) -> None:
    from directkafka.version import __version__

    assert command("--version", folder=tmp_path).stdout.strip() == __version__
    shown = command("--help", folder=tmp_path)
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in ("run", "check", "verify", "demo"))


@pytest.mark.parametrize(
    ("typed", "offered"), [("directkafka re", "reset"), ("directkafka reset --to-", "--to-datetime")]
)
def test_a_shell_completes_commands_and_options(typed: str, offered: str, tmp_path: Path) -> None:
    word_index = len(typed.split()) - 1
    done = subprocess.run(
        [Path(sys.executable).with_name("directkafka")],
        env={
            **os.environ,
            "_DIRECTKAFKA_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(word_index),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=tmp_path,
        check=False,
    )
    assert offered in done.stdout.split()


def test_a_claimed_stdout_carries_data_alone_whoever_prints(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\n"
        "from directkafka.cli.output import Format, claim_stdout, print_record, print_records\n"
        "claim_stdout(); claim_stdout()\n"
        "print('a transform prints')\n"
        "os.write(1, b'a library writes\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"a child prints\")'], check=True)\n"
        "print_record({'batch': 1}, Format.JSON, text='')\n"
        "print_records([{'rows': 2}, {'rows': 3}], Format.JSON, title='')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path, check=True
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"batch": 1}, {"rows": 2}, {"rows": 3}]
    for words in ("a transform prints", "a library writes", "a child prints"):
        assert words in done.stderr
