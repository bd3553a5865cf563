from __future__ import annotations

from pathlib import Path

import pytest

from directkafka.testing.cache import cache_folder


def test_the_environment_chooses_the_cache_folder_and_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIRECTKAFKA_CACHE", str(tmp_path / "a" / "b"))
    assert cache_folder() == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


def test_a_relative_cache_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIRECTKAFKA_CACHE", "here")
    assert cache_folder() == tmp_path / "here"


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_choice_it_lies_in_the_home_folder(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("DIRECTKAFKA_CACHE", raising=False)
    else:
        monkeypatch.setenv("DIRECTKAFKA_CACHE", value)
    assert cache_folder() == tmp_path / ".cache" / "directkafka"
