"""What a direct stream's checkpoint holds beside its ranges: which program made it."""

from __future__ import annotations

import logging
import pickle
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from directkafka.errors import EnvironmentFaultError
from directkafka.offsets import OffsetRange
from directkafka.spark.dstream.state import Program, StreamState, tick_folder


def running(monkeypatch: pytest.MonkeyPatch, file: str | None) -> Program:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=file))  # type: ignore[arg-type]
    return Program.running()


def test_a_program_that_has_changed_is_told_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "job.py"
    file.write_text("print(1)")
    before = running(monkeypatch, str(file))
    with caplog.at_level(logging.WARNING, "directkafka"):
        before.warn_if_changed()
        assert caplog.messages == []
        file.write_text("print(2)")
        before.warn_if_changed()
    [message] = caplog.messages
    assert f"another version of the program made ({file}, {before.digest[:8]}; now {file}, " in message
    assert "start without the checkpoint" in message


@pytest.mark.parametrize("file", [None, "/no/such/file.py"], ids=["a notebook", "a file that is gone"])
def test_a_program_without_a_file_is_the_same_as_itself(
    file: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = running(monkeypatch, file)
    assert program.path == ""
    with caplog.at_level(logging.WARNING, "directkafka"):
        program.warn_if_changed()
    assert caplog.messages == []


def test_a_notebook_s_checkpoint_under_a_program_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notebook = running(monkeypatch, None)
    file = tmp_path / "job.py"
    file.write_text("print(1)")
    running(monkeypatch, str(file))
    with caplog.at_level(logging.WARNING, "directkafka"):
        notebook.warn_if_changed()
    assert "made (no file, " in caplog.text


def test_older_batches_are_forgotten() -> None:
    state = StreamState(ranges={ms: (OffsetRange("t", 0, ms, ms + 1),) for ms in (1_000, 2_000, 3_000)})
    pickle.dumps(state)
    state.forget(2_000)
    assert set(state.ranges) == {2_000, 3_000}
    state.ranges[4_000] = ()
    copy = pickle.loads(pickle.dumps(state))
    assert copy == state
    assert copy.forgotten_ms == 2_000
    assert pickle.loads(pickle.dumps(copy)) == state


def test_the_folder_of_ticks_is_there_and_empty() -> None:
    assert list(tick_folder().iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o722])
def test_a_folder_of_ticks_that_others_may_write_to_is_refused(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tick_folder().chmod(mode)
    with pytest.raises(EnvironmentFaultError, match="not this user's alone: other users may write to"):
        tick_folder()


def test_a_link_in_place_of_the_folder_of_ticks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tick_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(EnvironmentFaultError, match="is no folder"):
        tick_folder()
