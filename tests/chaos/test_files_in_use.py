"""A driver's lock on a database file holds, whatever else its own process does with the file.

POSIX drops all locks that a process has on a file as soon as any code of the process opens and closes the file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.chaos import file_neighbours
from tests.chaos.file_neighbours import ROWS, Kind, commit, open_sink

from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.testing.store_driver import BrokenSink, Job

KINDS: tuple[Kind, ...] = ("sqlite", "duckdb")


def neighbour(role: str, kind: Kind, path: Path, count: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", file_neighbours.__name__, role, kind, str(path), str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )


def look(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.DatabaseError):
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()


def copy(path: Path) -> None:
    shutil.copyfile(path, path.with_suffix(".copy"))


def open_with_duckdb(path: Path) -> None:
    with suppress(duckdb.Error), duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall()


MEDDLING: tuple[Callable[[Path], None], ...] = (look, copy, open_with_duckdb)


class MeddledSink(BrokenSink):
    """Its rows are moved, and the transaction is open, when somebody else in the process uses the file."""

    def __init__(self, inner: Any, meddle: Callable[[], None]) -> None:
        super().__init__(inner)
        self._meddle = meddle

    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        rows: int = self._inner.apply(transaction, batch, reports)
        self._meddle()
        return rows


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_writes_in_the_middle_of_a_commit_after_the_process_has_used_the_file(
    kind: Kind, tmp_path: Path
) -> None:
    path, outputs = tmp_path / f"flights.{kind}", []
    sink = open_sink(kind, path, "flights")

    def meddle() -> None:
        for use in MEDDLING:
            use(path)
        with neighbour("intruder", kind, path) as intruder:
            outputs.append(intruder.communicate()[0])

    Job(sink.store).start().run((MeddledSink(sink, meddle), [[(1, 1)]]))
    assert outputs == ["locked\n"]
    assert sink.recount().rows == 1


@contextmanager
def used(path: Path) -> Iterator[None]:
    """A thread of this process that does nothing else."""
    enough = threading.Event()

    def use() -> None:
        while not enough.is_set():
            for action in MEDDLING:
                action(path)

    thread = threading.Thread(target=use)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


@pytest.mark.parametrize("batches", [5, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_read_and_copied_all_the_time_has_every_row_of_everybody(
    kind: Kind, batches: int, tmp_path: Path
) -> None:
    path = tmp_path / f"flights.{kind}"
    commit(kind, path, "flights", 1)
    with (
        neighbour("driver", kind, path, batches) as driver,
        neighbour("application", kind, path, batches) as application,
        used(path),
    ):
        commit(kind, path, "flights", batches)
        assert (driver.wait(), application.wait()) == (0, 0)
    with closing(file_neighbours.connect(kind, path)) as connection:
        if kind == "sqlite":
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        counts = {
            table: connection.execute(f"SELECT count(*), count(DISTINCT id), max(id) FROM {table}").fetchone()
            for table in ("flights", "other_flights", "notes")
        }
    rows = batches * ROWS
    everything = (rows, rows, rows - 1)
    assert counts == {"flights": everything, "other_flights": everything, "notes": (batches, batches, batches - 1)}
