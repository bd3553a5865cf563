"""Words that SQL knows as names: each of a server's own as a column in every mode, and as a table in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.real.sinks.batches import run, run_all
from tests.real.sinks.test_file_words import MODES, OURS, SQLITE, batch, expected

from directkafka.sinks.api import Sink
from directkafka.sinks.delta.sink import DeltaSink
from directkafka.sinks.mysql.session import MySQLAddress, execute
from directkafka.sinks.mysql.sink import MySQLSink
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.testing.store_driver import Job

pytestmark = [pytest.mark.real, pytest.mark.slow]


class PostgresServer:
    """An empty database, and the words that its server knows."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.words = sorted({*(word for (word,) in self.rows("SELECT word FROM pg_get_keywords()")), *OURS})

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._dsn) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[call-overload, no-any-return]

    def sink(self, table: str, **options: Any) -> Sink:
        return PostgresSink(self._dsn, table, **options)

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def named(self, table: str) -> str:
        """The table as a sink has it."""
        return self.quoted(table)


class MySQLServer:
    """As :class:`PostgresServer`."""

    def __init__(self, url: str) -> None:
        self._url = url
        # Names of columns are equal in lower and upper case.
        known = self.rows("SELECT DISTINCT LOWER(word) FROM information_schema.keywords WHERE word RLIKE '^[a-z_]+$'")
        self.words = sorted({*(word for (word,) in known), *OURS} - {"id"})

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        connection = MySQLAddress.parse(self._url).connect("test")
        try:
            return execute(connection, statement)
        finally:
            connection.close()

    def sink(self, table: str, **options: Any) -> Sink:
        return MySQLSink(self._url, table, **options)

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def named(self, table: str) -> str:
        return table


class DeltaFolder:
    """As :class:`PostgresServer`; a table has the name of its folder."""

    words = sorted({*SQLITE, *OURS})

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rows(self, _: str) -> list[tuple[Any, ...]]:
        rows = DeltaTable(self._folder / "flights").to_pyarrow_table().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    def sink(self, table: str, **options: Any) -> Sink:
        return DeltaSink(self._folder / table, durable=False, **options)


Place = PostgresServer | MySQLServer | DeltaFolder


@pytest.fixture(params=["postgres", "mysql", "delta"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "postgres":
        yield PostgresServer(request.getfixturevalue("database"))
    elif request.param == "mysql":
        yield MySQLServer(request.getfixturevalue("mysql_database"))
    else:
        yield DeltaFolder(tmp_path)


def options_of(mode: str, names: list[str]) -> dict[str, Any]:
    key = {"key": ["id"]} if mode in ("ignore", "upsert", "merge") else {}
    return {"mode": mode, **key} | ({"add": names} if mode == "merge" else {})


@pytest.mark.parametrize("mode", MODES)
def test_columns_have_any_name(store: Place, mode: str) -> None:
    sink = store.sink("flights", **options_of(mode, store.words))
    sink.check(batch(1, store.words, base=100).schema)
    job = Job(sink.store).start()
    run(job, sink, batch(1, store.words, base=100))
    run(job, sink, batch(2, store.words, base=200))
    assert store.rows("SELECT * FROM flights ORDER BY 1, 2") == expected(mode, store.words)
    sink.store.close()


@pytest.mark.parametrize("mode", ["ignore", "upsert", "merge"])
def test_keys_have_names_that_sql_knows(store: Place, mode: str) -> None:
    """A word that is taken for something else makes two keys one, or one two. MySQL's keys have 16 columns at most."""
    names = [word for word in store.words if word in ("select", "order", "user", "table", "key", "held", "coming")]
    sink = store.sink("flights", mode=mode, key=names, **({"add": ["n"]} if mode == "merge" else {}))
    batches = [
        pa.table({name: [first, first + 1] for name in names} | {"n": [base, base]})
        for first, base in ((1, 100), (2, 200))
    ]
    sink.check(batches[0].schema)
    job = Job(sink.store).start()
    for rows in batches:
        run(job, sink, rows)
    stored_rows = [(row[0], row[-1]) for row in store.rows("SELECT * FROM flights ORDER BY 1")]
    assert stored_rows == [(1, 100), (2, {"ignore": 100, "upsert": 200, "merge": 300}[mode]), (3, 200)]
    sink.store.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("store", ["postgres", "mysql"], indirect=True)
def test_tables_have_any_name(store: PostgresServer | MySQLServer, mode: str) -> None:
    """All of them in one transaction; each word in one of the modes. A Delta table's name is that of its folder."""
    names = store.words[MODES.index(mode) :: len(MODES)]
    sinks = [store.sink(store.named(name), **options_of(mode, ["true"])) for name in names]
    job = Job(sinks[0].store).start()
    for first, base in ((1, 100), (2, 200)):
        run_all(job, sinks, batch(first, ["true"], base=base))
    for name in names:
        assert store.rows(f"SELECT * FROM {store.quoted(name)} ORDER BY 1, 2") == expected(mode, ["true"]), name
    sinks[0].store.close()
