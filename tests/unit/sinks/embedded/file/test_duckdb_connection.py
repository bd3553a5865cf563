"""A DuckDB file is opened once, with its lock, and is the only database that a statement can mean."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from directkafka.sinks.embedded.file import duckdb_connection
from directkafka.sinks.embedded.file.duckdb_connection import as_database_error, connect, opened

_CLOSED_WITHOUT_WRITING = 0x10  # IN_CLOSE_NOWRITE of inotify(7)
_CLOSED = 0x08  # IN_CLOSE_WRITE
_OPENED = 0x20  # IN_OPEN


@pytest.fixture
def inotify() -> Iterator[int]:
    descriptor = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def watch(inotify: int, path: Path) -> None:
    mask = _OPENED | _CLOSED | _CLOSED_WITHOUT_WRITING
    assert ctypes.CDLL(None, use_errno=True).inotify_add_watch(inotify, os.fsencode(path), mask) >= 0


def events(inotify: int) -> list[int]:
    masks, data = [], b""
    with suppress(BlockingIOError):
        data = os.read(inotify, 65_536)
    while data:
        _, mask, _, name_length = struct.unpack_from("iIII", data)
        masks.append(mask)
        data = data[16 + name_length :]
    return masks


def rows_by_store(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(opened(str(path), lock_timeout_s=1.0, durable=True)) as file:
        return file.rows(statement)


def rows_by_user(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(connect(str(path), lock_timeout_s=1.0)) as connection:
        return connection.execute(statement).fetchall()


BOTH = pytest.mark.parametrize("rows", [rows_by_store, rows_by_user])
Rows = Callable[[Path, str], list[tuple[object, ...]]]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
@BOTH
def test_a_file_is_not_looked_into_before_its_lock_is_held(rows: Rows, inotify: int, tmp_path: Path) -> None:
    path = tmp_path / "flights.duckdb"
    duckdb.connect(str(path)).close()
    watch(inotify, path)
    rows(path, "SELECT 1")
    assert events(inotify) == [_OPENED, _CLOSED]


@BOTH
@pytest.mark.parametrize(
    "stem", ["memory", "temp", "main", "system", "directkafka_no_file", 'it\'s "quoted"', "a.b", "a_db"]
)
def test_a_file_may_have_any_name(rows: Rows, stem: str, tmp_path: Path) -> None:
    path = tmp_path / f"{stem}.duckdb"
    for count in (1, 2):
        rows(path, "CREATE TABLE IF NOT EXISTS flights (id BIGINT)")
        rows(path, "INSERT INTO flights VALUES (1)")
        assert rows(path, "SELECT count(*) FROM flights") == [(count,)]


@BOTH
def test_a_table_in_memory_cannot_be_meant(rows: Rows, tmp_path: Path) -> None:
    with pytest.raises(duckdb.Error, match="memory"):
        rows(tmp_path / "flights.duckdb", "CREATE TABLE memory.flights (id BIGINT)")


def test_a_file_that_the_process_has_open_is_shared_by_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "flights.duckdb"
    with closing(duckdb.connect(str(path))) as own:
        own.execute("CREATE TABLE flights (id BIGINT)")
        with pytest.raises(duckdb.Error, match="Unique file handle conflict"):
            opened(str(path), lock_timeout_s=0.0, durable=True)
        assert rows_by_user(path, "SELECT count(*) FROM flights") == [(0,)]


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK", "SELECT 1", "SELECT * FROM nowhere"])
def test_a_file_that_is_closed_is_free_and_what_was_not_committed_is_undone(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "flights.duckdb"
    rows_by_store(path, "CREATE TABLE flights (id BIGINT)")
    file = opened(str(path), lock_timeout_s=1.0, durable=True)
    file.begin()
    file.rows("INSERT INTO flights VALUES (1)")
    with suppress(duckdb.Error):
        file.rows(ending)
    file.close()
    file.close()
    program = (
        "import duckdb, sys; print(duckdb.connect(sys.argv[1]).execute('SELECT count(*) FROM flights').fetchall())"
    )
    completed_process = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    assert completed_process.stdout.strip() == ("[(1,)]" if ending == "COMMIT" else "[(0,)]")


def test_nothing_of_a_file_that_was_closed_is_left_for_the_next_one(tmp_path: Path) -> None:
    duckdb_connection._idle.clear()
    with closing(opened(str(tmp_path / "a.duckdb"), lock_timeout_s=1.0, durable=True)) as file:
        before = file.rows("SELECT current_setting('max_vacuum_tasks')")
        file.rows("CREATE TABLE numbers (id BIGINT)")
        file.rows("CREATE TEMPORARY TABLE coming (id BIGINT)")
        file.begin()
        file.fill(["numbers"], Numbers(10, _ID))
        file.commit()
        assert file.rows("SELECT current_setting('max_vacuum_tasks')") != before
    (instance,) = duckdb_connection._idle
    with closing(opened(str(tmp_path / "b.duckdb"), lock_timeout_s=1.0, durable=True)) as file:
        assert duckdb_connection._idle == []
        assert file.rows("SELECT current_setting('max_vacuum_tasks')") == before
        assert file.rows("SELECT table_name FROM duckdb_tables()") == []
        assert file.rows("SELECT database_name FROM duckdb_databases() WHERE path IS NOT NULL") == [("b",)]
    assert duckdb_connection._idle == [instance]


def test_a_file_that_another_process_lets_go_is_opened_with_what_that_has_written(tmp_path: Path) -> None:
    path = tmp_path / "flights.duckdb"
    duckdb_connection._idle.clear()
    rows_by_store(path, "CREATE TABLE flights (id BIGINT)")
    (instance,) = duckdb_connection._idle
    program = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); c.execute('INSERT INTO flights VALUES (1)'); "
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(duckdb.Error, match="lock"):
            opened(str(path), lock_timeout_s=0.0, durable=True)
        ending = threading.Timer(0.2, other.stdin.close)
        ending.start()
        file = opened(str(path), lock_timeout_s=60.0, durable=True)
        with closing(file):
            assert file.rows("SELECT id FROM flights") == [(1,)]
            file.rows("INSERT INTO flights VALUES (2)")
        ending.join()
    assert instance not in duckdb_connection._idle, "the one that did not get the file"
    assert rows_by_user(path, "SELECT id FROM flights ORDER BY id") == [(1,), (2,)]


def test_few_instances_are_kept_and_none_that_has_held_many_rows(tmp_path: Path) -> None:
    duckdb_connection._idle.clear()
    files = [opened(str(tmp_path / f"{number}.duckdb"), lock_timeout_s=1.0, durable=True) for number in range(5)]
    for file in files:
        file.close()
    assert len(duckdb_connection._idle) == 2
    duckdb_connection._idle.clear()
    append(tmp_path / "many.duckdb", 122_880)
    assert duckdb_connection._idle == []


def test_an_instance_in_which_something_has_failed_is_not_used_again(tmp_path: Path) -> None:
    duckdb_connection._idle.clear()
    with pytest.raises(duckdb.Error, match="nowhere"):
        rows_by_store(tmp_path / "flights.duckdb", "SELECT * FROM nowhere")
    assert duckdb_connection._idle == []


_ID = pa.schema([("id", pa.int64())])


@dataclass(frozen=True)
class Numbers:
    """So many rows."""

    count: int
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(range(self.count))], schema=self.schema)


def append(path: Path, count: int, *, also: str = "SELECT 1", others: int = 0) -> None:
    with closing(opened(str(path), lock_timeout_s=1.0, durable=True)) as file:
        for table in ("numbers", "others"):
            file.rows(f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT)")
        file.begin()
        assert file.fill(["numbers"], Numbers(count, _ID)) == count
        if others:
            assert file.fill(["others"], Numbers(others, _ID)) == others
        if also.startswith("INSERT"):
            assert file.insert(also) == 1
        else:
            file.rows(also)
        file.commit()


def row_groups(path: Path, table: str = "numbers") -> int:
    with duckdb.connect(path, read_only=True) as connection:
        statement = f"SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('{table}')"
        rows = connection.execute(statement).fetchall()
    return int(rows[0][0])


def test_whole_row_groups_are_not_written_again_for_a_small_one_behind_them(tmp_path: Path) -> None:
    path = tmp_path / "numbers.duckdb"
    for _ in range(3):
        append(path, 130_000)
    assert row_groups(path) == 6
    with duckdb.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchall() == [(390_000,)]


@pytest.mark.parametrize("also", ["INSERT INTO numbers SELECT 1", "DELETE FROM numbers WHERE id % 2 = 0"])
def test_a_commit_that_may_have_replaced_rows_merges_as_duckdb_does(also: str, tmp_path: Path) -> None:
    path = tmp_path / "numbers.duckdb"
    for _ in range(3):
        append(path, 130_000, also=also)
    assert row_groups(path) < 6


def test_a_small_table_beside_a_large_one_does_not_get_a_row_group_with_each_commit(tmp_path: Path) -> None:
    path = tmp_path / "numbers.duckdb"
    for _ in range(20):
        append(path, 123_000, others=10)
    assert row_groups(path, "others") < 5


def test_small_appends_do_not_make_a_row_group_each(tmp_path: Path) -> None:
    path = tmp_path / "numbers.duckdb"
    for _ in range(40):
        append(path, 1_000)
    assert row_groups(path) < 10


def test_what_many_rows_have_left_is_merged_with_small_appends_a_few_groups_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "numbers.duckdb"
    for _ in range(20):
        append(path, 130_000)
    group_counts = [row_groups(path)]
    for _ in range(12):
        append(path, 1_000)
        group_counts.append(row_groups(path))
    assert group_counts[0] == 40
    assert all(1 <= before - after <= 4 for before, after in pairwise(group_counts[:6])), group_counts
    assert group_counts[-1] <= 30, group_counts


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ('Cannot open file "/mnt/disk1/x.duckdb": Permission denied', "access"),
        ('Could not write file "/mnt/disk1/x.duckdb": No space left on device', "unavailable"),
        ('Could not write file "/x.duckdb": disk full', "unavailable"),
    ],
)
def test_a_path_says_nothing_of_what_went_wrong(text: str, error_class: str) -> None:
    error = as_database_error(duckdb.IOException(text))
    assert error is not None
    assert error.error_class == error_class
