"""The process that opens a driver's database files: killed, stopped, left alone by its driver, and outlived by it."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.chaos.file_neighbours import Kind, connect, file_process, open_sink
from tests.processes import suspend

from directkafka.errors import StoreUnavailableError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.embedded.file import client, database_file
from directkafka.sinks.embedded.file.client import RemoteConnection
from directkafka.sinks.embedded.file.connection import DatabaseSaidError
from directkafka.sinks.embedded.file.database_file import DatabaseFile
from directkafka.testing.store_driver import BrokenSink, Job

KINDS: tuple[Kind, ...] = ("sqlite", "duckdb")
PATIENCE_S = 60


class InterruptedSink(BrokenSink):
    """Something happens when its rows are moved and nothing is committed."""

    def __init__(self, inner: Any, happening: Callable[[], object]) -> None:
        super().__init__(inner)
        self._happening = happening

    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        rows: int = self._inner.apply(transaction, batch, reports)
        self._happening()
        return rows


def goes_on(job: Job, sink: Any) -> None:
    """What was interrupted is undone, and the next try lands."""
    assert job.store.read("flights") is None
    job.run((sink, [[(1, 1)]]))
    assert sink.recount().rows == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_whose_process_was_killed_is_undone_and_tried_again(kind: Kind, tmp_path: Path) -> None:
    sink = open_sink(kind, tmp_path / "air", "flights")
    job = Job(sink.store).start()
    with pytest.raises(StoreUnavailableError, match=r"process \d+, which had the file open for this one, has ended"):
        job.run((InterruptedSink(sink, lambda: file_process(os.getpid()).kill()), [[(1, 1)]]))
    goes_on(job, sink)


def test_a_commit_whose_process_was_stopped_ends_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_LOOK_S", 0.1)
    sink = open_sink("sqlite", tmp_path / "air", "flights")
    job = Job(sink.store).start()
    with pytest.raises(StoreUnavailableError, match="has ended"):
        job.run((InterruptedSink(sink, lambda: suspend(file_process(os.getpid()))), [[(1, 1)]]))
    goes_on(job, sink)


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_whose_answer_is_lost_is_looked_up(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = RemoteConnection.commit

    def answer_lost(connection: RemoteConnection) -> None:
        commit(connection)
        file_process(os.getpid()).kill()
        connection.rows("SELECT 1")

    sink = open_sink(kind, tmp_path / "air", "flights")
    job = Job(sink.store).start()
    job.run((sink, [[(1, 1)]]))
    monkeypatch.setattr(RemoteConnection, "commit", answer_lost)
    job.run((sink, [[(2, 1)]]))
    assert job.store.read("flights") == job.last
    assert sink.recount().rows == 2


@pytest.mark.parametrize("kind", ["duckdb", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_a_driver_that_says_nothing_loses_its_transaction_and_is_told(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "_SILENCE_S_MIN", 1.0)
    file = DatabaseFile(kind, tmp_path / "air", lock_timeout_s=2.0)
    silent = file.connect()
    silent.begin()
    silent.rows("CREATE TABLE flights (id BIGINT)")
    with closing(connect(kind, tmp_path / "air", timeout_s=PATIENCE_S)) as application:
        application.execute("CREATE TABLE flights (id BIGINT)")
    with pytest.raises(DatabaseSaidError, match="asked for nothing for 1 s") as caught:
        silent.commit()
    assert isinstance(file.translate(caught.value), StoreUnavailableError)
    silent.close()


class Unreadable:
    """A source that the other process cannot make again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def test_rows_that_cannot_be_read_over_there_are_told(tmp_path: Path) -> None:
    file = DatabaseFile("sqlite", tmp_path / "air", lock_timeout_s=2.0)
    with closing(file.connect()) as connection:
        with pytest.raises(DatabaseSaidError, match="invalid literal for int"):
            connection.fill(("flights",), Unreadable())
        assert connection.rows("SELECT 1") == [(1,)]


def test_a_program_s_own_duckdb_connection_is_named_as_its_own(tmp_path: Path) -> None:
    sink = open_sink("duckdb", tmp_path / "air", "flights", lock_timeout_s=0.1)
    with (
        closing(connect("duckdb", tmp_path / "air")),
        pytest.raises(StoreUnavailableError, match=rf"process {os.getpid()} \(\w+\), this one"),
    ):
        sink.store.fence("flights")
    Job(sink.store).start().run((sink, [[(1, 1)]]))


