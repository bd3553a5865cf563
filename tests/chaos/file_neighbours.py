"""Who else uses a database file while a driver commits into it, in processes of their own.

``driver``: another pipeline, with a table of its own. ``application``: a user's program, with its own connection and
table. ``intruder``: tries once to write, and says whether the file was locked.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import psutil
from tests.processes import arguments_of

if TYPE_CHECKING:
    from directkafka.sinks.embedded.sink import EmbeddedSink

Kind = Literal["sqlite", "duckdb"]

ROWS = 300
LOCK_TIMEOUT_S = 60.0


def file_process(driver: int) -> psutil.Process:
    """The process that opens a driver's files."""
    name = "directkafka.sinks.embedded.file.process"
    (process,) = [child for child in psutil.Process(driver).children() if name in arguments_of(child)]
    return process


def connect(kind: Kind, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> Any:
    """As a user's program would; with DuckDB as the guide tells those who write to a file of ours."""
    if kind == "sqlite":
        return sqlite3.connect(path, timeout=timeout_s, isolation_level=None)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return attached(path)
        except duckdb.IOException:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.005, 0.05))


def attached(path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    try:
        connection.execute(f"ATTACH '{path}' AS file (TYPE duckdb)")
        connection.execute("USE file")
    except BaseException:
        connection.close()
        raise
    return connection


def open_sink(kind: Kind, path: Path, table: str, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> EmbeddedSink:
    # Here, since a program that is no driver starts in a fraction of the time without them.
    from directkafka.sinks.embedded.duckdb import DuckDBSink
    from directkafka.sinks.embedded.sqlite import SQLiteSink

    make = SQLiteSink if kind == "sqlite" else DuckDBSink
    return make(path, table, lock_timeout_s=lock_timeout_s)


def commit(kind: Kind, path: Path, table: str, batches: int) -> None:
    """A driver's life: it owns the pipeline that is called as its table."""
    from directkafka.errors import StoreUnavailableError
    from directkafka.testing.store_driver import Job

    sink = open_sink(kind, path, table)
    job = Job(sink.store, pipeline=table).start()
    for batch in range(batches):
        rows = [(number, batch) for number in range(batch * ROWS, (batch + 1) * ROWS)]
        while job.last is None or job.last.batch_id < batch:
            try:
                job.run((sink, [rows]))
            except StoreUnavailableError:
                job.last = job.store.read(table)


def insert(kind: Kind, path: Path, rows: int) -> None:
    """A program's life: row after row, each a transaction."""
    for row in range(rows):
        with closing(connect(kind, path)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS notes (id BIGINT PRIMARY KEY)")
            connection.execute("INSERT INTO notes VALUES (?)", (row,))


def intrude(kind: Kind, path: Path) -> None:
    try:
        with closing(connect(kind, path, timeout_s=0.0)) as connection:
            connection.execute("CREATE TABLE intruder (id BIGINT)")
    except (sqlite3.OperationalError, duckdb.IOException):
        print("locked")
    else:
        print("written")


def main(role: str, kind: Kind, path: str, count: str) -> None:
    match role:
        case "driver":
            commit(kind, Path(path), "other_flights", int(count))
        case "application":
            insert(kind, Path(path), int(count))
        case "intruder":
            intrude(kind, Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
