"""Looking at a table without making or changing anything."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa
import pytest

from directkafka.errors import SchemaMismatchError, StoreAccessError
from directkafka.sinks.postgres import PostgresSink

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


def test_no_right_to_make_the_table_is_found(database: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE ROLE check_reader LOGIN")
    try:
        with pytest.raises(StoreAccessError, match="permission denied for schema public"):
            PostgresSink(psycopg.conninfo.make_conninfo(database, user="check_reader"), "totals").check(SCHEMA)
    finally:
        connection.execute("DROP OWNED BY check_reader")
        connection.execute("DROP ROLE check_reader")


def test_what_was_checked_can_be_prepared(database: str, connection: psycopg.Connection[Any]) -> None:
    sink = PostgresSink(database, "totals")
    sink.check(SCHEMA)
    sink.prepare(SCHEMA)
    assert relations(connection) == {"totals"}
