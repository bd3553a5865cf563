"""A DuckDB file is opened once, with its lock, and is the only database that a statement can mean."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import pytest

from directkafka.sinks.embedded.file.duckdb_connection import connect

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


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="inotify is Linux's")
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
