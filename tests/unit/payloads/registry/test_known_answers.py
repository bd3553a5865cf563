"""What one process has been told of a registry, and the next one of the same JVM knows."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from directkafka import jvm_files
from directkafka.payloads.registry.known_answers import KnownAnswers


@pytest.fixture(autouse=True)
def _of_a_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(jvm_files, "_jvm", os.getpid)


def a_process(asked: str = "schema http://host") -> KnownAnswers[int, str]:
    return KnownAnswers[int, str](asked, dump=str, load=str)


def test_the_next_process_knows_what_one_has_put() -> None:
    answers = a_process()
    assert answers.get(7) is None
    answers.put(7, "seven\n7")
    assert (answers.get(7), a_process().get(7), a_process().get(8)) == ("seven\n7", "seven\n7", None)


def test_answers_of_another_registry_or_of_another_kind_are_others() -> None:
    a_process().put(7, "seven")
    assert (a_process("schema http://elsewhere").get(7), a_process("GUID http://host").get(7)) == (None, None)


@pytest.mark.parametrize("content", [b"", b'"seven', b"[[]"])
def test_a_file_that_is_not_whole_is_none(content: bytes, tmp_path: Path) -> None:
    a_process().put(7, "seven")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(content)
    assert a_process().get(7) is None


def test_what_is_known_is_not_put_again(tmp_path: Path) -> None:
    answers = a_process()
    answers.put(7, "seven")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.unlink()
    answers.put(7, "other")
    assert answers.get(7) == "seven"
    assert not path.exists()
