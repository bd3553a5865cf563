"""The numbered log: who gets a slot, what a checkpoint keeps, what a driver that slept meets."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.files import log as log_module
from directkafka.sinks.files import posix
from directkafka.sinks.files.log import LOG_FOLDER, FilesLog
from directkafka.sinks.files.log_state import (
    BatchAdded,
    DataFile,
    Fence,
    LogState,
    TableColumns,
    TableState,
    entry_to_bytes,
)

GROUP = 4
COLUMNS = TableState(format="parquet", schema=pa.schema([("id", pa.int64())]))


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "GROUP", GROUP)


def open_log(folder: Path, *, durable: bool = False) -> FilesLog:
    log = FilesLog(folder, label="directory", durable=durable)
    log.make()
    log.refresh()
    return log


def fence(generation: int, driver: str = "me", pipeline: str = "flights") -> Fence:
    return Fence(pipeline=pipeline, generation=generation, driver=driver)


def batch(number: int) -> BatchAdded:
    entry = LedgerEntry(pipeline="flights", generation=1, lineage="one", batch_id=number, progress=())
    files = {"t": (DataFile(name=f"file-{number}", rows=number, bytes=10),)}
    return BatchAdded(commit_id=f"commit-{number}", entry=entry, files=files)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / LOG_FOLDER).iterdir())


def filled(folder: Path, batches: int, *, tidied: bool = True) -> FilesLog:
    log = open_log(folder)
    log.put(fence(1))
    log.put(TableColumns(table="t", columns=COLUMNS))
    for number in range(batches):
        log.put(batch(number))
        if tidied and log.is_full:
            log.tidy()
    return log


def files(log: FilesLog) -> list[str]:
    return [file.name for file in log.files("t")]


@pytest.mark.parametrize("durable", [False, True])
def test_what_is_put_is_read_by_everyone(tmp_path: Path, durable: bool) -> None:
    log = open_log(tmp_path / "data", durable=durable)
    log.put(fence(1))
    log.put(TableColumns(table="t", columns=COLUMNS))
    log.put(batch(0))
    other = open_log(tmp_path / "data")
    assert other.state == log.state
    assert other.state.next_slot == 3
    assert other.state.tables == {"t": COLUMNS}
    assert other.state.pipelines["flights"].commit_id == "commit-0"
    assert files(other) == ["file-0"]


def test_of_two_that_want_a_slot_one_has_it_and_the_other_reads_it(tmp_path: Path) -> None:
    first, second = open_log(tmp_path), open_log(tmp_path)
    first.put(fence(1, "first"))
    state = second.put(fence(1, "second"))
    assert (state.next_slot, state.pipelines["flights"].driver) == (1, "first")
    assert names(tmp_path) == ["00000000000000000000.json"]


@pytest.mark.parametrize("tidied", [False, True])
def test_checkpoints_keep_state_and_files(tmp_path: Path, tidied: bool) -> None:
    log = filled(tmp_path, 11, tidied=tidied)
    assert files(log) == [f"file-{number}" for number in range(11)]
    fresh = open_log(tmp_path)
    assert fresh.state == log.state
    assert files(fresh) == files(log)


def test_a_start_reads_few_entries_however_long_the_log_is(tmp_path: Path) -> None:
    filled(tmp_path, 100)
    assert len([name for name in names(tmp_path) if name.endswith(".json")]) < 2 * GROUP


def test_a_late_tidying_makes_the_same_checkpoints(tmp_path: Path) -> None:
    filled(tmp_path / "early", 11)
    late = filled(tmp_path / "late", 11, tidied=False)
    late.tidy()
    assert names(tmp_path / "early") == names(tmp_path / "late")
    assert files(open_log(tmp_path / "late")) == files(open_log(tmp_path / "early"))


def test_a_slot_that_was_emptied_does_not_take_a_late_entry_in(tmp_path: Path) -> None:
    """A driver is stopped before it links slot 2; when it goes on, the slot's entry is long removed."""
    sleeper = open_log(tmp_path)
    sleeper.put(fence(1, "sleeper"))
    sleeper.put(TableColumns(table="t", columns=COLUMNS))
    awake = open_log(tmp_path)
    awake.put(fence(2, "awake"))
    for number in range(12):
        awake.put(batch(number))
        awake.tidy()
    done = files(awake)
    assert not (tmp_path / LOG_FOLDER / f"{2:020d}.json").exists()

    state = sleeper.put(batch(99))

    assert state == awake.state
    assert "file-99" not in files(sleeper)
    assert files(open_log(tmp_path)) == done
    # It is there, and in nobody's view; the next tidying takes it away.
    assert (tmp_path / LOG_FOLDER / f"{2:020d}.json").exists()
    awake.tidy()
    assert not (tmp_path / LOG_FOLDER / f"{2:020d}.json").exists()


