"""Step 4's middle: the statements that move a batch's rows into the target, inside the store's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from directkafka.errors import RowRejectedError
from directkafka.sinks.api import TaskReport
from directkafka.sinks.ledger import check_count
from directkafka.sinks.mysql.deletes import Deleter, each
from directkafka.sinks.mysql.session import Connection, affected, execute, names_sql, quoted
from directkafka.sinks.mysql.table_schema import SQL
from directkafka.sinks.mysql.task_writer import SinkPlan
from directkafka.sinks.mysql.values_encoder import send


def move_rows(connection: Connection, plan: SinkPlan, staging: tuple[str, str], reports: Sequence[TaskReport]) -> int:
    """Move the reported rows into the target.

    Args:
        connection: in the committing transaction.
        plan: the sink's.
        staging: this batch's staging table.
        reports: of all tasks that count.

    Returns:
        The number of rows that came, as the tasks count them.

    Raises:
        RowCountError: a staging table holds other numbers than were reported.
        RowRejectedError: a row without its key, or two rows of a key that nothing decides between.
        pymysql.MySQLError: untranslated.
    """
    return _Move(connection, plan, quoted(*staging)).run(reports)


class _Move:
    """One batch on its way into one table."""

    def __init__(self, connection: Connection, plan: SinkPlan, staging: str) -> None:
        self._connection = connection
        self._plan = plan
        self._staging = staging
        self._attempts = ""

    def run(self, reports: Sequence[TaskReport]) -> int:
        """The rows that came."""
        plan = self._plan
        if plan.mode.name == "replace":
            execute(self._connection, self._sql("empty_table"))
        # In the order of the tasks, which says what comes first.
        counted = [report for report in reports if report.staged or report.encoded]
        staged = [report for report in counted if report.staged]
        if not counted:
            return 0
        self._check_staged(staged)
        if plan.mode.adds_rows:
            written = self._send_encoded(counted)
            return written + (self._insert("append", staged) if staged else 0)
        # Rows that came through the driver join those that are staged, so that one statement sees them all.
        if not staged:
            execute(self._connection, self._sql("drop_temporary"))
            execute(self._connection, self._sql("create_temporary", definitions=plan.staging_definitions_sql))
        self._send_encoded(counted)
        self._move_staged(counted)
        if not staged:
            execute(self._connection, self._sql("drop_temporary"))
        return sum(report.rows for report in reports)

    def _move_staged(self, counted: Sequence[TaskReport]) -> None:
        self._attempts = _attempts(counted)
        deleter = None
        if self._plan.mode.deletes is not None:
            deleter = Deleter(self._connection, self._plan, self._plan.mode.deletes, self._sql)
            deleter.truncate()
        self._refuse_nulls()
        match self._plan.mode.name:
            case "merge":
                self._merge()
            case "upsert":
                self._upsert(deleter)
            case _:
                self._insert("ignore", counted)

    def _sql(self, block: str, **names: str) -> str:
        plan = self._plan
        known = {
            "target": plan.target_sql, "staging": self._staging, "columns": plan.columns_sql,
            "attempt": plan.attempt_sql, "row_number": plan.row_number_sql, "attempts": self._attempts,
            "keys": names_sql(plan.mode.key), "nothing": f"{quoted(plan.columns[0])} = {self._held(plan.columns[0])}",
        }  # fmt: skip
        return SQL[block].format(**known | names)

    def _held(self, name: str) -> str:
        """A column of the row that is there."""
        return f"{self._plan.target_sql}.{quoted(name)}"

    def _insert(self, block: str, reports: Sequence[TaskReport]) -> int:
        self._attempts = _attempts(reports)
        return affected(self._connection, self._sql(block))

    def _send_encoded(self, counted: Sequence[TaskReport]) -> int:
        """Run the statements that the tasks have made, into the table or into the staging table."""
        encoded = (report.encoded for report in counted if report.encoded)
        return send(self._connection, (chunk for rows in encoded for chunk in rows.chunks))

    def _check_staged(self, staged: Sequence[TaskReport]) -> None:
        """Count before moving: the table may have been dropped by somebody, and made anew by a task that came late."""
        if not staged:
            return
        self._attempts = _attempts(staged)
        counts_by_attempt = dict(execute(self._connection, self._sql("count_attempts")))
        other = [report for report in staged if counts_by_attempt.get(report.attempt, 0) != report.rows - report.folded]
        check_count(
            store=self._plan.store,
            sink=self._plan.sink,
            reported=sum(report.rows - report.folded for report in other),
            stored=sum(counts_by_attempt.get(report.attempt, 0) for report in other),
        )

    def _refuse_nulls(self) -> None:
        for names, reason in self._plan.mode.null_reasons().items():
            is_null = " OR ".join(f"{quoted(name)} IS NULL" for name in names)
            ((count,),) = execute(self._connection, self._sql("count_nulls", is_null=is_null))
            if count:
                detail = f"{count} rows have a null {reason}"
                raise RowRejectedError(store=self._plan.store, sink=self._plan.sink, detail=detail)

    def _merge(self) -> None:
        add = self._plan.mode.add
        statement = self._sql(
            "merge",
            columns=names_sql((*self._plan.mode.key, *add)),
            sums=", ".join(f"coalesce(sum({quoted(name)}), 0) AS {quoted(name)}" for name in add),
            additions=", ".join(
                f"{quoted(name)} = coalesce({self._held(name)}, 0) + coming.{quoted(name)}" for name in add
            ),
        )
        execute(self._connection, statement)

    def _upsert(self, deleter: Deleter | None) -> None:
        mode, winners = self._plan.mode, self._winners()
        others = [name for name in self._plan.columns if name not in mode.key]
        if double := execute(self._connection, self._sql("find_double_key", winners=winners)) if others else []:
            *values, count = double[0]
            detail = mode.double_key(values, count)
            raise RowRejectedError(store=self._plan.store, sink=self._plan.sink, detail=detail)
        if deleter is not None:
            winners = deleter.delete(winners) if mode.removes_rows else self._winners(only="NOT {}")
        if mode.order:
            winners = self._newer(winners)
        stored = [name for name in self._plan.stored if name not in mode.key]
        replacement = ", ".join(f"{quoted(name)} = coming.{quoted(name)}" for name in stored)
        nothing = f"{quoted(mode.key[0])} = {self._held(mode.key[0])}"
        columns = names_sql(self._plan.stored)
        statement = self._sql("upsert", columns=columns, winners=winners, replacement=replacement or nothing)
        execute(self._connection, statement)
        if deleter is not None and not mode.removes_rows:
            deleter.mark(self._winners(only="{}"))

    def _winners(self, *, only: str = "") -> str:
        """The rows of the batch that their order puts first among those of their key; all, if there is no order.

        Args:
            only: a condition of the column that deletes, for those that compete.
        """
        mode = self._plan.mode
        condition = f" AND {only.format(quoted(mode.deletes.column))}" if only and mode.deletes is not None else ""
        if not mode.order:
            return self._sql("all_rows", only=condition)
        descending = ", ".join(f"{quoted(name)} DESC" for name in mode.order)
        return self._sql("highest_rows", descending=descending, rank=self._plan.rank_sql, only=condition)

    def _newer(self, winners: str) -> str:
        """Those of the rows that the row of their key that is there does not keep out."""
        mode = self._plan.mode

        return self._sql(
            "newer_rows",
            winners=winners,
            coming=each(self._plan.columns, "newer.{0}"),
            is_same=each(mode.key, "held.{0} = newer.{0}", " AND "),
            is_new=f"held.{quoted(mode.key[0])} IS NULL",
            is_null=each(mode.order, "held.{0} IS NULL", " OR "),
            held=each(mode.order, "held.{0}"),
            order=each(mode.order, "newer.{0}"),
        )


def _attempts(reports: Sequence[TaskReport]) -> str:
    return ", ".join(f"x'{report.attempt}'" for report in reports)
