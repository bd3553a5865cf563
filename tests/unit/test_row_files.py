"""Rows in files: read as they were written, as often as wanted, and gone with the reports."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from directkafka import row_files
from directkafka.errors import RowFileError
from directkafka.row_files import (
    BatchesOfFile,
    EncodedOfFile,
    RowFolder,
    give_up_files,
    new_row_folder,
    write_batches,
    write_encoded,
)

BATCHES = [pa.record_batch({"id": range(start, start + 100)}) for start in (0, 100)]


def test_pieces_are_read_as_they_were_written_as_often_as_wanted(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    pieces = EncodedOfFile(write_encoded(folder.path, [b"one", b"", b"three"]), folder)
    assert [list(pieces), list(pieces), len(pieces)] == [[b"one", b"", b"three"]] * 2 + [3]
    assert b"one" in pieces
    assert b"two" not in pieces


def test_batches_are_read_as_they_were_written_as_often_as_wanted(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    batches = BatchesOfFile(write_batches(folder.path, BATCHES), folder)
    assert [list(batches), list(batches), len(batches)] == [BATCHES, BATCHES, 2]
    assert BATCHES[1] in batches
    assert BATCHES[1].slice(1) not in batches


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    assert stat.S_IMODE(RowFolder(tmp_path).path.stat().st_mode) == stat.S_IRWXU


def test_the_folder_goes_with_the_last_report_and_with_what_lost_tasks_have_left_there(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    reports = [BatchesOfFile(write_batches(folder.path, BATCHES), folder) for _ in range(2)]
    write_encoded(folder.path, [b"of a task that was lost"])
    del folder
    reports.pop()
    gc.collect()
    assert len(list(tmp_path.glob("*/*"))) == 3
    rows = next(iter(reports.pop()))
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    # What was read of it can be used all the same.
    assert rows == BATCHES[0]


def test_another_process_reads_the_file_and_does_not_take_it_away(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    sent = pickle.dumps(
        [
            BatchesOfFile(write_batches(folder.path, BATCHES), folder),
            EncodedOfFile(write_encoded(folder.path, [b"one"]), folder),
        ]
    )
    assert b"RowFolder" not in sent
    program = "import pickle, sys; print(*(len(list(each)) for each in pickle.load(sys.stdin.buffer)))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True)
        assert done.stdout.split() == [b"2", b"1"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_child_that_the_driver_has_forked_does_not_take_the_folder_away(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    child = os.fork()
    if not child:
        del folder
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert folder.path.is_dir()


def test_a_file_that_is_not_written_to_its_end_is_not_left(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_encoded(tmp_path, [b"one", None])  # type: ignore[list-item]
    with pytest.raises(pa.ArrowInvalid):
        write_batches(tmp_path, [BATCHES[0], BATCHES[0].rename_columns(["other"])])
    assert list(tmp_path.iterdir()) == []


def test_a_late_task_finds_no_folder_and_leaves_nothing(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    folder.remove()
    with pytest.raises(FileNotFoundError):
        write_encoded(folder.path, [b"one"])
    with pytest.raises(FileNotFoundError):
        write_batches(folder.path, BATCHES)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_is_cut_between_two_batches_is_not_taken_for_whole(tmp_path: Path) -> None:
    file = replace(write_batches(tmp_path, BATCHES[:1]), batch_count=2)
    with pytest.raises(RowFileError, match="1 batches of 2"):
        list(BatchesOfFile(file))


def test_files_are_given_up_once_with_the_reason_and_where_there_is_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(row_files, "_given_up", threading.Event())
    monkeypatch.setattr(row_files, "_FREE_BYTES_MIN", 2**62)
    assert new_row_folder(tmp_path) is None
    monkeypatch.setattr(row_files, "_FREE_BYTES_MIN", 0)
    assert isinstance(new_row_folder(tmp_path), RowFolder)
    assert new_row_folder(tmp_path / "gone") is None
    with caplog.at_level(logging.WARNING):
        for name in ("first", "second"):
            give_up_files(RowFileError(path=name, cause="it is gone"))
    (warning,) = caplog.records
    assert "the file first, which has rows of a task, cannot be read: it is gone." in warning.getMessage()
    assert new_row_folder(tmp_path) is None


@pytest.mark.parametrize("kept", [None, 4])
def test_a_file_that_somebody_has_removed_or_cut_is_told_with_its_path(tmp_path: Path, kept: int | None) -> None:
    """So the batch is done again."""
    pieces, batches = write_encoded(tmp_path, [b"one", b"three"]), write_batches(tmp_path, BATCHES)
    for file in (pieces, batches):
        if kept is None:
            Path(file.path).unlink()
        else:
            os.truncate(file.path, kept)
    with pytest.raises(RowFileError, match=rf"{pieces.path}, which has rows of a task, cannot be read"):
        list(EncodedOfFile(pieces))
    with pytest.raises(RowFileError, match=rf"{batches.path}, which has rows of a task, cannot be read"):
        list(BatchesOfFile(batches))