def test_a_reader_that_slept_does_not_believe_an_emptied_slots_late_entry(tmp_path: Path) -> None:
    """It stands before the last slot of a group; that slot was emptied, and a sleeper's entry lies in it."""
    sleeper = open_log(tmp_path)
    for entry in (fence(1), TableColumns(table="t", columns=COLUMNS), batch(0)):
        sleeper.put(entry)
    reader = open_log(tmp_path)
    assert reader.state.next_slot == GROUP - 1
    awake = open_log(tmp_path)
    for number in range(1, 10):
        awake.put(batch(number))
        awake.tidy()
    sleeper.put(batch(99))
    assert (tmp_path / LOG_FOLDER / f"{GROUP - 1:020d}.json").exists()
    assert reader.refresh() == awake.state
    assert files(reader) == files(awake)


def test_a_log_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = filled(tmp_path / "data", 3)
    (tmp_path / "data").rename(tmp_path / "away")
    assert log.refresh() == LogState()
    open_log(tmp_path / "data").put(fence(7))
    assert log.refresh().pipelines["flights"].generation == 7


def test_temporary_files_go_once_their_slot_is_taken(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)
    taken = posix.prepare_file(tmp_path / LOG_FOLDER / f"{1:020d}.json", b"{}", durable=False)
    next_one = posix.prepare_file(tmp_path / LOG_FOLDER / f"{3:020d}.json", b"{}", durable=False)
    log.tidy()
    assert (taken.exists(), next_one.exists()) == (False, True)


def test_a_temporary_file_that_was_swept_is_a_slot_that_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = open_log(tmp_path), open_log(tmp_path)

    def meanwhile(point: str) -> None:
        if point == "log.entry_written":
            monkeypatch.setattr(log_module, "fault_point", lambda _: None)
            fast.put(fence(1, "fast"))
            fast.tidy()

    monkeypatch.setattr(log_module, "fault_point", meanwhile)
    assert slow.put(fence(1, "slow")).pipelines["flights"].driver == "fast"


def test_a_lost_answer_is_no_lost_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over NFS, a link may be made, its answer lost, and the repeated call be told that the name exists."""
    log = open_log(tmp_path)
    link = os.link

    def twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert log.put(fence(1)).pipelines["flights"].driver == "me"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"format_version": 2, "kind": "new"}', "newer than this program's 1"),
        (b"", "cannot be read"),
        (b'{"format_version": 1, "kind": "other"}', "unknown kind of entry 'other'"),
        (
            entry_to_bytes(batch(7)).replace(b'"format_version":1,"generation"', b'"format_version":9,"generation"'),
            "format version 9 is newer than this program's 1",
        ),
    ],
)
def test_an_entry_that_is_not_understood_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    log = filled(tmp_path, 1)
    (tmp_path / LOG_FOLDER / f"{3:020d}.json").write_bytes(content)
    with pytest.raises(SchemaMismatchError, match=words):
        log.refresh()


def test_tidying_that_fails_waits_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path, 3, tidied=False)
    with monkeypatch.context() as broken:
        broken.setattr(log_module, "link_new", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        log.tidy()
    assert "No space left" in caplog.text
    assert log.is_full
    log.tidy()
    assert not log.is_full
    assert files(open_log(tmp_path)) == ["file-0", "file-1", "file-2"]
