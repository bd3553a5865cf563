"""The SQLite and DuckDB sinks on real files: types, tables that are there, keys, locks, crashes."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.real.sinks.batches import problems_of, run

from directkafka.errors import (
    OptionError,
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreUnavailableError,
)
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sink import EmbeddedSink
from directkafka.sinks.embedded.sqlite import SQLiteSink
from directkafka.testing.store_driver import Job

KINDS: dict[str, tuple[type[Any], Callable[[str], Any]]] = {
    "sqlite": (SQLiteSink, sqlite3.connect),
    "duckdb": (DuckDBSink, duckdb.connect),
}

INSTANT = datetime(2013, 1, 1, 5, 0, 0, 250, tzinfo=UTC)
LOCAL = datetime(1999, 12, 31, 23, 59, 59, 999999)

#: Arrow's values and type, what SQLite has, what DuckDB has.
ALL_TYPES: dict[str, tuple[pa.Array, list[Any], list[Any]]] = {
    "i8": (pa.array([1, None], pa.int8()), [1, None], [1, None]),
    "i64": (pa.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    "f32": (pa.array([0.5, None], pa.float32()), [0.5, None], [0.5, None]),
    "f64": (pa.array([0.1, float("inf")]), [0.1, float("inf")], [0.1, float("inf")]),
    "flag": (pa.array([True, None]), [1, None], [True, None]),
    "word": (pa.array(["Zürich \U0001f6eb\0", None]), ["Zürich \U0001f6eb\0", None], ["Zürich \U0001f6eb\0", None]),
    "code": (pa.array(["AA", None]).dictionary_encode(), ["AA", None], ["AA", None]),
    "raw": (pa.array([b"\x00\xff", b""]), [b"\x00\xff", b""], [b"\x00\xff", b""]),
    "fare": (
        pa.array([Decimal("-12345678901234567.89"), None], pa.decimal128(20, 2)),
        ["-12345678901234567.89", None],
        [Decimal("-12345678901234567.89"), None],
    ),
    "day": (pa.array([date(1969, 12, 31), None]), ["1969-12-31", None], [date(1969, 12, 31), None]),
    "instant": (
        pa.array([INSTANT, None], pa.timestamp("us", "UTC")),
        ["2013-01-01 05:00:00.000250+00:00", None],
        [INSTANT, None],
    ),
    "local": (pa.array([LOCAL, None], pa.timestamp("us")), ["1999-12-31 23:59:59.999999", None], [LOCAL, None]),
}


class File:
    """A database file of one kind."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind = kind
        self.path = path
        self._sink, self._connect = KINDS[kind]

    def sink(self, table: str, *arguments: Any, **options: Any) -> EmbeddedSink:
        sink: EmbeddedSink = self._sink(self.path, table, *arguments, **options)
        return sink

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        connection = self._connect(str(self.path))
        try:
            rows = [tuple(row) for row in connection.execute(statement).fetchall()]
            if self.kind == "sqlite":
                connection.commit()
            return rows
        finally:
            connection.close()


@pytest.fixture(params=list(KINDS))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> File:
    return File(request.param, tmp_path / f"flights.{request.param}")


@pytest.fixture
def job(file: File) -> Iterator[Job]:
    job = Job(file.sink("some").store).start()
    yield job
    job.store.close()


BOTH_WAYS = pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])


@BOTH_WAYS
@pytest.mark.parametrize("mode", ["append", "ignore"], ids=["straight", "through the batch's own table"])
def test_a_table_is_made_from_the_schema_and_every_type_comes_back(
    file: File, job: Job, mode: str, inline_bytes_max: int
) -> None:
    table = pa.table({name: array for name, (array, _, _) in ALL_TYPES.items()})
    run(job, file.sink("flights", mode, inline_bytes_max=inline_bytes_max), table)
    which = 1 if file.kind == "sqlite" else 2
    expected = {name: kinds[which] for name, kinds in ALL_TYPES.items()}
    if file.kind == "duckdb":
        rows = file.execute("SELECT * REPLACE (epoch_us(instant) AS instant) FROM flights")
        expected["instant"] = [int(INSTANT.timestamp()) * 10**6 + INSTANT.microsecond, None]
    else:
        rows = file.execute("SELECT * FROM flights")
    assert [list(column) for column in zip(*rows, strict=True)] == list(expected.values())


def test_duckdb_keeps_nested_types(tmp_path: Path) -> None:
    file = File("duckdb", tmp_path / "flights.duckdb")
    job = Job(file.sink("some").store).start()
    legs = pa.array([[{"to": "EWR", "miles": [1, 2]}], None])
    tags = pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64()))
    run(job, file.sink("flights"), pa.table({"legs": legs, "tags": tags}))
    assert file.execute("SELECT * FROM flights") == [([{"to": "EWR", "miles": [1, 2]}], {"a": 1}), (None, {})]