def test_signals_for_the_whole_group_are_the_driver_s_to_answer(tmp_path: Path) -> None:
    sink = open_sink("sqlite", tmp_path / "air", "flights")
    job = Job(sink.store).start()

    def signalled() -> None:
        for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            file_process(os.getpid()).send_signal(signal_number)

    job.run((InterruptedSink(sink, signalled), [[(1, 1)]]))
    assert sink.recount().rows == 1


DRIVER = """
import os, signal, sys
from directkafka.sinks.embedded.file.database_file import DatabaseFile
file = DatabaseFile("sqlite", sys.argv[1], lock_timeout_s=600.0)
connection = file.connect()
connection.begin()
connection.rows("CREATE TABLE flights (id BIGINT)")
child = os.fork()
if child == 0:
    # It has inherited every socket of its parent's, and a file process of its own for its own files.
    other = DatabaseFile("sqlite", sys.argv[1] + ".other", lock_timeout_s=600.0).connect()
    other.rows("CREATE TABLE flights (id BIGINT)")
    other.close()
    print(os.getpid(), flush=True)
signal.pause()
"""


def test_the_process_ends_with_its_driver_though_a_forked_child_of_that_lives_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "air")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
        try:
            assert driver.stdout is not None
            child = psutil.Process(int(driver.stdout.readline()))
            files, its_files = file_process(driver.pid), file_process(child.pid)
            driver.kill()
            files.wait(PATIENCE_S)
            with closing(sqlite3.connect(tmp_path / "air", timeout=0.0)) as connection:
                connection.execute("CREATE TABLE flights (id BIGINT)")
            child.kill()
            deadline = time.monotonic() + PATIENCE_S
            while its_files.is_running() and its_files.status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < deadline
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
    with closing(sqlite3.connect(tmp_path / "air.other")) as connection:
        assert connection.execute("SELECT count(*) FROM flights").fetchall() == [(0,)]


def test_it_starts_whatever_else_stands_on_the_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_process", client._FileProcess())
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path, b"bytes", None])
    with closing(DatabaseFile("sqlite", tmp_path / "air", lock_timeout_s=2.0).connect()) as connection:
        assert connection.rows("SELECT 1") == [(1,)]
    client._process.end()


def test_a_killed_process_is_noticed_though_a_forked_child_keeps_its_end_of_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that another thread forks while the socket is handed over has a copy, and no end of it is ever seen."""
    copies: list[int] = []
    hand_over = client._FileProcess._hand_over

    def copied(process: client._FileProcess, theirs: socket.socket) -> Any:
        copies.append(os.dup(theirs.fileno()))
        return hand_over(process, theirs)

    monkeypatch.setattr(client._FileProcess, "_hand_over", copied)
    monkeypatch.setattr(client, "_LOOK_S", 0.1)
    file = DatabaseFile("sqlite", tmp_path / "air", lock_timeout_s=2.0)
    with ThreadPoolExecutor() as pool:
        connection = file.connect()
        endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        answer = pool.submit(connection.rows, endless)
        file_process(os.getpid()).kill()
        try:
            with pytest.raises(DatabaseSaidError, match=r"process \d+, .* has ended"):
                answer.result(PATIENCE_S)
        finally:
            for descriptor in copies:
                os.close(descriptor)
    with closing(file.connect()) as again:
        assert again.rows("SELECT 1") == [(1,)]


def test_a_file_that_is_closed_is_let_go_though_a_forked_child_keeps_the_driver_s_end_of_the_socket(
    tmp_path: Path,
) -> None:
    connection = DatabaseFile("sqlite", tmp_path / "air", lock_timeout_s=600.0).connect()
    assert isinstance(connection, RemoteConnection)
    connection.begin()
    connection.rows("CREATE TABLE flights (id BIGINT)")
    copy = os.dup(connection._channel._end.fileno())
    connection._channel.close()
    with closing(sqlite3.connect(tmp_path / "air", timeout=10.0)) as application:
        application.execute("CREATE TABLE flights (id BIGINT)")
    os.close(copy)


def test_a_driver_that_falls_silent_within_a_request_is_told_that_the_other_side_hung_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "_SILENCE_S_MIN", 0.5)
    connection = DatabaseFile("sqlite", tmp_path / "air", lock_timeout_s=0.1).connect()
    assert isinstance(connection, RemoteConnection)
    connection._channel._end.send(b"\0")
    assert connection._channel.wait(PATIENCE_S)
    told = r"process \d+, which had the file open for this one, has closed the connection.* for 0.5 s"
    with pytest.raises(DatabaseSaidError, match=told):
        connection.rows("SELECT 1")
    assert file_process(os.getpid()).is_running()
