from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from directkafka.errors import StoreAccessError, StoreRequestError, StoreUnavailableError
from directkafka.sinks.files import posix
from directkafka.sinks.files.posix import link_new, prepare_file, require_writable, resolve_folder, translated


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EACCES, StoreAccessError),
        (errno.EROFS, StoreAccessError),
        (errno.ENOSPC, StoreUnavailableError),
        (errno.ESTALE, StoreUnavailableError),
        (errno.EIO, StoreUnavailableError),
        (errno.ENOTDIR, StoreRequestError),
    ],
)
def test_what_the_system_says_becomes_an_error_of_ours(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"directory /data.*/data/x"), translated("directory /data"):
        raise OSError(code, os.strerror(code), "/data/x")


@pytest.mark.parametrize("path", ["s3://bucket/data", "hdfs://host/data", "file:///data", "file:/data"])
def test_a_url_is_refused_by_its_scheme(path: str) -> None:
    with pytest.raises(ValueError, match=f"has the scheme '{path.partition(':')[0]}'"):
        resolve_folder(path)


def test_a_link_and_what_it_leads_to_are_one_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert resolve_folder(tmp_path / "link" / "new") == resolve_folder(tmp_path / "real" / "." / "new")


def test_a_name_is_given_once(tmp_path: Path) -> None:
    first, second = (prepare_file(tmp_path / "slot", text, durable=True) for text in (b"first", b"second"))
    assert [link_new(first, tmp_path / "slot"), link_new(second, tmp_path / "slot")] == [True, False]
    assert (tmp_path / "slot").read_bytes() == b"first"


def test_a_file_system_without_links_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    temporary = prepare_file(tmp_path / "slot", b"", durable=False)
    with pytest.raises(StoreRequestError, match="no hard links"), translated("directory"):
        link_new(temporary, tmp_path / "slot")


def test_a_folder_that_may_not_be_written_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_writable(tmp_path / "new" / "deep", store="directory")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StoreAccessError, match=f"may not write into {tmp_path}\\. Run chown"):
        require_writable(tmp_path / "new" / "deep", store="directory")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_there", [False, True])
def test_the_names_of_new_folders_are_synced_and_of_those_that_somebody_may_have_left_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    """A driver may have made them and died before it synced them."""
    synced: list[Path] = []
    monkeypatch.setattr(posix, "sync_directory", synced.append)
    root = tmp_path / "new" / "data"
    if is_there:
        (root / "a" / "b").mkdir(parents=True)
    posix.make_folder(root / "a" / "b", root=root, durable=True)
    assert (root / "a" / "b").is_dir()
    assert synced == [*([] if is_there else [tmp_path, tmp_path / "new"]), root, root / "a"]
    # Whoever made the root may have died before its name was synced.
    synced.clear()
    posix.make_folder(root / "other", root=root, durable=True)
    assert synced == [tmp_path / "new", root]


def test_a_folder_that_need_not_survive_a_power_cut_is_made_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(posix, "sync_directory", synced.append)
    posix.make_folder(tmp_path / "a", root=tmp_path, durable=False)
    assert (synced, (tmp_path / "a").is_dir()) == ([], True)