def test_duckdb_keeps_nan_and_what_is_no_finite_number(tmp_path: Path) -> None:
    file = File("duckdb", tmp_path / "flights.duckdb")
    odd = [math.nan, math.inf, -math.inf, -0.0, None]
    run(
        Job(file.sink("some").store).start(),
        file.sink("flights"),
        pa.table({"x": odd, "y": pa.array(odd, pa.float32())}),
    )
    assert repr(file.execute("SELECT x, y FROM flights")) == repr([(number, number) for number in odd])


def test_sqlite_has_no_place_for_nested_types_and_says_what_to_do(tmp_path: Path) -> None:
    sink = SQLiteSink(tmp_path / "flights.db", "flights")
    with pytest.raises(SchemaMismatchError, match=r"'tags' of type list<item: int64> has no sqlite type.*to_json"):
        sink.check(pa.schema({"tags": pa.list_(pa.int64())}))
    assert list(tmp_path.iterdir()) == []


def test_sqlite_refuses_nan_which_it_would_store_as_null(tmp_path: Path) -> None:
    sink = SQLiteSink(tmp_path / "flights.db", "flights")
    with pytest.raises(RowRejectedError, match=r"'delay': NaN.*nanvl"):
        run(Job(sink.store).start(), sink, pa.table({"delay": [1.0, float("nan"), None]}))


def test_a_new_sqlite_table_is_strict(tmp_path: Path) -> None:
    file = File("sqlite", tmp_path / "flights.db")
    run(Job(file.sink("some").store).start(), file.sink("flights"), pa.table({"id": [1]}))
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT value in INTEGER column"):
        file.execute("INSERT INTO flights VALUES ('one')")


def test_all_that_does_not_fit_is_told_at_once(file: File) -> None:
    file.execute("CREATE TABLE flights (small BLOB, fare DECIMAL(6,2), must integer NOT NULL, carrier text)")
    told = problems_of(
        file.sink("flights"),
        small=pa.int32(), fare=pa.decimal128(30, 2), CARRIER=pa.int64(), extra=pa.int8(),
    )  # fmt: skip
    for name in ("small", "fare", "CARRIER"):
        assert f"column '{name}' of type" in told
    assert "'must' is NOT NULL without a default" in told
    assert "no column 'extra'" in told


@BOTH_WAYS
def test_defaults_and_generated_columns_are_the_database_s(file: File, job: Job, inline_bytes_max: int) -> None:
    file.execute(
        "CREATE TABLE flights (n integer, source text NOT NULL DEFAULT 'kafka', twice integer GENERATED ALWAYS AS "
        "(n * 2) VIRTUAL)"
    )
    run(job, file.sink("flights", inline_bytes_max=inline_bytes_max), pa.table({"n": pa.array([7], pa.int32())}))
    assert file.execute("SELECT * FROM flights") == [(7, "kafka", 14)]


def test_a_generated_column_is_refused_before_the_first_row(file: File) -> None:
    file.execute("CREATE TABLE flights (n integer, twice integer GENERATED ALWAYS AS (n * 2) VIRTUAL)")
    told = problems_of(file.sink("flights"), n=pa.int32(), twice=pa.int32())
    assert "generated" in told


@BOTH_WAYS
def test_names_are_quoted_wherever_they_stand(file: File, job: Job, inline_bytes_max: int) -> None:
    sink = file.sink('"Sel{}ect %s""x"', "merge", ['k"ey'], ["a{0}%d"], inline_bytes_max=inline_bytes_max)
    run(job, sink, pa.table({'k"ey': [1, 1], "a{0}%d": [2, 3]}))
    run(job, sink, pa.table({'k"ey': [1], "a{0}%d": [4]}))
    assert file.execute('SELECT * FROM "Sel{}ect %s""x"') == [(1, 9)]


def test_a_duckdb_table_may_lie_in_a_schema(tmp_path: Path) -> None:
    file = File("duckdb", tmp_path / "flights.duckdb")
    file.execute('CREATE SCHEMA "My x"')
    sink = file.sink('"My x".flights', "upsert", ["id"])
    job = Job(sink.store).start()
    for gate in ("A", "B"):
        run(job, sink, pa.table({"id": [1], "gate": [gate]}))
    assert file.execute('SELECT * FROM "My x".flights') == [(1, "B")]
    assert sink.name == "My x.flights"


def test_add_columns_gives_the_table_what_it_lacks(file: File, job: Job) -> None:
    run(job, file.sink("flights"), pa.table({"id": [1]}))
    assert "carrier" in problems_of(file.sink("flights"), id=pa.int64(), carrier=pa.string())
    run(job, file.sink("flights", schema_policy="add-columns"), pa.table({"id": [2], "carrier": ["AA"]}))
    assert file.execute("SELECT * FROM flights ORDER BY id") == [(1, None), (2, "AA")]


