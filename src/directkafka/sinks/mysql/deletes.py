"""Deletes of an upsert into MySQL: rows whose keys are no more, and tables that were truncated at their source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from directkafka.sinks.deletes import OP, TRUNCATED, Deletes
from directkafka.sinks.mysql.session import Connection, execute, names_sql, quoted
from directkafka.sinks.mysql.task_writer import SinkPlan


class Statements(Protocol):
    """Makes SQL of a block and names, with the names that most blocks have."""

    def __call__(self, block: str, **names: str) -> str:
        """The statement."""


class Deleter:
    """What deletes rows of one batch from one table.

    Args:
        connection: in the committing transaction.
        plan: the sink's.
        deletes: those of its mode.
        statements: make the batch's SQL.
    """

    def __init__(self, connection: Connection, plan: SinkPlan, deletes: Deletes, statements: Statements) -> None:
        self._connection, self._plan, self._deletes, self._sql = connection, plan, deletes, statements

    def truncate(self) -> None:
        """Take out, or mark, what was there before the last row that tells a TRUNCATE; of the batch as well."""
        op = {"op": quoted(OP), "truncated": f"'{TRUNCATED}'"}
        if not self._deletes.truncates or not execute(self._connection, self._sql("count_truncates", **op))[0][0]:
            return
        order, column = self._plan.mode.order, self._deletes.column
        taken = [name for name in self._deletes.taken(order) if name != column]
        variables = dict(zip(taken, [f"@directkafka_{number}" for number in range(len(taken))], strict=True))
        execute(
            self._connection,
            self._sql(
                "last_truncate", taken=each(taken, "{0}"), variables=", ".join(variables.values()),
                descending=each(order, "{0} DESC"), **op,
            ),
        )  # fmt: skip
        of_order = ", ".join(variables[name] for name in order)
        is_older = f"{each(order, '{0} IS NULL', ' OR ')} OR ({each(order, '{0}')}) <= ({of_order})"
        if self._deletes.is_soft:
            assignments = [f"{quoted(name)} = {variable}" for name, variable in variables.items()]
            statement = self._sql(
                "mark_truncated",
                assignments=", ".join([*assignments, f"{quoted(column)} = 1"]),
                is_older=is_older,
            )
        else:
            statement = self._sql("truncate_rows", is_older=is_older)
        execute(self._connection, statement)
        execute(self._connection, self._sql("forget_truncated", order=each(order, "{0}"), variables=of_order))

    def delete(self, winners: str) -> str:
        """Delete the rows of keys that are no more; those of the winners that go in.

        Args:
            winners: the rows that their order puts first among those of their key.
        """
        column = quoted(self._deletes.column)
        execute(self._connection, self._sql("delete_rows", column=column, **self._names(winners)))
        return self._sql("live_rows", winners=winners, column=column)

    def mark(self, winners: str) -> None:
        """Mark the rows of keys that are no more, and remember keys that were never there.

        Args:
            winners: of the rows that delete, those that their order puts first among those of their key.
        """
        names = self._names(winners)
        assignments = each(self._deletes.taken(self._plan.mode.order), "held.{0} = coming.{0}")
        execute(self._connection, self._sql("mark_rows", assignments=assignments, **names))
        execute(self._connection, self._sql("insert_marks", stored=names_sql(self._plan.stored), **names))

    def _names(self, winners: str) -> dict[str, str]:
        order = self._plan.mode.order
        is_null, held = each(order, "held.{0} IS NULL", " OR "), each(order, "held.{0}")
        return {
            "winners": winners,
            "is_same": each(self._plan.mode.key, "held.{0} = coming.{0}", " AND "),
            "not_newer": f"{is_null} OR ({held}) <= ({each(order, 'coming.{0}')})" if order else "1 = 1",
        }


def each(names: Sequence[str], template: str, between: str = ", ") -> str:
    """A template with each of some names, quoted.

    Args:
        names: of columns.
        template: SQL.
        between: what stands between two of them.
    """
    return between.join(template.format(quoted(name)) for name in names)
