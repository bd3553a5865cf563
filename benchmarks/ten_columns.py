"""Rows of ten columns, and the Postgres table that they go into: one for every side of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

__all__ = ["NAMES", "TenColumns", "jdbc_address", "rows_of"]

#: Name, Postgres' type, and how Spark makes the value of ``id``.
_COLUMNS: Final = (
    ("id", "bigint", "id"),
    ("carrier", "text", "element_at(array('AA', 'UA', 'DL', 'B6'), 1 + CAST(id % 4 AS INT))"),
    ("flight", "integer", "CAST(id % 9999 AS INT)"),
    ("tailnum", "text", "concat('N', 10000 + id % 89999, 'UA')"),
    ("origin", "text", "element_at(array('EWR', 'JFK', 'LGA'), 1 + CAST(id % 3 AS INT))"),
    ("dest", "text", "element_at(array('IAH', 'MIA', 'ORD', 'ATL', 'SFO'), 1 + CAST(id % 5 AS INT))"),
    ("distance", "integer", "CAST(100 + id % 4900 AS INT)"),
    ("delay", "double precision", "CAST(id % 700 AS DOUBLE) / 4"),
    ("departed", "timestamp with time zone", "timestamp_millis(1700000000000 + id * 1000)"),
    ("is_late", "boolean", "id % 700 > 60"),
)

NAMES: Final = tuple(name for name, _, _ in _COLUMNS)


def rows_of(id_sql: str, source: str) -> str:
    """A query for the ten columns.

    Args:
        id_sql: an expression for ``id`` over ``source``.
        source: a table, a view, or a subquery.
    """
    values = ", ".join(f"{value} AS {name}" for name, _, value in _COLUMNS)
    return f"SELECT {values} FROM (SELECT {id_sql} AS id FROM {source})"


class TenColumns:
    """A table of the ten columns, made anew for each run.

    Args:
        dsn: of the database.
        rows: what a finished run must have left.
        keys: whether ``id`` is its key, and every other row is there before a run, with another origin.
    """

    name: Final = "ten_columns"

    def __init__(self, dsn: str, *, rows: int, keys: bool = False) -> None:
        self._dsn = dsn
        self._rows = rows
        self._keys = keys

    def make(self, side: str) -> None:
        """An empty table, and a server with nothing left to do from the run before."""
        definitions = ", ".join(f"{name} {kind}" for name, kind, _ in _COLUMNS)
        key = ", PRIMARY KEY (id)" if self._keys else ""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            self._execute(connection, "DROP TABLE IF EXISTS {table}")
            self._execute(connection, f"CREATE TABLE {{table}} ({definitions}{key})")
            if self._keys:
                self._execute(
                    connection,
                    "INSERT INTO {table} (id, origin) SELECT id, 'OLD' FROM generate_series(0, {last}, 2) AS id",
                )
                self._execute(connection, "VACUUM ANALYZE {table}")
            connection.execute("CHECKPOINT")

    def check(self, side: str) -> None:
        """Every row is there once, and none that was to be replaced."""
        with psycopg.connect(self._dsn) as connection:
            query = "SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE origin = 'OLD') FROM {table}"
            totals = self._execute(connection, query).fetchone()
        assert totals == (self._rows, self._rows, 0), f"{side}: rows, ids, old rows are {totals}, not {self._rows}"

    def _execute(self, connection: psycopg.Connection[Any], statement: str) -> psycopg.Cursor[Any]:
        names = {"table": sql.Identifier(self.name), "last": sql.Literal(self._rows - 1)}
        return connection.execute(sql.SQL(statement).format(**names))


def jdbc_address(dsn: str) -> tuple[str, str, str]:
    """URL, user and password for Postgres' JDBC driver, with its fastest way of inserting."""
    parts = urlsplit(dsn)
    return (
        f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}?reWriteBatchedInserts=true",
        parts.username or "",
        parts.password or "",
    )


def upsert_sql(names: Sequence[str] = NAMES) -> str:
    """What a user of psycopg writes: one row's INSERT that replaces what has its id."""
    others = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
    places = ", ".join(["%s"] * len(names))
    return (
        f"INSERT INTO {TenColumns.name} ({', '.join(names)}) VALUES ({places}) ON CONFLICT (id) DO UPDATE SET {others}"
    )