# Looking without making.


def test_a_check_makes_neither_file_nor_table(file: File) -> None:
    schema = pa.schema({"id": pa.int64(), "n": pa.int64()})
    file.sink("totals", "merge", ["id"], ["n"]).check(schema)
    assert not file.path.exists()
    file.execute("CREATE TABLE other (id integer)")
    file.sink("totals", "merge", ["id"], ["n"]).check(schema)
    with pytest.raises(SchemaMismatchError, match="'n'"):
        file.sink("other").check(schema)
    assert file.execute("SELECT name FROM sqlite_master") == [("other",)]


def test_a_recount_needs_a_table(file: File) -> None:
    with pytest.raises(SchemaMismatchError, match="no such table"):
        file.sink("flights").recount()
    assert not file.path.exists()


def test_a_recount_finds_records_that_are_there_twice(file: File, job: Job) -> None:
    sink = file.sink("flights")
    run(job, sink, pa.table({"topic": ["t"] * 5, "partition": [0] * 5, "offset": [1, 2, 2, 2, 3]}))
    assert (sink.recount().rows, sink.recount().doubled) == (5, 2)


# Keys.


def test_a_key_needs_a_unique_index_without_a_condition(file: File) -> None:
    file.execute("CREATE TABLE flights (id bigint, flights bigint)")
    schema = {"id": pa.int64(), "flights": pa.int64()}
    if file.kind == "sqlite":
        file.execute("CREATE UNIQUE INDEX some ON flights (id) WHERE id > 0")
        file.execute("CREATE UNIQUE INDEX doubles ON flights (id * 2)")
    file.execute("CREATE UNIQUE INDEX pair ON flights (id, flights)")
    for mode, add in (("ignore", None), ("upsert", None), ("merge", ["flights"])):
        assert "CREATE UNIQUE INDEX" in problems_of(file.sink("flights", mode, ["id"], add), **schema)
    file.execute("CREATE UNIQUE INDEX one ON flights (id)")
    file.sink("flights", "merge", ["id"], ["flights"]).prepare(pa.schema(schema))


@pytest.mark.parametrize("declared", ["id integer PRIMARY KEY, n bigint", "id bigint, n bigint, UNIQUE (id)"])
def test_a_primary_key_is_a_key(file: File, job: Job, declared: str) -> None:
    file.execute(f"CREATE TABLE flights ({declared})")
    rows = pa.table({"id": pa.array([1], pa.int32()), "n": [2]})
    for _ in range(2):
        run(job, file.sink("flights", "merge", ["id"], ["n"]), rows)
    assert file.execute("SELECT * FROM flights") == [(1, 4)]


def test_ignore_without_a_key_minds_every_unique_index_of_sqlite(tmp_path: Path) -> None:
    file = File("sqlite", tmp_path / "flights.db")
    job = Job(file.sink("some").store).start()
    file.execute("CREATE TABLE flights (id bigint PRIMARY KEY, gate text UNIQUE)")
    run(job, file.sink("flights", "ignore"), pa.table({"id": [1, 2], "gate": ["A", "B"]}))
    run(job, file.sink("flights", "ignore"), pa.table({"id": [1, 3, 4], "gate": ["C", "B", "D"]}))
    assert file.execute("SELECT * FROM flights ORDER BY id") == [(1, "A"), (2, "B"), (4, "D")]


def test_replace_works_where_there_is_a_key(file: File, job: Job) -> None:
    file.execute("CREATE TABLE flights (id bigint PRIMARY KEY, n bigint)")
    for n in (1, 2):
        run(job, file.sink("flights", "replace"), pa.table({"id": [1, 2], "n": [n, n]}))
    assert file.execute("SELECT * FROM flights ORDER BY id") == [(1, 2), (2, 2)]


@pytest.mark.parametrize("mode", ["ignore", "upsert", "merge"])
def test_a_null_in_the_key_is_refused(file: File, job: Job, mode: str) -> None:
    add = ["n"] if mode == "merge" else None
    rows = pa.table({"id": pa.array([1, None, None], pa.int64()), "n": [1, 2, 3]})
    with pytest.raises(RowRejectedError, match="2 rows have a null in the key id"):
        run(job, file.sink("flights", mode, ["id"], add), rows)


