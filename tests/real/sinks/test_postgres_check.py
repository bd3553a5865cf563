"""Looking at a table without making or changing anything."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, LiteralString

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from directkafka.errors import SchemaMismatchError, StoreAccessError
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore

pytestmark = pytest.mark.real

SCHEMA = pa.schema({"carrier": pa.string(), "flights": pa.int64()})


def relations(connection: psycopg.Connection[Any]) -> set[str]:
    rows = connection.execute("SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace")
    return {name for (name,) in rows}


@pytest.mark.parametrize(("mode", "key", "add"), [("append", None, None), ("merge", ["carrier"], ["flights"])])
def test_a_table_that_is_not_there_is_checked_and_not_made(
    mode: Any, key: Any, add: Any, database: str, connection: psycopg.Connection[Any]
) -> None:
    PostgresSink(database, "totals", mode, key, add).check(SCHEMA)
    assert relations(connection) == set()


def test_a_type_without_a_column_type_is_found_before_there_is_a_table(database: str) -> None:
    with pytest.raises(SchemaMismatchError, match="column 'tags'"):
        PostgresSink(database, "totals").check(pa.schema({"tags": pa.struct({"x": pa.int64()})}))


def test_columns_that_do_not_fit_are_found(database: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE totals (carrier date)")
    with pytest.raises(SchemaMismatchError, match="flights"):
        PostgresSink(database, "totals").check(SCHEMA)


def test_columns_to_be_added_are_not_added_and_no_lock_is_waited_for(
    database: str, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("CREATE TABLE totals (carrier text)")
    sink = PostgresSink(database, "totals", schema_policy="add-columns")
    with psycopg.connect(database) as writer:  # a driver that stands still in the middle of its commit
        writer.execute("INSERT INTO totals VALUES ('AA')")
        sink.check(SCHEMA)
        writer.rollback()
    names = connection.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = 'totals'::regclass AND attnum > 0"
    )
    assert names.fetchall() == [("carrier",)]


@pytest.fixture
def plain_dsn(database: str, connection: psycopg.Connection[Any]) -> Iterator[str]:
    """A user with no rights but those that everybody has."""
    name = f"plain_{uuid.uuid4().hex[:8]}"
    user = sql.Identifier(name)
    connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'plain'").format(user))
    yield psycopg.conninfo.make_conninfo(database, user=name, password="plain")
    connection.execute(sql.SQL("DROP OWNED BY {}").format(user))
    connection.execute(sql.SQL("DROP ROLE {}").format(user))


def test_no_right_to_make_the_table_is_found(plain_dsn: str) -> None:
    with pytest.raises(StoreAccessError, match="permission denied for schema public"):
        PostgresSink(plain_dsn, "totals").check(SCHEMA)


def test_columns_to_be_added_to_somebody_else_s_table_are_refused(
    plain_dsn: str, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("CREATE TABLE totals (carrier text)")
    connection.execute("GRANT INSERT ON totals TO PUBLIC; GRANT CREATE ON SCHEMA public TO PUBLIC")
    sink = PostgresSink(plain_dsn, "totals", schema_policy="add-columns")
    sink.check(pa.schema({"carrier": pa.string()}))
    for look in (sink.check, sink.prepare):
        with pytest.raises(StoreAccessError, match=r"does not own it.* OWNER TO"):
            look(SCHEMA)


def test_rights_are_looked_at_where_columns_are_to_be_added_too(
    plain_dsn: str, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("CREATE TABLE totals (carrier text)")
    with pytest.raises(StoreAccessError, match="lacks INSERT ON"):
        PostgresSink(plain_dsn, "totals", schema_policy="add-columns").check(SCHEMA)


_PARTED = "CREATE TABLE totals (carrier text, flights int8) PARTITION BY LIST (carrier)"
_FDW = "CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER files FOREIGN DATA WRAPPER nothing"
_FOREIGN = "CREATE FOREIGN TABLE parted PARTITION OF totals FOR VALUES IN ('AA') SERVER files"


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE UNLOGGED TABLE totals (carrier text, flights int8)", r"totals \(unlogged\)"),
        (f"{_PARTED}; CREATE UNLOGGED TABLE parted PARTITION OF totals DEFAULT", r"parted \(unlogged\)"),
        (f"{_PARTED}; {_FDW}; {_FOREIGN}", r"parted \(foreign\)"),
    ],
    ids=["unlogged", "unlogged partition", "foreign partition"],
)
def test_a_table_that_does_not_keep_what_is_committed_is_refused(
    database: str, connection: psycopg.Connection[Any], statement: LiteralString, named: str
) -> None:
    """Crash recovery empties it, and the ledger still says that its rows are there."""
    connection.execute(statement)
    sink = PostgresSink(database, "totals")
    for look in (sink.check, sink.prepare):
        with pytest.raises(SchemaMismatchError, match=f"{named}.*SET LOGGED"):
            look(SCHEMA)


def test_a_table_that_is_made_among_the_temporary_ones_is_refused(database: str) -> None:
    with pytest.raises(SchemaMismatchError, match=r"\(temporary\)"):
        PostgresSink(database, "pg_temp.totals").check(SCHEMA)


def test_an_unlogged_ledger_is_refused_before_anything_is_taken(
    database: str, connection: psycopg.Connection[Any]
) -> None:
    with closing(PostgresStore(database)) as store:
        assert store.fence("flights") == 1
        connection.execute("ALTER TABLE directkafka_ledger SET UNLOGGED")
        for step in (store.fence, store.read):
            with pytest.raises(SchemaMismatchError, match="ALTER TABLE directkafka_ledger SET LOGGED"):
                step("flights")
        connection.execute("ALTER TABLE directkafka_ledger SET LOGGED")
        assert store.fence("flights") == 2


def test_what_was_checked_can_be_prepared(database: str, connection: psycopg.Connection[Any]) -> None:
    sink = PostgresSink(database, "totals")
    sink.check(SCHEMA)
    sink.prepare(SCHEMA)
    assert relations(connection) == {"totals"}
