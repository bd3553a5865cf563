"""What a sink's table has, counted outside any batch: one side of ``directkafka verify``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from directkafka.sinks.postgres_plan import Mode, identifiers
from directkafka.sinks.postgres_table import SQL, Table
from directkafka.stores.base import TableCount

__all__ = ["recount"]

#: Columns that name the record a row came from.
_RECORD: Final = ("topic", "partition", "offset")


def recount(connection: psycopg.Connection[Any], table: Table, mode: Mode, add: Sequence[str]) -> TableCount:
    """Count the table's rows, the records that several of them name, and the sums of a merge.

    The statements see one snapshot, so that a batch that commits meanwhile is in all numbers or in none.

    Raises:
        psycopg.Error: untranslated.
    """
    target = sql.Identifier(table.schema, table.name)
    names = {column.name for column in table.columns}
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        rows = _one(connection, sql.SQL(SQL["count_target"]).format(target=target))
        doubled = 0
        if names.issuperset(_RECORD):
            statement = sql.SQL(SQL["count_doubled"]).format(target=target, record=identifiers(_RECORD))
            doubled = _one(connection, statement)
        sums = {
            name: _one(connection, sql.SQL(SQL["sum_target"]).format(target=target, column=sql.Identifier(name)))
            for name in add
        }
    return TableCount(rows=rows, doubled=doubled, is_folded=mode != "append", sums=sums)


def _one(connection: psycopg.Connection[Any], statement: sql.Composed) -> Any:
    found = connection.execute(statement).fetchone()
    assert found is not None, "an aggregate has one row"
    return found[0]
