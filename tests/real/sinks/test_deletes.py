"""Deletes of mode upsert, alike in every database: rows whose keys are no more, and tables that were truncated."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.real.sinks.batches import problems_of, run

from directkafka.errors import RowRejectedError
from directkafka.sinks.api import LedgerEntry, Sink
from directkafka.sinks.delta.sink import DeltaSink
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sqlite import SQLiteSink
from directkafka.sinks.mysql.session import MySQLAddress, execute
from directkafka.sinks.mysql.sink import MySQLSink
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.testing.store_driver import Job

#: Of a batch's rows: id, n, position, deleted, op.
Row = tuple[int | None, int | None, int | None, bool | None, str]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("n", pa.int64()), ("position", pa.int64()), ("deleted", pa.bool_()), ("op", pa.string())]
)
HARD: dict[str, Any] = {"delete": "deleted"}
SOFT: dict[str, Any] = {"delete": "deleted", "delete_how": "soft"}


@dataclass
class Database:
    """A place for tables, and for each of its stores a driver; a Delta table is a store of its own."""

    name: str
    make: Callable[..., Sink]
    query: Callable[[str], list[tuple[Any, ...]]]
    jobs: dict[str, Job] = field(default_factory=dict)

    def sink(self, table: str = "shop", **options: Any) -> Sink:
        return self.make(table, mode="upsert", key=["id"], **options)

    def run(self, sink: Sink, rows: pa.Table) -> LedgerEntry:
        """One batch of one task."""
        sink.check(rows.schema)
        job = self.jobs.get(sink.store.identity)
        if job is None:
            job = self.jobs[sink.store.identity] = Job(sink.store).start()
        run(job, sink, rows)
        assert job.last is not None
        return job.last

    def rows(self, columns: str = "id, n", table: str = "shop") -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.query(f"SELECT {columns} FROM {table}"))


@pytest.fixture(params=["sqlite", "duckdb", "postgres", "delta", pytest.param("mysql", marks=pytest.mark.slow)])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = _opened(request.param, request, tmp_path)
    yield database
    for job in database.jobs.values():
        job.store.close()


def _opened(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if name == "delta":

        def of_delta(statement: str) -> list[tuple[Any, ...]]:
            with duckdb.connect() as connection:
                for folder in tmp_path.iterdir():
                    connection.register(folder.name, DeltaTable(folder).to_pyarrow_table())
                return connection.execute(statement).fetchall()

        def made(table: str, *, inline_bytes_max: int = 0, **options: Any) -> Sink:
            return DeltaSink(tmp_path / table, durable=False, **options)

        return Database(name, made, of_delta)
    if name in ("sqlite", "duckdb"):
        kind = SQLiteSink if name == "sqlite" else DuckDBSink
        path = tmp_path / f"shop.{name}"

        def query(statement: str) -> list[tuple[Any, ...]]:
            import sqlite3

            connection: Any = (sqlite3 if name == "sqlite" else duckdb).connect(str(path))
            try:
                rows = list(connection.execute(statement).fetchall())
                connection.commit()
                return rows
            finally:
                connection.close()

        return Database(name, lambda table, **options: kind(path, table, **options), query)
    if name == "postgres":
        dsn = request.getfixturevalue("database")

        def ask(statement: str) -> list[tuple[Any, ...]]:
            with psycopg.connect(dsn) as connection:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
                return cursor.fetchall() if cursor.description else []

        return Database(name, lambda table, **options: PostgresSink(dsn, table, **options), ask)
    url = request.getfixturevalue("mysql_database")

    def of_mysql(statement: str) -> list[tuple[Any, ...]]:
        connection = MySQLAddress.parse(url).connect("test")
        try:
            return execute(connection, statement)
        finally:
            connection.close()

    return Database(name, lambda table, **options: MySQLSink(url, table, **options), of_mysql)


def batch(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def without_op(*rows: Row) -> pa.Table:
    return batch(*rows).drop_columns(["op"])


BOTH_WAYS = pytest.mark.parametrize(
    "inline_bytes_max", [pytest.param(1 << 20, id="inline"), pytest.param(0, id="staged", marks=pytest.mark.slow)]
)


@BOTH_WAYS
def test_rows_whose_keys_are_no_more_are_removed(base: Database, inline_bytes_max: int) -> None:
    sink = base.sink(**HARD, inline_bytes_max=inline_bytes_max)
    base.run(sink, without_op((1, 10, 1, False, "c"), (2, 20, 2, False, "c"), (3, 30, 3, False, "c")))
    entry = base.run(sink, without_op((1, None, 4, True, "d"), (9, None, 5, True, "d"), (2, 21, 6, False, "u")))
    assert base.rows("id, n, position") == [(2, 21, 6), (3, 30, 3)]
    assert entry.row_counts == {sink.name: 3}
    base.run(sink, without_op((1, 11, 7, False, "c")))
    assert base.rows() == [(1, 11), (2, 21), (3, 30)]


@BOTH_WAYS
def test_the_column_that_deletes_is_not_stored(base: Database, inline_bytes_max: int) -> None:
    sink = base.sink(**HARD, order=["position"], inline_bytes_max=inline_bytes_max)
    base.run(sink, without_op((1, 10, 1, False, "c")))
    rows = base.query("SELECT * FROM shop")
    assert [int(value) for value in rows[0]] == [1, 10, 1]


@BOTH_WAYS
def test_order_decides_between_a_row_and_its_delete(base: Database, inline_bytes_max: int) -> None:
    sink = base.sink(**HARD, order=["position"], inline_bytes_max=inline_bytes_max)
    base.run(
        sink,
        without_op((1, 10, 1, False, "c"), (1, None, 2, True, "d"), (2, None, 3, True, "d"), (2, 20, 4, False, "c"),
                   (3, 30, 9, False, "c")),
    )  # fmt: skip
    assert base.rows() == [(2, 20), (3, 30)]
    # The row that is there is newer than this delete.
    base.run(sink, without_op((3, None, 8, True, "d"), (2, None, 5, True, "d")))
    assert base.rows() == [(3, 30)]


@BOTH_WAYS
@pytest.mark.parametrize("how", [pytest.param(HARD, id="hard"), pytest.param(SOFT, id="soft", marks=pytest.mark.slow)])
def test_where_batches_end_changes_nothing(base: Database, how: dict[str, Any], inline_bytes_max: int) -> None:
    """The same changes in one batch and in many leave the same keys, with the values of those that are there."""
    random.seed(7)
    changes: list[Row] = []
    for position in range(1, 120):
        is_deleted = random.random() < 0.4
        key = random.randrange(12)
        changes.append((key, None if is_deleted else position, position, is_deleted, "d" if is_deleted else "u"))
    options = {**how, "order": ["position"], "inline_bytes_max": inline_bytes_max}
    whole, pieces = base.sink("whole", **options), base.sink("pieces", **options)
    base.run(whole, without_op(*changes))
    while changes:
        size = random.randint(1, 40)
        piece, changes = changes[:size], changes[size:]
        base.run(pieces, without_op(*piece))
    columns = "id, position" if how is HARD else "id, position, deleted"
    assert base.rows(columns, "whole") == base.rows(columns, "pieces") != []
    there = "" if how is HARD else " WHERE NOT deleted"
    assert sorted(base.query(f"SELECT id, n FROM whole{there}")) == sorted(
        base.query(f"SELECT id, n FROM pieces{there}")
    )


@BOTH_WAYS
def test_a_soft_delete_marks_the_row_which_keeps_what_it_had(base: Database, inline_bytes_max: int) -> None:
    sink = base.sink(**SOFT, order=["position"], delete_time="at_ms", inline_bytes_max=inline_bytes_max)

    def at(*rows: Row) -> pa.Table:
        made = without_op(*rows)
        return made.append_column("at_ms", times_ms(made))

    base.run(sink, at((1, 10, 1, False, "c"), (2, 20, 2, False, "c")))
    base.run(sink, at((1, None, 3, True, "d"), (3, 33, 4, True, "d")))
    columns = "id, n, position, deleted, at_ms"
    assert [(row[0], row[1], int(row[2]), bool(row[3]), int(row[4])) for row in base.rows(columns)] == [
        (1, 10, 3, True, 3_000), (2, 20, 2, False, 2_000), (3, 33, 4, True, 4_000),
    ]  # fmt: skip
    # A record that comes late is older than the mark; a newer one brings the row back.
    base.run(sink, at((1, 11, 2, False, "u"), (3, 34, 5, False, "c")))
    assert [(row[0], row[1], bool(row[2])) for row in base.rows("id, n, deleted")] == [
        (1, 10, True), (2, 20, False), (3, 34, False),
    ]  # fmt: skip


def times_ms(table: pa.Table) -> pa.Array:
    return pa.array([int(value) * 1_000 for value in table.column("position").to_pylist()])


@BOTH_WAYS
@pytest.mark.parametrize("how", [HARD, SOFT], ids=["hard", "soft"])
def test_a_truncate_takes_what_was_there_before_it(base: Database, how: dict[str, Any], inline_bytes_max: int) -> None:
    sink = base.sink(**how, order=["position"], truncate=True, inline_bytes_max=inline_bytes_max)
    base.run(sink, batch((1, 10, 1, False, "c"), (2, 20, 2, False, "c"), (8, 80, 90, False, "c")))
    base.run(
        sink,
        batch((3, 30, 3, False, "c"), (None, None, 4, False, "t"), (4, 40, 5, False, "c"), (None, None, 6, False, "t"),
              (1, 11, 7, False, "c"), (5, 50, 8, False, "c")),
    )  # fmt: skip
    there = "" if how is HARD else " WHERE NOT deleted"
    assert base.rows("id, n", f"shop{there}") == [(1, 11), (5, 50), (8, 80)]
    if how is SOFT:
        assert [
            (row[0], row[1], int(row[2])) for row in base.query("SELECT id, n, position FROM shop WHERE deleted")
        ] == [(2, 20, 6)]
    base.run(sink, batch((None, None, 100, False, "t")))
    assert base.rows("id, n", f"shop{there}") == []


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ((None, 1, 1, False, "t"), "in the key id, so nobody can say which row they are about"),
        ((1, 1, 1, None, "c"), "in the column deleted, which then does not say"),
        ((1, 1, None, True, "d"), "in the order position"),
    ],
)
def test_rows_that_do_not_say_what_they_delete_are_refused(base: Database, row: Row, told: str) -> None:
    sink = base.sink(**HARD, order=["position"])
    with pytest.raises(RowRejectedError, match=told):
        base.run(sink, without_op(row))


def test_a_row_and_its_delete_with_nothing_between_them_are_refused(base: Database) -> None:
    sink = base.sink(**HARD, order=["position"])
    base.run(sink, without_op((7, 1, 1, False, "c")))
    with pytest.raises(RowRejectedError, match="id = 7"):
        base.run(sink, without_op((7, 2, 2, False, "u"), (7, None, 2, True, "d")))
    assert base.rows() == [(7, 1)]


def test_the_columns_are_checked_before_anything_runs(base: Database) -> None:
    sink = base.sink(**HARD, order=["position"], truncate=True)
    told = problems_of(sink, id=pa.int64(), n=pa.int64(), position=pa.int64())
    assert "no column 'deleted' (delete)" in told
    assert "no column 'op' (truncate)" in told
    told = problems_of(base.sink(**HARD), id=pa.int64(), deleted=pa.string())
    assert "column 'deleted' of type string is not boolean (delete)" in told


@BOTH_WAYS
def test_a_row_that_is_made_and_deleted_in_one_batch_is_marked_as_in_two(base: Database, inline_bytes_max: int) -> None:
    sink = base.sink(**SOFT, order=["position"], inline_bytes_max=inline_bytes_max)
    base.run(sink, without_op((2, 20, 1, False, "c")))
    base.run(
        sink,
        without_op((1, 10, 2, False, "c"), (1, None, 3, True, "d"), (2, 21, 4, False, "u"), (2, None, 5, True, "d")),
    )  # fmt: skip
    assert [(*row[:2], bool(row[2])) for row in base.rows("id, n, deleted")] == [(1, 10, True), (2, 21, True)]


@pytest.mark.parametrize("base", ["sqlite", "duckdb", "postgres"], indirect=True)
def test_a_row_is_marked_though_its_delete_lacks_what_the_table_wants(base: Database) -> None:
    """Postgres' default replica identity gives a delete its key alone."""
    base.run(base.sink("some_other", **SOFT, order=["position"]), without_op((1, 10, 1, False, "c")))
    kind = "boolean" if base.name != "sqlite" else "BOOLEAN"
    base.query(
        f"CREATE TABLE shop (id bigint NOT NULL UNIQUE, n bigint NOT NULL, position bigint, deleted {kind} NOT NULL)"
    )
    sink = base.sink(**SOFT, order=["position"])
    base.run(sink, without_op((1, 10, 1, False, "c")))
    base.run(sink, without_op((1, None, 2, True, "d"), (2, 20, 3, False, "c"), (2, None, 4, True, "d")))
    assert [(*row[:2], bool(row[2])) for row in base.rows("id, n, deleted")] == [(1, 10, True), (2, 20, True)]


