"""Tables in files with ways of their own: conflict clauses, triggers, collations, columns named like ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.real.sinks.batches import run
from tests.real.sinks.test_file_sinks import File

from directkafka.errors import RowRejectedError, SchemaMismatchError
from directkafka.testing.store_driver import Job

BOTH_WAYS = pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])
#: The same for rules that the way hardly touches.
EITHER_WAY = pytest.mark.parametrize(
    "inline_bytes_max", [pytest.param(1 << 20, marks=pytest.mark.slow), 0], ids=["inline", "staged"]
)

#: Key and sums by mode.
MODES: dict[str, tuple[list[str] | None, list[str] | None]] = {
    "append": (None, None),
    "replace": (None, None),
    "ignore": (["id"], None),
    "upsert": (["id"], None),
    "merge": (["id"], ["n"]),
}


@pytest.fixture
def sqlite(tmp_path: Path) -> File:
    return File("sqlite", tmp_path / "flights.db")


@pytest.fixture
def duckdb(tmp_path: Path) -> File:
    return File("duckdb", tmp_path / "flights.duckdb")


@pytest.fixture(params=["sqlite", "duckdb"])
def file(request: pytest.FixtureRequest) -> File:
    database_file: File = request.getfixturevalue(request.param)
    return database_file


def job_of(file: File) -> Job:
    return Job(file.sink("some").store).start()


@BOTH_WAYS
@pytest.mark.parametrize("mode", MODES)
def test_rows_that_a_trigger_leaves_out_are_an_error_with_numbers(
    sqlite: File, mode: str, inline_bytes_max: int
) -> None:
    sqlite.execute("CREATE TABLE flights (id integer UNIQUE, n integer)")
    sqlite.execute("CREATE TABLE seen (id integer)")
    sqlite.execute("CREATE TRIGGER no_twos BEFORE INSERT ON flights WHEN new.id = 2 BEGIN SELECT RAISE(IGNORE); END")
    # What triggers write elsewhere is not counted.
    sqlite.execute("CREATE TRIGGER log AFTER INSERT ON flights BEGIN INSERT INTO seen VALUES (new.id); END")
    sink, job = sqlite.sink("flights", mode, *MODES[mode], inline_bytes_max=inline_bytes_max), job_of(sqlite)
    run(job, sink, pa.table({"id": [1], "n": [1]}))
    with pytest.raises(RowRejectedError, match=r"took 2 of 3 rows, a trigger of its own \(log, no_twos\) left out"):
        run(job, sink, pa.table({"id": [4, 2], "n": [1, 1]}), pa.table({"id": [3], "n": [1]}))
    assert sqlite.execute("SELECT id FROM flights") == sqlite.execute("SELECT id FROM seen") == [(1,)]


def test_rows_that_a_trigger_keeps_are_not_replaced_in_part(sqlite: File) -> None:
    sqlite.execute("CREATE TABLE flights (id integer)")
    sqlite.execute("CREATE TRIGGER hold BEFORE DELETE ON flights BEGIN SELECT RAISE(IGNORE); END")
    sink, job = sqlite.sink("flights", "replace"), job_of(sqlite)
    run(job, sink, pa.table({"id": [1]}))
    with pytest.raises(RowRejectedError, match=r"kept 1 rows that were to be replaced .*hold"):
        run(job, sink, pa.table({"id": [2]}))


@EITHER_WAY
@pytest.mark.parametrize("clause", ["IGNORE", "REPLACE"])
@pytest.mark.parametrize("mode", MODES)
def test_the_mode_says_how_rows_meet_whatever_the_table_s_own_clause_says(
    sqlite: File, clause: str, mode: str, inline_bytes_max: int
) -> None:
    sqlite.execute(f"CREATE TABLE flights (id integer UNIQUE ON CONFLICT {clause}, n integer)")
    sink, job = sqlite.sink("flights", mode, *MODES[mode], inline_bytes_max=inline_bytes_max), job_of(sqlite)
    run(job, sink, pa.table({"id": [1, 2], "n": [1, 1]}))
    again = pa.table({"id": [2, 3], "n": [5, 5]})
    if mode == "append":
        with pytest.raises(RowRejectedError, match=r"UNIQUE constraint failed: flights\.id"):
            run(job, sink, again)
    else:
        run(job, sink, again)
    expected = {
        "append": [(1, 1), (2, 1)], "replace": [(2, 5), (3, 5)], "ignore": [(1, 1), (2, 1), (3, 5)],
        "upsert": [(1, 1), (2, 5), (3, 5)], "merge": [(1, 1), (2, 6), (3, 5)],
    }  # fmt: skip
    assert sqlite.execute("SELECT id, n FROM flights ORDER BY id") == expected[mode]


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_virtual_table_counts_its_own_rows(sqlite: File, mode: str) -> None:
    """It writes several rows into tables of its own for each of ours."""
    sqlite.execute("CREATE VIRTUAL TABLE flights USING fts5(gate)")
    sink, job = sqlite.sink("flights", mode), job_of(sqlite)
    for gate in ("A", "B"):
        run(job, sink, pa.table({"gate": [gate, "to all"]}))
    assert sqlite.execute("SELECT count(*) FROM flights WHERE flights MATCH 'all'") == [(2 - (mode == "replace"),)]


def test_a_row_that_another_index_than_the_key_s_refuses_is_an_error(file: File) -> None:
    """Also where the table says that such rows are to be left out."""
    clause = "ON CONFLICT IGNORE" if file.kind == "sqlite" else ""
    file.execute(f"CREATE TABLE flights (id bigint UNIQUE, gate text UNIQUE {clause})")
    sink, job = file.sink("flights", "ignore", ["id"]), job_of(file)
    run(job, sink, pa.table({"id": [1], "gate": ["A"]}))
    with pytest.raises(RowRejectedError, match="gate"):
        run(job, sink, pa.table({"id": [2], "gate": ["A"]}))


# Ignore without a key.


def test_ignore_without_a_key_goes_row_by_row_in_sqlite_and_is_refused_where_that_cannot_be(file: File) -> None:
    """DuckDB leaves out the third row here: it collides with the second, which is not in the table."""
    file.execute("CREATE TABLE flights (id bigint UNIQUE, gate text UNIQUE)")
    sink = file.sink("flights", "ignore")
    if file.kind == "duckdb":
        with pytest.raises(SchemaMismatchError, match=r"several unique indexes.*key = \[\.\.\.\]"):
            sink.check(pa.schema({"id": pa.int64(), "gate": pa.string()}))
        return
    run(job_of(file), sink, pa.table({"id": [1, 1, 2], "gate": ["A", "B", "B"]}))
    assert file.execute("SELECT id, gate FROM flights ORDER BY id") == [(1, "A"), (2, "B")]


def test_of_many_colliding_rows_duckdb_keeps_the_first(duckdb: File) -> None:
    """Enough for several threads, which would keep any of them."""
    count = 400_000
    ids = np.random.default_rng(1).integers(0, count // 3, count)
    run(job_of(duckdb), duckdb.sink("flights", "ignore", ["id"]), pa.table({"id": ids, "n": np.arange(count)}))
    _, first = np.unique(ids, return_index=True)
    assert duckdb.execute("SELECT count(*), sum(n) FROM flights") == [(len(first), first.sum())]


@pytest.mark.parametrize("mode", MODES)
def test_no_row_of_a_large_batch_is_lost_on_its_way(duckdb: File, mode: str) -> None:
    """DuckDB keeps rows by 122,880; a batch's table of that many was seen to be empty within its transaction."""
    count = 125_000
    rows = pa.table({"id": np.arange(count), "n": np.ones(count, np.int64)})
    job, sink = job_of(duckdb), duckdb.sink("flights", mode, *MODES[mode])
    run(job, sink, rows.slice(0, 3))
    run(job, sink, rows)
    expected = {"append": (count + 3, count + 3), "merge": (count, count + 3)}
    assert duckdb.execute("SELECT count(*), sum(n) FROM flights") == [expected.get(mode, (count, count))]


