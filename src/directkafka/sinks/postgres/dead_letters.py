"""Dead letters in a Postgres table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql

from directkafka.sinks.dead_letters.table import DeadLetterDialect, Rows
from directkafka.sinks.postgres.lock_watch import PostgresWatch
from directkafka.sinks.postgres.session import PostgresAddress
from directkafka.sinks.postgres.table_schema import read_table

_DIALECT: Final = DeadLetterDialect(
    micros="CAST(extract(epoch FROM {0}) * 1000000 AS BIGINT)",
    headers="CAST({0} AS TEXT)",
    contains="strpos({0}, {1}) > 0",
    lock=" FOR UPDATE",
)


class PostgresDeadLetters:
    """A sink's table, opened for a replay; see :class:`~directkafka.sinks.dead_letters.table.DeadLetterTable`.

    Args:
        address: the database.
        name: schema, if one is given, and table.
        sink: the sink's name.
    """

    dialect: Final = _DIALECT

    def __init__(self, address: PostgresAddress, name: Sequence[str], *, sink: str) -> None:
        self._address = address
        self._name = tuple(name)
        self.sink = sink
        self.store = address.label
        self.target = sql.Identifier(*name).as_string(None)

    @contextmanager
    def opened(self) -> Iterator[Rows]:
        """A session in autocommit mode."""
        with self._connected() as connection:
            yield _rows_of(connection)

    def inside(self, transaction: psycopg.Cursor[Any]) -> Rows:
        """The transaction of a store's cursor."""
        return _rows_of(transaction.connection)

    def columns(self) -> tuple[str, ...]:
        """From the catalog."""
        with self._connected() as connection:
            table = read_table(connection.cursor(), self._name, None)
        return tuple(column.name for column in table.columns) if table is not None else ()

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with closing(self._address.connect("directkafka replay")) as connection:
            doing = f"a look at the dead letters in {self.sink}"
            with PostgresWatch(self._address, lambda: connection, doing=doing) as watch:
                try:
                    yield connection
                except psycopg.Error as error:
                    raise self._address.translate(error, sink=self.sink, note=watch.note_on(error)) from error


def _rows_of(connection: psycopg.Connection[Any]) -> Rows:
    def rows(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        # A raw cursor takes the numbered parameters that the embedded databases take too.
        with psycopg.RawCursor(connection) as cursor:
            cursor.execute(statement.encode(), tuple(parameters))
            return cursor.fetchall() if cursor.description else []

    return rows
