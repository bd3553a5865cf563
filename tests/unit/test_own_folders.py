"""Folders that nobody else can put files into: owner, mode and group of a folder and of those above it."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from directkafka import own_folders
from directkafka.own_folders import refuse_foreign


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder below another, each its user's alone."""
    made = tmp_path.resolve() / "above" / "folder"
    made.mkdir(parents=True)
    for path in (made, made.parent):
        path.chmod(0o755)
    return made


@pytest.fixture
def _new_groups() -> Iterator[None]:
    own_folders._is_private.cache_clear()
    yield
    own_folders._is_private.cache_clear()


def told(folder: Path) -> str:
    """Why a folder is refused; empty when it is not."""
    try:
        refuse_foreign(folder)
    except PermissionError as error:
        return str(error)
    return ""


def test_a_folder_of_one_s_own_is_taken(folder: Path) -> None:
    assert told(folder) == ""


@pytest.mark.parametrize(("mode", "is_taken"), [(0o1777, True), (0o777, False), (0o757, False), (0o775, False)])
def test_above_a_folder_others_may_write_where_none_may_take_away_what_is_another_s(
    mode: int, is_taken: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_folders, "_is_private", lambda group: False)
    folder.parent.chmod(mode)
    assert (told(folder) == "") is is_taken
    assert is_taken or told(folder) == f"other users may write to {folder.parent} (mode {mode:04o})"


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o757, 0o775, 0o1770])
def test_into_the_folder_itself_others_may_not_even_put_files_of_their_own(
    mode: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_folders, "_is_private", lambda group: False)
    folder.chmod(mode)
    assert told(folder) == f"other users may write to {folder} (mode {mode:04o})"


@pytest.mark.parametrize(
    ("name", "members", "is_taken"),
    [("ann", [], True), ("ann", ["ann"], True), ("ann", ["bob"], False), ("x", [], False)],
)
@pytest.mark.usefixtures("_new_groups")
def test_a_group_may_write_that_has_the_user_s_name_and_nobody_else(
    name: str, members: list[str], is_taken: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = folder.stat().st_gid
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="ann", pw_gid=number))
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_gid=number, gr_mem=members))
    folder.chmod(0o775)
    assert (told(folder) == "") is is_taken


@pytest.mark.usefixtures("_new_groups")
def test_a_group_that_is_not_the_user_s_first_one_is_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = folder.stat().st_gid
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="ann", pw_gid=number + 1))
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name="ann", gr_gid=number, gr_mem=[]))
    folder.chmod(0o775)
    assert "other users may write" in told(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make folders of another user")
@pytest.mark.parametrize("whose", ["folder", "above"])
def test_a_folder_of_another_user_is_refused_wherever_it_is_on_the_way(whose: str, folder: Path) -> None:
    foreign = folder if whose == "folder" else folder.parent
    os.chown(foreign, 12345, -1)
    assert told(folder).startswith(f"{foreign} belongs to user 12345")


def test_what_is_no_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "file").touch()
    (folder / "link").symlink_to(tmp_path)
    assert told(folder / "file") == f"{folder / 'file'} is no folder"
    assert told(folder / "link") == f"{folder / 'link'} is no folder"
