"""Deletes of an upsert into an embedded database: rows whose keys are no more, and tables that were truncated."""

from __future__ import annotations

from directkafka.sinks.deletes import OP, TRUNCATED
from directkafka.sinks.embedded.file.connection import FileConnection, quoted
from directkafka.sinks.embedded.plan import SQL, FilePlan
from directkafka.sinks.write_modes import check_left


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
        """Take out, or mark, what was there before the last row that tells a TRUNCATE; of the batch as well."""
        if not self._deletes.truncates or not self._connection.rows(self._sql("count_truncates"))[0][0]:
            return
        plan, order = self._plan, self._plan.mode.order
        if self._deletes.is_soft:
            taken = [name for name in self._deletes.taken(order) if name != self._deletes.column]
            assignments = [f"{quoted(name)} = coming.{plan.coming_column(name)}" for name in taken]
            marked = quoted(self._deletes.column)
            statement = self._sql(
                "mark_truncated",
                assignments=", ".join([*assignments, f"{marked} = (1 = 1)"]),
                coming=plan.all_coming,
                descending=", ".join(f"{plan.coming_column(name)} DESC" for name in order),
                marked=marked,
                is_older=self._not_newer("coming."),
            )
        else:
            statement = self._sql("truncate_rows", is_older=self._not_newer())
        self._connection.rows(statement)
        earlier, later = (
            ", ".join(f"{place}.{plan.coming_column(name)}" for name in order) for place in ("earlier", "later")
        )
        self._connection.rows(self._sql("forget_truncated", earlier=earlier, later=later))

    def delete(self, winners: str) -> None:
        """Delete the rows of keys that are no more.

        Args:
            winners: the rows that their order puts first among those of their key.

        Raises:
            RowRejectedError: a trigger has kept rows that were to be deleted.
        """
        if self._deletes.is_soft:
            return
        plan = self._plan
        names = {
            "winners": winners,
            "is_same": " AND ".join(f"held.{quoted(name)} = {plan.coming_column(name)}" for name in plan.mode.key),
            "column": plan.coming_column(self._deletes.column),
            "not_newer": f" AND ({self._not_newer()})" if plan.mode.order else "",
        }
        self._connection.rows(self._sql("delete_rows", **names))
        if plan.triggers:
            ((left,),) = self._connection.rows(self._sql("count_undeleted", **names))
            check_left(store=plan.store, sink=plan.sink, left=left, triggers=plan.triggers)

    def _not_newer(self, place: str = "") -> str:
        """Whether the row that is there is not newer than what comes. A null in its order is older than anything."""
        order = self._plan.mode.order
        held = [f"held.{quoted(name)}" for name in order]
        is_null = " OR ".join(f"{name} IS NULL" for name in held)
        coming = ", ".join(f"{place}{self._plan.coming_column(name)}" for name in order)
        return f"{is_null} OR ({', '.join(held)}) <= ({coming})"

    def _sql(self, block: str, **names: str) -> str:
        plan = self._plan
        op = plan.coming_column(OP) if self._deletes.truncates else ""
        known = {"target": plan.target_sql, "batch": self._batch, "op": op, "truncated": f"'{TRUNCATED}'"}
        return SQL[block].format(**known | names)


def keep_marked(name: str, column: str) -> str:
    """The assignment to a column that a row which is marked keeps.

    Args:
        name: of the column.
        column: says whether the row is marked.
    """
    return SQL["keep_marked"].format(name=quoted(name), column=quoted(column))
