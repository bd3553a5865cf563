"""Modes upsert and replace of the Postgres sink on a real server, beyond what the contract asks."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.real.sinks.batches import problems_of, run

from directkafka.errors import RowRejectedError
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.sinks.write_modes import Mode
from directkafka.testing.store_driver import Job, run_together

pytestmark = pytest.mark.real

BOTH_WAYS = pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])


def flights(connection: psycopg.Connection[Any], columns: str = "*") -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT {columns} FROM flights ORDER BY 1").fetchall()  # type: ignore[arg-type]


@BOTH_WAYS
def test_columns_that_the_dataframe_lacks_are_left_as_they_are(
    database: str, connection: psycopg.Connection[Any], job: Job, inline_bytes_max: int
) -> None:
    connection.execute(
        "CREATE TABLE flights (id bigint UNIQUE, gate text, seen integer NOT NULL DEFAULT 1, "
        "twice bigint GENERATED ALWAYS AS (id * 2) STORED)"
    )
    connection.execute("INSERT INTO flights (id, gate, seen) VALUES (1, 'A', 7)")
    sink = PostgresSink(database, "flights", "upsert", ["id"], inline_bytes_max=inline_bytes_max)
    run(job, sink, pa.table({"id": [1, 2], "gate": ["B", "C"]}))
    assert flights(connection) == [(1, "B", 7, 2), (2, "C", 1, 4)]


@BOTH_WAYS
def test_a_row_that_is_all_key_is_put_once(
    database: str, connection: psycopg.Connection[Any], job: Job, inline_bytes_max: int
) -> None:
    sink = PostgresSink(database, "flights", "upsert", ["id", "day"], inline_bytes_max=inline_bytes_max)
    for _ in range(2):
        run(job, sink, pa.table({"id": [1, 2, 1], "day": ["Mon", None, "Mon"]}))
    assert flights(connection) == [(1, "Mon"), (2, None)]


@BOTH_WAYS
def test_an_order_of_two_columns_is_compared_from_the_left(
    database: str, connection: psycopg.Connection[Any], job: Job, inline_bytes_max: int
) -> None:
    sink = PostgresSink(
        database, "flights", "upsert", ["id"], order=["day", "offset"], inline_bytes_max=inline_bytes_max
    )
    run(job, sink, pa.table({"id": [1, 1, 1], "day": [2, 3, 3], "offset": [9, 1, 2], "gate": ["A", "B", "C"]}))
    assert flights(connection) == [(1, 3, 2, "C")]
    run(job, sink, pa.table({"id": [1], "day": [3], "offset": [1], "gate": ["older"]}))
    assert flights(connection) == [(1, 3, 2, "C")]
    run(job, sink, pa.table({"id": [1], "day": [3], "offset": [2], "gate": ["as old, but later"]}))
    assert flights(connection, "gate") == [("as old, but later",)]
    run(job, sink, pa.table({"id": [1], "day": [4], "offset": [0], "gate": ["newer"]}))
    assert flights(connection, "gate") == [("newer",)]


def test_a_null_in_the_table_s_order_is_older_than_anything(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    connection.execute("CREATE TABLE flights (id bigint UNIQUE, day bigint, gate text)")
    connection.execute("INSERT INTO flights VALUES (1, NULL, 'A')")
    run(job, PostgresSink(database, "flights", "upsert", ["id"], order=["day"]),
        pa.table({"id": [1], "day": [-5], "gate": ["B"]}))  # fmt: skip
    assert flights(connection) == [(1, -5, "B")]


def test_a_double_key_is_named_with_its_values(database: str, connection: psycopg.Connection[Any], job: Job) -> None:
    sink = PostgresSink(database, "flights", "upsert", ['the "id"', "day"])
    rows = pa.table({'the "id"': [1, 2, 2, 2], "day": ["Mon"] * 4, "gate": list("ABCD")})
    with pytest.raises(RowRejectedError) as caught:
        run(job, sink, rows)
    assert """3 rows of one batch have the key the "id" = 2, day = 'Mon'""" in caught.value.detail
    assert "order = [...]" in caught.value.detail
    assert flights(connection) == []


def test_an_upsert_needs_a_unique_index(database: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE flights (id bigint, gate text)")
    told = problems_of(PostgresSink(database, "flights", "upsert", ["id"]), id=pa.int64(), gate=pa.string())
    assert "run CREATE UNIQUE INDEX ON flights (id)" in told


@BOTH_WAYS
@pytest.mark.parametrize("mode", ["ignore", "upsert", "merge"])
def test_pipelines_that_share_keys_wait_for_each_other_and_never_in_a_circle(
    database: str, connection: psycopg.Connection[Any], mode: Mode, inline_bytes_max: int
) -> None:
    """Their rows come in opposite orders, and go in by key."""
    add = ["n"] if mode == "merge" else None
    numbers, batches = list(range(400)), 8

    def write(name: str, order: list[int]) -> None:
        with closing(PostgresStore(database)) as store:
            own = Job(store, pipeline=name).start()
            sink = PostgresSink(database, "flights", mode, ["id"], add, inline_bytes_max=inline_bytes_max)
            for batch in range(batches):
                shift = 400 * batch * (mode == "ignore")
                run(own, sink, pa.table({"id": [number + shift for number in order], "n": order}))

    PostgresSink(database, "flights", mode, ["id"], add).prepare(pa.schema({"id": pa.int64(), "n": pa.int64()}))
    results = run_together(lambda: write("up", numbers), lambda: write("down", numbers[::-1]))
    assert results == [None, None]
    once = sum(numbers)
    expected = {"ignore": (400 * batches, batches * once), "upsert": (400, once), "merge": (400, 2 * batches * once)}
    assert flights(connection, "count(*), sum(n)") == [expected[mode]]


def test_a_reader_sees_the_old_table_or_the_new_one(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    sink = PostgresSink(database, "flights", "replace")
    run(job, sink, pa.table({"id": list(range(1000))}))
    seen, done = set(), threading.Event()

    def look() -> None:
        with psycopg.connect(database, autocommit=True) as own:
            while not done.is_set():
                seen.add(own.execute("SELECT count(*) FROM flights").fetchone())

    thread = threading.Thread(target=look)
    thread.start()
    for size in (10, 1000, 10):
        run(job, sink, pa.table({"id": list(range(size))}))
    done.set()
    thread.join()
    assert seen <= {(1000,), (10,)}
    assert flights(connection, "count(*)") == [(10,)]