@pytest.mark.parametrize("how", [HARD, SOFT], ids=["hard", "soft"])
def test_a_time_of_deletes_may_be_their_order(base: Database, how: dict[str, Any]) -> None:
    more = {} if how is HARD else {"delete_time": "position"}
    sink = base.sink(**how, **more, order=["position"], truncate=True)
    base.run(sink, batch((1, 10, 1, False, "c"), (2, 20, 2, False, "c"), (2, None, 3, True, "d")))
    base.run(sink, batch((None, None, 9, False, "t")))
    assert base.rows("id, position") == ([] if how is HARD else [(1, 9), (2, 9)])
    # A record that comes late is older than what the truncate has left.
    base.run(sink, batch((2, 21, 7, False, "u")))
    assert base.rows("id, n", "shop WHERE position = 9") == ([] if how is HARD else [(1, 10), (2, 20)])


def test_names_may_have_signs_that_formats_know(base: Database) -> None:
    names = {"id": "a{b}", "n": "%s", "position": "coming", "deleted": "d{}'%", "op": "op"}
    renamed = batch(
        (1, 10, 1, False, "c"), (2, 20, 2, False, "c"), (1, None, 3, True, "d"), (None, None, 0, False, "t")
    )
    renamed = renamed.rename_columns([names[name] for name in SCHEMA.names])
    options: dict[str, Any] = {"mode": "upsert", "key": ["a{b}"], "order": ["coming"], "truncate": True}
    sink = base.make("held", **options, delete="d{}'%")
    base.run(sink, renamed)
    assert len(base.query("SELECT * FROM held")) == 1
    lost = renamed.set_column(0, "a{b}", pa.array([None] * 4, pa.int64()))
    with pytest.raises(RowRejectedError, match=r"null in the key a\{b\}"):
        base.run(sink, lost)


