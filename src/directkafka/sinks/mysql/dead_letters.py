"""Dead letters in a table of MySQL or MariaDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any, Final

from directkafka.sinks.dead_letters.table import DeadLetterDialect, Rows
from directkafka.sinks.mysql.lock_watch import watched
from directkafka.sinks.mysql.session import Connection, MySQLAddress, execute, quoted
from directkafka.sinks.mysql.store import MySQLTransaction
from directkafka.sinks.mysql.table_schema import read_table

_DIALECT: Final = DeadLetterDialect(
    # Sessions are in UTC, and what is in a DATETIME is so, too.
    micros="timestampdiff(MICROSECOND, '1970-01-01', {0})",
    headers="{0}",
    contains="instr({0}, {1}) > 0",
    lock=" FOR UPDATE",
    is_same_topic='CAST("topic" AS BINARY) = CAST($1 AS BINARY)',
    text="CHAR",
    whole="SIGNED",
    claim_type="TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    update='UPDATE {target} AS letter JOIN {planned} ON {same} SET letter."replay_claim" = planned.claim '
    'WHERE letter."replay_claim" IS NULL',
)

_PARAMETER: Final = re.compile(r"\$(\d+)")


class MySQLDeadLetters:
    """A sink's table, opened for a replay; see :class:`~directkafka.sinks.dead_letters.table.DeadLetterTable`.

    Args:
        address: the database.
        qualified_name: database and table.
        sink: the sink's name.
        stop: what ends a wait, if anything does.
    """

    dialect: Final = _DIALECT

    def __init__(
        self, address: MySQLAddress, qualified_name: tuple[str, str], *, sink: str, stop: Event | None
    ) -> None:
        self._address = address
        self._qualified_name = qualified_name
        self._stop = stop
        self.sink = sink
        self.store = address.label
        self.target = quoted(*qualified_name)

    @contextmanager
    def opened(self) -> Iterator[Rows]:
        """A session in autocommit mode."""
        with watched(self._address, "directkafka replay", sink=self.sink, stop=self._stop) as connection:
            yield _rows_of(connection)

    def inside(self, transaction: MySQLTransaction) -> Rows:
        """The committing transaction."""
        return _rows_of(transaction.connection)

    def columns(self) -> tuple[str, ...]:
        """From the catalog."""
        with watched(self._address, "directkafka replay", sink=self.sink, stop=self._stop) as connection:
            table = read_table(connection, *self._qualified_name)
        return tuple(column.name for column in table.columns) if table is not None else ()


def _rows_of(connection: Connection) -> Rows:
    def rows(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        # pymysql puts values in the place of percent signs; ours are numbered.
        values = {f"p{number}": value for number, value in enumerate(parameters, start=1)}
        return execute(connection, _PARAMETER.sub(r"%(p\1)s", statement.replace("%", "%%")), values)

    return rows
