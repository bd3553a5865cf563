"""Deletes of an upsert into an embedded database: rows whose keys are no more, and tables that were truncated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from directkafka.sinks.deletes import OP, TRUNCATED
from directkafka.sinks.embedded.file.connection import FileConnection, quoted
from directkafka.sinks.embedded.plan import SQL, FilePlan
from directkafka.sinks.write_modes import check_left

#: The last row of a batch that tells a TRUNCATE, in the connection's own schema.
_TRUNCATE: Final = "directkafka_truncate"


class Deleter:
    """What deletes rows of one batch from one table.

    Args:
        connection: in the committing transaction.
        plan: the sink's, whose mode has deletes.
        batch: the table with the batch's rows.
    """

    def __init__(self, connection: FileConnection, plan: FilePlan, batch: str) -> None:
        assert plan.mode.deletes is not None, "nothing is deleted without them"
        self._connection, self._plan, self._batch = connection, plan, batch
        self._deletes = plan.mode.deletes

    def truncate(self) -> None:
        """Take out, or mark, what was there before the last row that tells a TRUNCATE; of the batch as well.

        Raises:
            RowRejectedError: a trigger has kept rows that were to be deleted.
        """
        if not self._deletes.truncates or not self._connection.rows(self._sql("count_truncates"))[0][0]:
            return
        plan, order = self._plan, self._plan.mode.order
        descending = ", ".join(f"{plan.coming_column(name)} DESC" for name in order)
        self._connection.rows(self._sql("create_truncate", truncate=quoted(_TRUNCATE), descending=descending))
        is_older = self._not_newer()
        if self._deletes.is_soft:
            taken = [name for name in self._deletes.taken(order) if name != self._deletes.column]
            assignments = f"{self._assignments(taken)}, {quoted(self._deletes.column)} = (1 = 1)"
            self._connection.rows(self._sql("mark_truncated", assignments=assignments, is_older=is_older))
            self._check_left(self._sql("count_not_truncated", is_older=is_older))
        else:
            self._connection.rows(self._sql("truncate_rows", is_older=is_older))
            self._check_left(self._sql("count_truncated", is_older=is_older))
        earlier, later = (
            ", ".join(f"{alias}.{plan.coming_column(name)}" for name in order) for alias in ("earlier", "later")
        )
        self._connection.rows(self._sql("forget_truncated", earlier=earlier, later=later))
        self._connection.rows(self._sql("drop_truncate"))

    def delete(self, winners: str) -> None:
        """Delete the rows of keys that are no more.

        Args:
            winners: the rows that their order puts first among those of their key.

        Raises:
            RowRejectedError: a trigger has kept rows that were to be deleted.
        """
        column = self._plan.coming_column(self._deletes.column)
        if not self._connection.rows(self._sql("count_deletes", column=column))[0][0]:
            # SQLite would go through the whole table to find that out.
            return
        names = self._names(winners) | {"column": column}
        self._connection.rows(self._sql("delete_rows", **names))
        self._check_left(self._sql("count_undeleted", **names))

    def mark(self, winners: str) -> None:
        """Mark the rows of keys that are no more, and remember keys that were never there.

        Args:
            winners: of the rows that delete, those that their order puts first among those of their key.

        Raises:
            RowRejectedError: a trigger has kept rows from being marked.
        """
        names = self._names(winners)
        assignments = self._assignments(self._deletes.taken(self._plan.mode.order))
        self._connection.rows(self._sql("mark_rows", assignments=assignments, **names))
        self._check_left(self._sql("count_unmarked", **names))
        self._connection.rows(self._sql("insert_marks", **names))

    def _names(self, winners: str) -> dict[str, str]:
        plan = self._plan
        same = (f"held.{quoted(name)} = coming.{plan.coming_column(name)}" for name in plan.mode.key)
        not_newer = f" AND ({self._not_newer()})" if plan.mode.order else ""
        return {"winners": winners, "is_same": " AND ".join(same), "not_newer": not_newer}

    def _assignments(self, names: Iterable[str]) -> str:
        return ", ".join(f"{quoted(name)} = coming.{self._plan.coming_column(name)}" for name in names)

    def _check_left(self, statement: str) -> None:
        plan = self._plan
        if plan.triggers:
            ((left,),) = self._connection.rows(statement)
            check_left(store=plan.store, sink=plan.sink, left=left, triggers=plan.triggers)

    def _not_newer(self) -> str:
        """Whether the row that is there is not newer than what comes. A null in its order is older than anything."""
        order = self._plan.mode.order
        held = [f"held.{quoted(name)}" for name in order]
        is_null = " OR ".join(f"{name} IS NULL" for name in held)
        coming = ", ".join(f"coming.{self._plan.coming_column(name)}" for name in order)
        return f"{is_null} OR ({', '.join(held)}) <= ({coming})"

    def _sql(self, block: str, **names: str) -> str:
        plan = self._plan
        op = plan.coming_column(OP) if self._deletes.truncates else ""
        known = {
            "target": plan.target_sql, "batch": self._batch, "op": op, "truncated": f"'{TRUNCATED}'",
            "truncate": quoted("temp", _TRUNCATE), "all": plan.all_coming, "columns": plan.columns_sql,
            "coming": plan.coming(plan.stored), "insert": plan.dialect.insert_sql,
            "marked": quoted(self._deletes.column),
        }  # fmt: skip
        return SQL[block].format(**known | names)