#: Of each database a trigger that keeps the row with id 1 from being removed, and one that keeps it from being marked.
KEEPING = {
    ("sqlite", "hard"): "CREATE TRIGGER keep BEFORE DELETE ON shop WHEN old.id = 1 BEGIN SELECT RAISE(IGNORE); END",
    ("sqlite", "soft"): "CREATE TRIGGER keep BEFORE UPDATE ON shop WHEN old.id = 1 BEGIN SELECT RAISE(IGNORE); END",
    **{
        ("postgres", how): "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF old.id = 1 THEN RETURN NULL; END IF; RETURN {kept}; END $$;"
        f" CREATE TRIGGER keep BEFORE {event} ON shop FOR EACH ROW EXECUTE FUNCTION keep()"
        for how, event, kept in (("hard", "DELETE", "old"), ("soft", "UPDATE", "new"))
    },
}


@pytest.mark.parametrize("base", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("how", ["hard", "soft"])
@pytest.mark.parametrize("is_truncate", [False, True], ids=["a delete", "a truncate"])
def test_a_trigger_that_keeps_a_row_is_noticed(base: Database, how: str, is_truncate: bool) -> None:
    options: dict[str, Any] = {"delete": "deleted", "delete_how": how, "order": ["position"], "truncate": True}
    base.run(base.sink(**options), batch((1, 10, 1, False, "c"), (2, 20, 2, False, "c")))
    base.query(KEEPING[base.name, how])
    sink = base.sink(**options)
    row: Row = (None, None, 5, False, "t") if is_truncate else (1, None, 5, True, "d")
    with pytest.raises(RowRejectedError, match="the table kept 1 rows"):
        base.run(sink, batch(row))
    assert base.rows("id, n, position") == [(1, 10, 1), (2, 20, 2)]


def test_another_letter_is_no_truncate(base: Database) -> None:
    sink = base.sink(**HARD, order=["position"], truncate=True)
    base.run(
        sink, batch((1, 10, 1, False, "c"), (2, 20, 2, False, "T"), (3, 30, 3, False, "t "), (4, 40, 4, False, ""))
    )
    assert len(base.rows()) == 4