def test_rows_with_a_null_in_the_only_unique_index_do_not_collide(file: File) -> None:
    file.execute("CREATE TABLE flights (id bigint, day bigint, n bigint, UNIQUE (id, day))")
    nothing = pa.array([None, None, None, 4], pa.int64())
    run(job_of(file), file.sink("flights", "ignore"), pa.table({"id": [1, 1, 2, 2], "day": nothing, "n": [1, 2, 3, 4]}))
    assert file.execute("SELECT n FROM flights ORDER BY n") == [(1,), (2,), (3,), (4,)]


def test_ignore_where_nothing_can_collide_keeps_every_row(file: File) -> None:
    run(job_of(file), file.sink("flights", "ignore"), pa.table({"id": [1, 1]}))
    assert file.execute("SELECT id FROM flights") == [(1,), (1,)]


@EITHER_WAY
def test_rows_that_are_all_key_and_equal_are_put_once(file: File, inline_bytes_max: int) -> None:
    """Nothing has to decide between them."""
    sink, job = file.sink("flights", "upsert", ["id", "day"], inline_bytes_max=inline_bytes_max), job_of(file)
    for _ in range(2):
        run(job, sink, pa.table({"id": [1, 1, 2], "day": ["Mon", "Mon", "Tue"]}))
    assert file.execute("SELECT * FROM flights ORDER BY id") == [(1, "Mon"), (2, "Tue")]


