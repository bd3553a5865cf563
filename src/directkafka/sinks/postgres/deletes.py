"""Deletes of an upsert into Postgres: rows whose keys are no more, and tables that were truncated at their source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from directkafka.sinks.deletes import OP, TRUNCATED
from directkafka.sinks.postgres.table_schema import SQL
from directkafka.sinks.postgres.task_writer import SinkPlan
from directkafka.sinks.write_modes import check_left

Cursor = psycopg.Cursor[Any]


class Deleter:
    """What deletes rows of one batch from one table.

    Args:
        cursor: of the committing transaction.
        plan: the sink's, whose mode has deletes.
        source: where the batch's rows are.
        attempts: those that count.
    """

    def __init__(self, cursor: Cursor, plan: SinkPlan, source: sql.Identifier, attempts: sql.Literal) -> None:
        assert plan.mode.deletes is not None, "nothing is deleted without them"
        self._cursor, self._plan, self._deletes = cursor, plan, plan.mode.deletes
        self._source, self._attempts = source, attempts
        self._column = sql.Identifier(self._deletes.column)

    def truncate(self) -> None:
        """Take out, or mark, what was there before the last row that tells a TRUNCATE; of the batch as well."""
        if not self._deletes.truncates:
            return
        order = self._plan.mode.order
        truncate = self._sql("last_truncate", descending=each(order, "{} DESC"))
        row = self._cursor.connection.execute(self._sql("has_truncate", truncate=truncate)).fetchone()
        if not (row and row[0]):
            return
        if self._deletes.is_soft:
            taken = [name for name in self._deletes.taken(order) if name != self._deletes.column]
            assignments = each(taken, "{0} = coming.{0}") + sql.SQL(", {} = true").format(self._column)
            names = {"truncate": truncate, "is_older": self._not_newer()}
            self._cursor.execute(self._sql("mark_truncated", assignments=assignments, **names))
            self._check_left(self._sql("count_not_truncated", **names))
        else:
            names = {"truncate": truncate, "is_older": self._not_newer()}
            self._cursor.execute(self._sql("truncate_rows", **names))
            self._check_left(self._sql("count_truncated", **names))
        self._cursor.execute(
            self._sql(
                "forget_truncated", truncate=truncate, held=each(order, "held.{}"), coming=each(order, "coming.{}")
            )
        )

    def delete(self, winners: sql.Composed) -> None:
        """Delete the rows of keys that are no more.

        Args:
            winners: the rows that their order puts first among those of their key.

        Raises:
            RowRejectedError: a trigger has kept rows that were to be deleted.
        """
        names = self._names(winners)
        self._cursor.execute(self._sql("delete_rows", **names))
        self._check_left(self._sql("count_undeleted", **names))

    def mark(self, winners: sql.Composed) -> None:
        """Mark the rows of keys that are no more, and remember keys that were never there.

        Args:
            winners: of the rows that delete, those that their order puts first among those of their key.

        Raises:
            RowRejectedError: a trigger has kept rows from being marked.
        """
        names = self._names(winners)
        assignments = each(self._deletes.taken(self._plan.mode.order), "{0} = coming.{0}")
        self._cursor.execute(self._sql("mark_rows", assignments=assignments, **names))
        self._check_left(self._sql("count_unmarked", **names))
        self._cursor.execute(self._sql("insert_marks", stored=self._plan.stored_sql, **names))

    def _names(self, winners: sql.Composed) -> dict[str, sql.Composable]:
        newer = sql.SQL(" AND ({})").format(self._not_newer()) if self._plan.mode.order else sql.SQL("")
        is_same = each(self._plan.mode.key, "held.{0} = coming.{0}", " AND ")
        return {"winners": winners, "is_same": is_same, "not_newer": newer}

    def _check_left(self, statement: sql.Composed) -> None:
        plan = self._plan
        if plan.triggers:
            row = self._cursor.connection.execute(statement).fetchone()
            check_left(store=plan.store, sink=plan.sink, left=row[0] if row else 0, triggers=plan.triggers)

    def _not_newer(self) -> sql.Composed:
        """Whether the row that is there is not newer than what comes. A null in its order is older than anything."""
        order = self._plan.mode.order
        return sql.SQL("{} OR ({}) <= ({})").format(
            each(order, "held.{} IS NULL", " OR "), each(order, "held.{}"), each(order, "coming.{}")
        )

    def _sql(self, block: str, **names: sql.Composable) -> sql.Composed:
        plan = self._plan
        known: dict[str, sql.Composable] = {
            "target": plan.target_sql, "staging": self._source, "columns": plan.columns_sql, "column": self._column,
            "attempt": plan.attempt_sql, "attempts": self._attempts, "op": sql.Identifier(OP),
            "truncated": sql.Literal(TRUNCATED),
        }  # fmt: skip
        return sql.SQL(SQL[block]).format(**known | names)


def each(names: Sequence[str], template: str, between: str = ", ") -> sql.Composed:
    """A template with each of some names, quoted.

    Args:
        names: of columns.
        template: SQL.
        between: what stands between two of them.
    """
    return sql.SQL(between).join(sql.SQL(template).format(sql.Identifier(name)) for name in names)
