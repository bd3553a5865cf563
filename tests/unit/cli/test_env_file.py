"""Variables of a pipeline file that stand in a file of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.hostile import HOSTILE, assert_harmless
from typer.testing import CliRunner, Result

from directkafka.cli import all_commands
from directkafka.cli.app import app
from directkafka.errors import OptionError

FILE = """
[pipeline]
name = "${NAME}"
[source]
"kafka.bootstrap.servers" = "nowhere:1"
subscribe = "air"
[[sink]]
type = "sqlite"
path = "${FOLDER}/air.db"
table = "flights"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a pipeline file, and an environment of its own."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    (tmp_path / "flights.toml").write_text(FILE)
    return tmp_path


def paused(folder: Path, variables: str | bytes) -> Result:
    content = variables.encode() if isinstance(variables, str) else variables
    (folder / "prod.env").write_bytes(content)
    options = ["--env-file", str(folder / "prod.env"), "--format", "json"]
    return CliRunner().invoke(app, ["resume", str(folder / "flights.toml"), *options])


def test_variables_come_from_the_file(folder: Path) -> None:
    done = paused(folder, f"# where\nexport NAME='flights'\n\nFOLDER={folder}  # here\n")
    assert (done.exit_code, '"pipeline":"flights"' in done.stdout.replace(" ", "")) == (0, True)


def test_the_environment_comes_first(folder: Path) -> None:
    os.environ["NAME"] = "of-the-shell"
    done = paused(folder, f"NAME=of-the-file\nFOLDER={folder}\n")
    assert "of-the-shell" in done.stdout


def test_a_value_stays_as_it_is_written(folder: Path) -> None:
    paused(folder, f"NAME=flights\nFOLDER={folder}\nPASSWORD=a${{NAME}}$b#c\n")
    assert os.environ["PASSWORD"] == "a${NAME}$b#c"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ("NAME=flights\nhunter2 is no variable\n", "line 2 is no NAME=VALUE"),
        (b"NAME=hunter2\xff\n", "is not UTF-8 text"),
        ("NAME=hunter2\0\n", "line 1 is no NAME=VALUE"),
        ("NA\0ME=hunter2\n", "line 1 is no NAME=VALUE"),
        ("'A=B'=hunter2\n", "line 1 is no NAME=VALUE"),
    ],
)
def test_a_file_that_is_none_is_told_by_its_line_and_not_shown(
    folder: Path, variables: str | bytes, reason: str
) -> None:
    error = paused(folder, variables).exception
    assert isinstance(error, OptionError)
    assert (error.option, reason in error.reason, "hunter2" in str(error)) == ("--env-file", True, False)


def test_a_file_that_is_not_there_is_told(folder: Path) -> None:
    done = CliRunner().invoke(app, ["resume", str(folder / "flights.toml"), "--env-file", str(folder / "none.env")])
    assert isinstance(done.exception, OptionError)
    assert "none.env cannot be read" in done.exception.reason


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_names_and_values_of_any_kind_end_in_no_traceback(folder: Path, name: str) -> None:
    done = paused(folder, f"{HOSTILE[name]}={HOSTILE[name]}\n".encode(errors="surrogatepass"))
    assert isinstance(done.exception, OptionError)
    assert_harmless(str(done.exception))


def test_every_command_about_a_pipeline_file_takes_it() -> None:
    about_a_file = {
        command.callback.__name__
        for command in app.registered_commands
        if {"file", "files"} & set(command.callback.__annotations__ if command.callback else {})
    }
    taking = {
        command.callback.__name__
        for command in app.registered_commands
        if "env_file" in (command.callback.__annotations__ if command.callback else {})
    }
    assert about_a_file == taking
    assert {"run", "check", "reset", "lag"} <= taking, all_commands.__all__
