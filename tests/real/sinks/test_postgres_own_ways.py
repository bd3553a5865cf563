"""Tables with ways of their own: triggers and rules that leave rows out, collations, columns named like ours."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from tests.real.sinks.batches import problems_of, run

from directkafka.errors import RowRejectedError
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.write_modes import Mode
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real

BOTH_WAYS = pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "staged"])
#: The same for rules that the way hardly touches.
EITHER_WAY = pytest.mark.parametrize(
    "inline_bytes_max", [pytest.param(1 << 20, marks=pytest.mark.slow), 0], ids=["inline", "staged"]
)

#: Key and sums by mode.
MODES: dict[Mode, tuple[list[str] | None, list[str] | None]] = {
    "append": (None, None),
    "replace": (None, None),
    "ignore": (["id"], None),
    "upsert": (["id"], None),
    "merge": (["id"], ["n"]),
}

#: Leaves out the rows with the number 2, as a filter or an old-style partition trigger does.
SWALLOW = """
CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF NEW.id = 2 THEN RETURN NULL; END IF; RETURN NEW; END';
CREATE TRIGGER no_twos BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION swallow();
"""


def add_trigger(connection: psycopg.Connection[Any], table: str = "flights") -> None:
    connection.execute(sql.SQL(SWALLOW).format(sql.Identifier(table)))


@BOTH_WAYS
@pytest.mark.parametrize("mode", MODES)
def test_rows_that_a_trigger_leaves_out_are_an_error_with_numbers(
    database: str, connection: psycopg.Connection[Any], job: Job, mode: Mode, inline_bytes_max: int
) -> None:
    connection.execute("CREATE TABLE flights (id bigint UNIQUE, n bigint)")
    add_trigger(connection)
    sink = PostgresSink(database, "flights", mode, *MODES[mode], inline_bytes_max=inline_bytes_max)
    run(job, sink, pa.table({"id": [1], "n": [1]}))
    with pytest.raises(RowRejectedError, match=r"took 2 of 3 rows, a trigger of its own \(no_twos\) left out"):
        run(job, sink, pa.table({"id": [4, 2], "n": [1, 1]}), pa.table({"id": [3], "n": [1]}))
    assert connection.execute("SELECT id FROM flights").fetchall() == [(1,)]


def test_a_trigger_of_a_partition_is_seen_too(database: str, connection: psycopg.Connection[Any], job: Job) -> None:
    connection.execute("CREATE TABLE flights (id bigint UNIQUE, n bigint) PARTITION BY RANGE (id)")
    connection.execute("CREATE TABLE low PARTITION OF flights FOR VALUES FROM (0) TO (10)")
    add_trigger(connection, "low")
    with pytest.raises(RowRejectedError, match="took 1 of 2 rows"):
        run(job, PostgresSink(database, "flights", "upsert", ["id"]), pa.table({"id": [1, 2], "n": [1, 1]}))


@EITHER_WAY
@pytest.mark.parametrize("mode", ["ignore", "upsert", "merge"])
def test_a_trigger_that_passes_over_what_changes_nothing_is_let(
    database: str, connection: psycopg.Connection[Any], job: Job, mode: Mode, inline_bytes_max: int
) -> None:
    """Postgres' own ``suppress_redundant_updates_trigger``: the row is there, so nothing is lost."""
    connection.execute("CREATE TABLE flights (id bigint UNIQUE NULLS NOT DISTINCT, n bigint)")
    connection.execute(
        "CREATE TRIGGER z BEFORE UPDATE ON flights FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    )
    sink = PostgresSink(database, "flights", mode, *MODES[mode], inline_bytes_max=inline_bytes_max)
    for _ in range(2):
        run(job, sink, pa.table({"id": pa.array([1, None], pa.int64()), "n": [0, 0]}))
    assert connection.execute("SELECT id, n FROM flights ORDER BY id").fetchall() == [(1, 0), (None, 0)]


def test_rows_that_a_trigger_keeps_are_not_replaced_in_part(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    connection.execute("CREATE TABLE flights (id bigint)")
    connection.execute("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    connection.execute("CREATE TRIGGER hold BEFORE DELETE ON flights FOR EACH ROW EXECUTE FUNCTION keep()")
    sink = PostgresSink(database, "flights", "replace")
    run(job, sink, pa.table({"id": [1]}))
    with pytest.raises(RowRejectedError, match=r"kept 1 rows that were to be replaced .*hold"):
        run(job, sink, pa.table({"id": [2]}))
    assert connection.execute("SELECT id FROM flights").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("event", "refused"),
    [("INSERT", set(MODES)), ("UPDATE", {"ignore", "upsert", "merge"}), ("DELETE", {"replace"})],
)
def test_a_table_with_rules_is_refused_by_the_modes_that_would_meet_them(
    database: str, connection: psycopg.Connection[Any], event: str, refused: set[Mode]
) -> None:
    """COPY does not obey rules, INSERT does: small batches and large ones would differ."""
    connection.execute("CREATE TABLE flights (id bigint UNIQUE, n bigint)")
    connection.execute(sql.SQL("CREATE RULE quiet AS ON {} TO flights DO INSTEAD NOTHING").format(sql.SQL(event)))
    schema = {"id": pa.int64(), "n": pa.int64()}
    for mode, (key, add) in MODES.items():
        sink = PostgresSink(database, "flights", mode, key, add)
        if mode in refused:
            assert f"it has rules (quiet on {event})" in problems_of(sink, **schema)
        else:
            sink.check(pa.schema(schema))
    if "ignore" in refused:
        assert "it has rules" in problems_of(PostgresSink(database, "flights", "ignore"), **schema)


# Collations.


def test_staged_rows_compare_as_those_of_the_table_do(database: str, connection: psycopg.Connection[Any]) -> None:
    """Otherwise the order of an upsert would be one order within a batch, and another one against the table."""
    connection.execute('CREATE COLLATION "My ""C"" %s {}" (provider = libc, locale = \'POSIX\')')
    connection.execute(
        'CREATE TABLE flights (id bigint UNIQUE, plain text, own text COLLATE "My ""C"" %s {}", '
        'short varchar(3) COLLATE "C", many text[] COLLATE "ucs_basic", at date)'
    )
    sink = PostgresSink(database, "flights", "upsert", ["id"], order=["own"], inline_bytes_max=0)
    table = pa.table({"id": [1], "plain": ["a"], "own": ["a"], "short": ["a"], "many": [["a"]]})
    sink.prepare(table.schema)
    job = Job(sink.store).start()
    entry = job.next_entry()
    batch = job.batch(entry)
    report = sink.task_writer(batch, table.schema)(iter(table.to_batches()))
    assert report.staged
    collations = sql.SQL(
        "SELECT attname::text, attcollation FROM pg_attribute JOIN pg_class c ON c.oid = attrelid "
        "WHERE relname LIKE {} AND attnum > 0 AND attcollation <> 0"
    )
    staged = dict(connection.execute(collations.format("directkafka\\_stage\\_%")).fetchall())
    target = dict(connection.execute(collations.format("flights")).fetchall())
    assert staged == target
    assert len(set(target.values())) == 4
    job.store.commit(entry, previous=None, writes=[(sink, batch, [report])])
    job.store.close()


# Names.


@EITHER_WAY
@pytest.mark.parametrize("mode", MODES)
def test_columns_may_be_named_like_our_own(
    database: str, connection: psycopg.Connection[Any], job: Job, mode: Mode, inline_bytes_max: int
) -> None:
    own = ["directkafka_attempt", "directkafka_place", "directkafka_rank", "held", "coming", 'k"{0}%s']
    options: dict[str, Any] = {"order": own} if mode == "upsert" else {}
    key, add = MODES[mode]
    sink = PostgresSink(
        database, "flights", mode, key, [*add, *own] if add else None, inline_bytes_max=inline_bytes_max, **options
    )
    for n in (1, 2):
        run(job, sink, pa.table({"id": [n], "n": [n]} | {name: [n] for name in own}))
    rows = connection.execute("SELECT * FROM flights ORDER BY id").fetchall()
    assert rows == [(n,) * 8 for n in ((1, 2) if mode != "replace" else (2,))]
