"""Two names of one table: sinks are compared by what their names stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from directkafka import DuckDBSink, ParquetSink, PostgresSink, SQLiteSink
from directkafka.errors import OptionError
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.store_group import Ledgers

pytestmark = pytest.mark.real


def connect(*sinks: Any) -> None:
    ledgers = Ledgers("flights", [Route(output="default", sink=sink) for sink in sinks])
    try:
        ledgers.connect()
    finally:
        ledgers.close()


def check_refused(*sinks: Any) -> None:
    with pytest.raises(OptionError, match=r"two sinks write .*; make one output of the two, with UNION ALL"):
        connect(*sinks)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_table_in_postgres_is_the_same_with_and_without_its_schema(database: str, *, is_there: bool) -> None:
    if is_there:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("CREATE TABLE flights (id int)")
    check_refused(PostgresSink(database, "flights"), PostgresSink(database, "public.flights"))
    check_refused(PostgresSink(database, "Flights"), PostgresSink(database, 'public."flights"'))
    connect(PostgresSink(database, "flights"), PostgresSink(database, '"Flights"'))


def test_it_is_the_same_from_two_stores_of_one_database(database: str) -> None:
    """Each looks for its ledger in a schema of its own."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA air")
        connection.execute("CREATE TABLE air.flights (id int)")
    by_path = PostgresSink(f"{database}?options=-csearch_path%3Dair", "flights")
    by_name = PostgresSink(database, "air.flights")
    assert by_path.store.identity != by_name.store.identity
    check_refused(by_path, by_name)
    connect(PostgresSink(f"{database}?options=-csearch_path%3Dair", "flights"), PostgresSink(database, "flights"))


def test_a_table_that_is_found_further_down_the_search_path_is_that_one(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA air")
        connection.execute("CREATE TABLE flights (id int)")
    both = f"{database}?options=-csearch_path%3Dair,public"
    check_refused(PostgresSink(both, "flights"), PostgresSink(both, "public.flights"))
    connect(PostgresSink(both, "rejected"), PostgresSink(both, "public.rejected"))


def test_names_in_sqlite_and_duckdb_have_no_case_from_a_to_z(tmp_path: Path) -> None:
    lite, duck = tmp_path / "air.sqlite", tmp_path / "air.duckdb"
    check_refused(SQLiteSink(lite, "flights"), SQLiteSink(lite, "FLIGHTS"))
    check_refused(DuckDBSink(duck, "flights"), DuckDBSink(duck, "Flights"))
    check_refused(DuckDBSink(duck, "flights"), DuckDBSink(duck, "main.Flights"))
    connect(SQLiteSink(lite, "flüge"), SQLiteSink(lite, "flÜge"), DuckDBSink(duck, "flights"))


def test_a_directory_is_the_same_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").symlink_to("here")
    check_refused(ParquetSink(tmp_path / "here"), ParquetSink(tmp_path / "there"))
