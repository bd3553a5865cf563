"""Transforms by name: found beside the file, never mistaken for a module of the same name, shipped once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from directkafka.errors import OptionError
from directkafka.pipeline.execution.transform import FunctionReference, load_function

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """``write("job", "text", folder="a")`` makes a module in a folder and returns the folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def write_module(name: str, text: str, folder: str = "job_folder") -> Path:
        directory = tmp_path / folder
        file = directory.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return directory

    yield write_module
    for name in set(sys.modules) - before:
        del sys.modules[name]


class FakeSession:
    """A Spark session as far as shipping a file goes."""

    def __init__(self, application: str) -> None:
        self.shipped: list[str] = []
        self.sparkContext = SimpleNamespace(applicationId=application, addPyFile=self.shipped.append)


def refused(name: str, folder: Path) -> str:
    with pytest.raises(OptionError) as raised:
        load_function(FunctionReference(name, folder))
    assert raised.value.option == "transform.python"
    return raised.value.reason


def test_a_module_beside_the_file_is_found(write: Write) -> None:
    folder = write("dk_job_found", "def transform(df): return df")
    transform = load_function(FunctionReference("dk_job_found:transform", folder))
    assert transform.name == "dk_job_found:transform"
    assert transform.function("rows") == "rows"  # type: ignore[arg-type, comparison-overlap]


def test_a_module_that_can_be_imported_anyway_need_not_lie_there(tmp_path: Path, write: Write) -> None:
    assert callable(load_function(FunctionReference("json:dumps", tmp_path)).function)


def test_two_files_of_one_name_in_one_process_are_refused_rather_than_mixed_up(write: Write) -> None:
    first = write("dk_job_twice", "def transform(df): return 1", "a")
    second = write("dk_job_twice", "def transform(df): return 2", "b")
    load_function(FunctionReference("dk_job_twice:transform", first))
    reason = refused("dk_job_twice:transform", second)
    assert str(first) in reason
    assert str(second) in reason
    assert "rename" in reason


def test_two_copies_of_one_file_are_as_good_as_one(write: Write) -> None:
    text = "def transform(df): return 1"
    first, second = write("dk_job_copied", text, "a"), write("dk_job_copied", text, "b")
    transform = load_function(FunctionReference("dk_job_copied:transform", first))
    assert load_function(FunctionReference("dk_job_copied:transform", second)) == transform


def test_a_file_named_like_a_module_of_pythons_is_refused(write: Write) -> None:
    folder = write("json", "def dumps(df): return df")
    assert "rename" in refused("json:dumps", folder)


def test_what_else_lies_beside_the_file_takes_no_library_s_place(write: Write) -> None:
    folder = write(
        "dk_job_beside", "import this_is_installed\ndef transform(df): return this_is_installed.PLACE", "job"
    )
    write("this_is_installed", "PLACE = 'beside the file'", "job")
    installed = write("this_is_installed", "PLACE = 'installed'", "site-packages")
    sys.path.append(str(installed))
    function: Any = load_function(FunctionReference("dk_job_beside:transform", folder)).function
    assert function(None) == "installed"


def test_a_module_that_is_not_there_is_named_with_the_folder(write: Write, tmp_path: Path) -> None:
    assert str(tmp_path) in refused("dk_no_such_module:transform", tmp_path)


def test_a_module_that_fails_while_it_is_imported_says_what_it_raised(write: Write) -> None:
    folder = write("dk_job_broken", "raise LookupError('no model file')")
    assert "LookupError: no model file" in refused("dk_job_broken:transform", folder)


@pytest.mark.parametrize(("text", "description"), [("x = 1", "no such name"), ("transform = 5", "a int")])
def test_what_is_no_function_is_refused(write: Write, text: str, description: str) -> None:
    folder = write(f"dk_job_{len(text)}", text)
    assert description in refused(f"dk_job_{len(text)}:transform", folder)


def test_a_module_is_shipped_once_to_each_application(write: Write) -> None:
    folder = write("dk_job_shipped", "def transform(df): return df")
    reference = FunctionReference("dk_job_shipped:transform", folder)
    first_session, same, other = FakeSession("app-1"), FakeSession("app-1"), FakeSession("app-2")
    for session in (first_session, same, other):
        as_session: Any = session
        load_function(reference, as_session)
    file = str((folder / "dk_job_shipped.py").resolve())
    assert (first_session.shipped, same.shipped, other.shipped) == ([file], [], [file])


def test_an_installed_module_is_not_shipped(write: Write, tmp_path: Path) -> None:
    session: Any = FakeSession("app-3")
    load_function(FunctionReference("json:dumps", tmp_path), session)
    assert session.shipped == []