def test_an_existing_null_in_the_order_is_older_than_anything(file: File, job: Job) -> None:
    file.execute("CREATE TABLE flights (id bigint UNIQUE, day bigint, hour bigint, gate text)")
    file.execute("INSERT INTO flights VALUES (1, NULL, NULL, 'A'), (2, 9, NULL, 'A')")
    run(job, file.sink("flights", "upsert", ["id"], order=["day", "hour"]),
        pa.table({"id": [1, 2], "day": [-5, -5], "hour": [0, 0], "gate": ["B", "B"]}))  # fmt: skip
    assert file.execute("SELECT id, gate FROM flights ORDER BY id") == [(1, "B"), (2, "B")]


def test_a_sum_that_leaves_the_type_is_refused_not_wrapped(file: File, job: Job) -> None:
    file.execute("CREATE TABLE flights (id bigint UNIQUE, n bigint)")
    sink = file.sink("flights", "merge", ["id"], ["n"])
    with pytest.raises(RowRejectedError, match=r"overflow|out of range"):
        run(job, sink, pa.table({"id": [1, 1], "n": [2**62, 2**62]}))
    run(job, sink, pa.table({"id": [1], "n": [2**62]}))
    with pytest.raises(RowRejectedError, match=r"[Oo]verflow|out of range"):
        run(job, sink, pa.table({"id": [1], "n": [2**62]}))
    assert file.execute("SELECT id, n FROM flights") == [(1, 2**62)]


def test_sqlite_neither_orders_nor_adds_decimals_which_it_keeps_as_texts(tmp_path: Path) -> None:
    """'9.50' is behind '10.00' there, and a sum of texts is a floating-point number."""
    fare = {"id": pa.int64(), "fare": pa.decimal128(9, 2)}
    file = File("sqlite", tmp_path / "flights.db")
    file.execute("CREATE TABLE flights (id bigint UNIQUE, fare NUMERIC)")
    for mode, options in (("upsert", {"order": ["fare"]}), ("merge", {"add": ["fare"]})):
        assert "has another order and no sum" in problems_of(file.sink("flights", mode, ["id"], **options), **fare)


def test_sqlite_s_any_is_a_number_outside_of_strict_tables(tmp_path: Path) -> None:
    """'007' would become 7."""
    file = File("sqlite", tmp_path / "flights.db")
    file.execute("CREATE TABLE loose (code ANY)")
    file.execute("CREATE TABLE exact (code ANY) STRICT")
    assert "'code'" in problems_of(file.sink("loose"), code=pa.string())
    run(Job(file.sink("exact").store).start(), file.sink("exact"), pa.table({"code": ["007"]}))
    assert file.execute("SELECT code FROM exact") == [("007",)]


# Files.


def test_one_file_is_one_store_however_it_is_spelt(file: File, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    spelt = KINDS[file.kind][0](tmp_path / "link" / ".." / tmp_path.name / file.path.name, "flights")
    assert spelt.store.identity == file.sink("flights").store.identity
    assert KINDS[file.kind][0](tmp_path / "other", "flights").store.identity != spelt.store.identity


@pytest.mark.parametrize("path", ["", ":memory:", "md:flights", "s3://bucket/flights.db", "file:flights?mode=memory"])
def test_what_is_no_file_is_refused(file: File, path: str) -> None:
    with pytest.raises(OptionError, match=r"expected the path of a file|at least 1 character"):
        KINDS[file.kind][0](path, "flights")


def test_what_is_no_database_is_left_as_it_is(file: File) -> None:
    file.path.write_text("a letter to my aunt, and no database at all\n" * 100)
    before = file.path.read_bytes()
    with pytest.raises(StoreAccessError, match="database"):
        file.sink("flights").store.fence("flights")
    assert file.path.read_bytes() == before


def test_a_folder_that_is_not_there_is_told(file: File, tmp_path: Path) -> None:
    sink = KINDS[file.kind][0](tmp_path / "nowhere" / "flights.db", "flights")
    with pytest.raises(StoreAccessError, match="nowhere"):
        sink.store.fence("flights")


HOLDERS = {
    "sqlite": "import sqlite3; c = sqlite3.connect({path!r}, isolation_level=None); c.execute('BEGIN EXCLUSIVE')",
    "duckdb": "import duckdb; c = duckdb.connect({path!r})",
}


@pytest.fixture
def holder(file: File) -> Iterator[int]:
    """A process that keeps the file locked, as a driver does that was stopped in the middle of its commit."""
    file.execute("CREATE TABLE flights (id bigint)")
    program = HOLDERS[file.kind].format(path=str(file.path)) + "; print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate("\n")


def test_a_file_that_another_process_keeps_is_an_error_that_names_it(file: File, holder: int) -> None:
    sink = file.sink("flights", lock_timeout_s=0.3)
    for step in (
        lambda: sink.store.fence("flights"),
        lambda: sink.prepare(pa.schema({"id": pa.int64()})),
    ):
        with pytest.raises(StoreUnavailableError, match=rf"0\.3 s (by|in) process {holder} \(python"):
            step()
