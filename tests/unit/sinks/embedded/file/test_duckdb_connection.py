"""A DuckDB file is opened once, with its lock, and is the only database that a statement can mean."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from directkafka.sinks.embedded.file.duckdb_connection import connect, opened, said

_CLOSED_WITHOUT_WRITING = 0x10  # IN_CLOSE_NOWRITE of inotify(7)
_OPENED = 0x20  # IN_OPEN


@pytest.fixture
def inotify() -> Iterator[int]:
    descriptor = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def watch(inotify: int, path: Path) -> None:
    mask = _OPENED | _CLOSED_WITHOUT_WRITING
    assert ctypes.CDLL(None, use_errno=True).inotify_add_watch(inotify, os.fsencode(path), mask) >= 0


def events(inotify: int) -> list[int]:
    found, data = [], b""
    with suppress(BlockingIOError):
        data = os.read(inotify, 65_536)
    while data:
        _, mask, _, name_length = struct.unpack_from("iIII", data)
        found.append(mask)
        data = data[16 + name_length :]
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_file_is_not_looked_into_before_its_lock_is_held(inotify: int, tmp_path: Path) -> None:
    path = tmp_path / "flights.duckdb"
    duckdb.connect(str(path)).close()
    watch(inotify, path)
    with closing(connect(str(path), lock_timeout_s=1.0)) as connection:
        connection.execute("CREATE TABLE flights (id BIGINT)")
        assert events(inotify) == [_OPENED]


@pytest.mark.parametrize("stem", ["memory", "temp", "main", "system", 'it\'s "quoted"', "a.b"])
def test_a_file_may_have_any_name(stem: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"{stem}.duckdb")
    for rows in (1, 2):
        with closing(connect(path, lock_timeout_s=1.0)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS flights (id BIGINT)")
            connection.execute("INSERT INTO flights VALUES (1)")
            assert connection.execute("SELECT count(*) FROM flights").fetchall() == [(rows,)]


def test_a_table_in_memory_cannot_be_meant(tmp_path: Path) -> None:
    with (
        closing(connect(str(tmp_path / "flights.duckdb"), lock_timeout_s=1.0)) as connection,
        pytest.raises(duckdb.Error, match="memory"),
    ):
        connection.execute("CREATE TABLE memory.flights (id BIGINT)")


def test_a_file_that_the_process_has_open_is_shared_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "flights.duckdb")
    with closing(duckdb.connect(path)) as own:
        own.execute("CREATE TABLE flights (id BIGINT)")
        with pytest.raises(duckdb.Error, match="Unique file handle conflict"):
            connect(path, lock_timeout_s=0.0)
        with closing(connect(path, lock_timeout_s=1.0, may_share=True)) as shared:
            assert shared.execute("SELECT count(*) FROM flights").fetchall() == [(0,)]


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
        found = connection.execute(statement).fetchall()
    return int(found[0][0])


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
    found = [row_groups(path)]
    for _ in range(12):
        append(path, 1_000)
        found.append(row_groups(path))
    assert found[0] == 40
    assert all(1 <= before - after <= 4 for before, after in pairwise(found[:6])), found
    assert found[-1] <= 30, found


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ('Cannot open file "/mnt/disk1/x.duckdb": Permission denied', "access"),
        ('Could not write file "/mnt/disk1/x.duckdb": No space left on device', "unavailable"),
        ('Could not write file "/x.duckdb": disk full', "unavailable"),
    ],
)
def test_a_path_says_nothing_of_what_went_wrong(text: str, error_class: str) -> None:
    found = said(duckdb.IOException(text))
    assert found is not None
    assert found.error_class == error_class
