"""Drivers that write files, killed and stopped at every step of their commits; a reader looks on all the while.

No Spark and no Kafka: a driver is a process that commits batch after batch through the store and its sink.
"""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.chaos import store_writer
from tests.chaos.forked_driver import FENCED, ForkedDriver
from tests.chaos.pipelines import PATIENCE_S
from tests.chaos.store_writer import GROUP, ROWS, Kind, expected, open_sink
from tests.processes import running

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.files import log
from directkafka.sinks.files.reader import committed_files

UNTIL = 12

#: Where a driver is met. A fence is the first entry of a life, the columns are the second, batch 0 the third; the
#: passes are chosen so that fence, first batch, last slot of a group and first slot of a group are all met.
POINTS = [
    "task.file_written@5",
    "task.staged@6",
    "commit.begun@3",
    "commit.rows_moved@3",
    "log.entry_written@1",
    "log.entry_written@3",
    "log.slot_taken@1",
    "log.slot_taken@4",
    "log.slot_taken@5",
    "commit.answered@3",
]
FILES_ONLY = ["log.entry_written@2", "log.slot_taken@2", "log.checkpoint_written@1", "log.checkpoint_put@2"]

EVERYWHERE = [("files", point) for point in [*POINTS, *FILES_ONLY]]
EVERYWHERE += [(kind, point) for kind in ("delta", "delta-merge") for point in POINTS]

#: A second place where a point is passed, which the long run is for. So is what tasks and the template do for both,
#: of the template what is in ``test_engine_steps.py``, and of a merge all but the moment when its version has got its
#: place.
SECOND = {"log.entry_written@1", "log.entry_written@2", "log.slot_taken@1", "log.slot_taken@2", "log.slot_taken@5"}
SECOND |= {"commit.begun@3", "commit.rows_moved@3", "commit.answered@3"}

SHARED = {(kind, point) for kind in ("delta", "delta-merge") for point in POINTS if not point.startswith("log.")}
SHARED |= {("delta-merge", point) for point in POINTS if point.startswith("log.entry_written")}

#: Where standing still is worst: the entry is written and has no place yet.
WORST = {("files", "log.entry_written@3"), ("delta", "log.entry_written@3")}

ONCE_A_STEP = [
    pytest.param(kind, point, marks=pytest.mark.slow if point in SECOND or (kind, point) in SHARED else ())
    for kind, point in EVERYWHERE
]
AT_THE_WORST = [
    pytest.param(kind, point, marks=() if (kind, point) in WORST else pytest.mark.slow) for kind, point in EVERYWHERE
]


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "GROUP", GROUP)


def writer(kind: Kind, folder: Path, faults: str) -> AbstractContextManager[ForkedDriver]:
    return running(ForkedDriver(store_writer.write, kind, folder, UNTIL, folder=folder.parent, faults=faults))


def ids(kind: Kind, folder: Path) -> list[int]:
    """What a reader sees; nothing where there is no table."""
    if kind.startswith("delta"):
        if not DeltaTable.is_deltatable(str(folder)):
            return []
        rows = DeltaTable(folder).to_pyarrow_table()
        if kind == "delta":
            return sorted(rows.column("id").to_pylist())
        # A batch that was merged twice would show in the sums: the batch's number, added to the row of each of its ids.
        return sorted(row["id"] if row["flights"] == row["id"] // ROWS else -1 for row in rows.to_pylist())
    try:
        return sorted(committed_files(folder).dataset().to_table().column("id").to_pylist())
    except SchemaMismatchError:
        return []


def check_whole(numbers: list[int]) -> None:
    """Whole batches, each once, from the first on."""
    assert numbers == expected(range(len(numbers) // ROWS))


def check_ledger(kind: Kind, folder: Path) -> None:
    """The rows are those of the batches that the ledger says are done."""
    entry = open_sink(kind, folder).store.read("flights")
    assert ids(kind, folder) == expected(range(entry.batch_id + 1) if entry else ())


def leftovers(kind: Kind, folder: Path) -> set[str]:
    """Files of rows that do not belong to the table, and temporary files."""
    if kind.startswith("delta"):
        listed = {uri.rpartition("/")[2] for uri in DeltaTable(folder).file_uris()}
    else:
        listed = {path.name for path in committed_files(folder).paths}
    there = {path.name for path in folder.rglob("*") if path.name.lstrip(".").startswith("part-")}
    return (there - listed) | {path.name for path in folder.rglob(".*.tmp")}


def forget_history(folder: Path) -> None:
    """What a merge takes out of a table stays until somebody asks for VACUUM, for readers of older versions."""
    DeltaTable(folder).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)


#: Between two looks of a reader: without a pause it would take a core for itself.
_PAUSE_S = 0.02


class Watcher:
    """A reader that looks at the table again and again, from before the first batch on."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self._enough = threading.Event()
        self.looks = 0
        self.problem = ""
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        before = 0
        try:
            while not self._enough.wait(_PAUSE_S):
                numbers = ids(self._kind, self._folder)
                check_whole(numbers)
                assert len(numbers) >= before, "rows that were committed are gone"
                before = len(numbers)
                self.looks += 1
        except Exception as error:  # noqa: BLE001 - told by the test
            self.problem = repr(error)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._enough.set()
        self._thread.join(PATIENCE_S)


@pytest.mark.parametrize(("kind", "point"), ONCE_A_STEP)
def test_a_driver_killed_at_a_step_loses_and_doubles_nothing(kind: Kind, point: str, tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    with Watcher(kind, folder) as watcher:
        with writer(kind, folder, f"{point}=kill") as driver:
            assert driver.wait() == -signal.SIGKILL, driver.messages()
        check_ledger(kind, folder)
        assert len(ids(kind, folder)) < ROWS * (UNTIL + 1), "the kill came after the end, so it proved nothing"
        store_writer.run(open_sink(kind, folder), UNTIL)
    assert (watcher.problem, ids(kind, folder)) == ("", expected(range(UNTIL + 1)))
    assert watcher.looks > 0
    check_ledger(kind, folder)
    if kind == "delta-merge":
        forget_history(folder)
    assert leftovers(kind, folder) == set()


@pytest.mark.parametrize(("kind", "point"), AT_THE_WORST)
def test_a_driver_that_stood_still_lands_nothing_after_a_newer_one(kind: Kind, point: str, tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    with writer(kind, folder, f"{point}=stop") as older:
        older.wait_until_stopped()
        store_writer.run(open_sink(kind, folder), UNTIL)
        done = ids(kind, folder)
        assert done == expected(range(UNTIL + 1))
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
    assert ids(kind, folder) == done
    check_ledger(kind, folder)
    # Whatever it still wrote when it went on belongs to nothing, and goes with the next fence, or with VACUUM.
    store_writer.run(open_sink(kind, folder), UNTIL + 1)
    if kind.startswith("delta"):
        forget_history(folder)
    check_ledger(kind, folder)
    assert leftovers(kind, folder) == set()
