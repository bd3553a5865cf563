"""Drivers that write into database files, killed and stopped at every step of their commits.

No Spark and no Kafka: a driver is a process that commits batch after batch through the store and its sink. Crash point
25 of the exactly-once systems' list: killed in the middle of COMMIT, and a file that another process keeps locked.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import duckdb
import pytest
from tests.chaos import store_writer
from tests.chaos.file_neighbours import file_process
from tests.chaos.forked_driver import FENCED, ForkedDriver
from tests.chaos.pipelines import PATIENCE_S
from tests.chaos.store_writer import ROWS, Kind, expected, open_sink
from tests.processes import running, suspend

from directkafka.errors import StoreUnavailableError

UNTIL = 8

#: Once in the first batch, and in a later one.
POINTS = [
    f"{point}@{number}"
    for point in ("commit.begun", "commit.ledger_updated", "commit.rows_moved", "commit.answered", "task.staged")
    for number in (1, 4)
]

#: Where the file is locked by the transaction: from the first statement on; with DuckDB from its opening.
LOCKED = {
    "sqlite": ("commit.ledger_updated", "commit.rows_moved"),
    "duckdb": ("commit.begun", "commit.ledger_updated", "commit.rows_moved"),
}

EVERYWHERE = [(kind, point) for kind in ("sqlite", "duckdb") for point in POINTS]
#: Of DuckDB the quick run has the step at which the two differ most: the rows lie in the file, uncommitted.
QUICK = {"commit.rows_moved@4"}
KILLS = [
    pytest.param(
        kind, point, marks=() if point in QUICK or (kind == "sqlite" and point.endswith("@4")) else pytest.mark.slow
    )
    for kind, point in EVERYWHERE
]
SHUT = [(kind, point) for kind, point in EVERYWHERE if point.partition("@")[0] in LOCKED[kind]]


def writer(kind: Kind, folder: Path, faults: str) -> AbstractContextManager[ForkedDriver]:
    return running(ForkedDriver(store_writer.write, kind, folder, UNTIL, folder=folder, faults=faults))


@contextmanager
def stopped(kind: Kind, folder: Path, point: str) -> Iterator[ForkedDriver]:
    with writer(kind, folder, f"{point}=stop") as driver:
        driver.wait_until_stopped()
        yield driver


def ids(kind: Kind, folder: Path) -> list[int]:
    """What a reader sees; nothing where there is no table."""
    path = folder / f"flights.{kind}"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(str(path))) as connection:
        if not connection.execute("SELECT name FROM sqlite_master WHERE name = 'flights'").fetchall():
            return []
        return sorted(number for (number,) in connection.execute("SELECT id FROM flights").fetchall())


def check_ledger(kind: Kind, folder: Path) -> None:
    """The rows are those of the batches that the ledger says are done."""
    entry = open_sink(kind, folder).store.read("flights")
    assert ids(kind, folder) == expected(range(entry.batch_id + 1) if entry else ())


def check_end(kind: Kind, folder: Path, until: int = UNTIL) -> None:
    assert ids(kind, folder) == expected(range(until + 1))
    check_ledger(kind, folder)
    assert list(folder.glob("*-staging")) == []


@pytest.mark.parametrize(("kind", "point"), KILLS)
def test_a_driver_killed_at_a_step_loses_and_doubles_nothing(kind: Kind, point: str, tmp_path: Path) -> None:
    with writer(kind, tmp_path, f"{point}=kill") as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    check_ledger(kind, tmp_path)
    assert len(ids(kind, tmp_path)) < ROWS * (UNTIL + 1), "the kill came after the end, so it proved nothing"
    store_writer.run(open_sink(kind, tmp_path), UNTIL)
    check_end(kind, tmp_path)


@pytest.mark.slow
def test_a_reader_of_sqlite_sees_whole_batches(tmp_path: Path) -> None:
    """Beside drivers that are killed again and again."""
    enough, problems = threading.Event(), []

    def look() -> None:
        while not enough.is_set():
            numbers = ids("sqlite", tmp_path)
            if numbers != expected(range(len(numbers) // ROWS)):
                problems.append(numbers)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _ in range(3):
            with writer("sqlite", tmp_path, "commit.rows_moved@3=kill") as driver:
                driver.wait()
    finally:
        enough.set()
        reader.join()
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "point"), EVERYWHERE)
def test_a_driver_that_stood_still_lands_nothing_after_a_newer_one(kind: Kind, point: str, tmp_path: Path) -> None:
    """Where the file was locked, the transaction is undone before the newer one has waited for long."""
    with stopped(kind, tmp_path, point) as older:
        newer = open_sink(kind, tmp_path, lock_timeout_s=PATIENCE_S)
        store_writer.run(newer, UNTIL)
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
    assert ids(kind, tmp_path) == expected(range(UNTIL + 1))
    # What it had staged, or still staged when it went on, belongs to nothing and goes with the next driver.
    store_writer.run(open_sink(kind, tmp_path), UNTIL + 1)
    check_end(kind, tmp_path, UNTIL + 1)


@pytest.mark.parametrize(
    ("kind", "point"), [pytest.param(*case, marks=() if case == SHUT[1] else pytest.mark.slow) for case in SHUT]
)
def test_a_newer_driver_is_told_which_process_keeps_the_file(kind: Kind, point: str, tmp_path: Path) -> None:
    """Where the process that opens the files stands still as well. Once both go on, the newer one takes over."""
    with stopped(kind, tmp_path, point) as older:
        files = file_process(older.pid)
        suspend(files)
        with pytest.raises(StoreUnavailableError, match=rf"process {older.pid} \(python.*process {files.pid} \(python"):
            open_sink(kind, tmp_path).store.fence("flights")
        older.go_on()
        files.resume()
        assert older.wait() == 0, older.messages()
    store_writer.run(open_sink(kind, tmp_path), UNTIL)
    check_end(kind, tmp_path)