# Comparisons.


@EITHER_WAY
def test_rows_of_a_batch_compare_as_those_of_the_table_do(file: File, inline_bytes_max: int) -> None:
    """'B' is behind 'a' without regard to case, and before it by its bytes."""
    gate = 'the "gate"'
    file.execute('CREATE TABLE flights (id bigint UNIQUE, "the ""gate""" text COLLATE NOCASE NOT NULL)')
    sink = file.sink("flights", "upsert", ["id"], order=[gate], inline_bytes_max=inline_bytes_max)
    job = job_of(file)
    run(job, sink, pa.table({"id": [1, 1], gate: ["B", "a"]}))
    assert file.execute("SELECT * FROM flights") == [(1, "B")]
    run(job, sink, pa.table({"id": [1, 1], gate: ["C", "b"]}))
    assert file.execute("SELECT * FROM flights") == [(1, "C")]


def test_keys_that_the_table_takes_for_one_are_one_in_the_batch(sqlite: File) -> None:
    sqlite.execute("CREATE TABLE flights (id text COLLATE NOCASE UNIQUE, n integer)")
    job = job_of(sqlite)
    run(job, sqlite.sink("flights", "merge", ["id"], ["n"]), pa.table({"id": ["a", "A"], "n": [1, 2]}))
    assert sqlite.execute("SELECT lower(id), n FROM flights") == [("a", 3)]
    with pytest.raises(RowRejectedError, match="2 rows of one batch have the key id = "):
        run(job, sqlite.sink("flights", "upsert", ["id"]), pa.table({"id": ["b", "B"], "n": [1, 2]}))


def test_an_enum_s_values_have_the_order_of_their_type(duckdb: File) -> None:
    duckdb.execute("CREATE TYPE size AS ENUM ('small', 'large')")
    duckdb.execute("CREATE TABLE flights (id bigint UNIQUE, size size)")
    run(job_of(duckdb), duckdb.sink("flights", "upsert", ["id"], order=["size"]),
        pa.table({"id": [1, 1], "size": ["small", "large"]}))  # fmt: skip
    assert duckdb.execute("SELECT size FROM flights") == [("large",)]


# Names.


@EITHER_WAY
@pytest.mark.parametrize("mode", MODES)
def test_columns_may_be_named_like_our_own(file: File, mode: str, inline_bytes_max: int) -> None:
    own = ["directkafka_batch", "Directkafka_rank", "held", "coming", "keys", 'k"{0}%s']
    key, add = MODES[mode]
    options: dict[str, Any] = {"order": own} if mode == "upsert" else {}
    sink = file.sink("flights", mode, key, [*add, *own] if add else None, inline_bytes_max=inline_bytes_max, **options)
    job = job_of(file)
    for n in (1, 2):
        run(job, sink, pa.table({"id": [n], "n": [n]} | {name: [n] for name in own}))
    assert file.execute("SELECT * FROM flights ORDER BY id") == [
        (n,) * 8 for n in ((1, 2) if mode != "replace" else (2,))
    ]


def test_a_schema_s_name_ignores_case_in_duckdb(duckdb: File) -> None:
    job = job_of(duckdb)
    for number in (1, 2):
        run(job, duckdb.sink("MAIN.Flights"), pa.table({"n": [number]}))
    assert duckdb.execute("SELECT n FROM main.flights ORDER BY n") == [(1,), (2,)]


@BOTH_WAYS
def test_a_row_that_a_check_of_the_table_refuses_is_told_as_that(file: File, inline_bytes_max: int) -> None:
    """And not as a transaction that has failed, which would be tried again."""
    file.execute("CREATE TABLE flights (id BIGINT, n BIGINT CHECK (n <> 40))")
    with pytest.raises(RowRejectedError, match=r"CHECK constraint failed"):
        run(job_of(file), file.sink("flights", inline_bytes_max=inline_bytes_max), pa.table({"id": [1], "n": [40]}))
