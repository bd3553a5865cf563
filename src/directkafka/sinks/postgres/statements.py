"""Step 4's middle: the statements that move a batch's rows into the target, inside the store's transaction."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from directkafka.errors import RowRejectedError, SchemaMismatchError
from directkafka.sinks.api import BatchAttempt, EncodedRows, TaskReport
from directkafka.sinks.deletes import null_delete_reason, null_key_reason, null_order_reason
from directkafka.sinks.ledger import check_count
from directkafka.sinks.postgres.copy_format import copy_chunks
from directkafka.sinks.postgres.deletes import Deleter, each
from directkafka.sinks.postgres.table_schema import SQL
from directkafka.sinks.postgres.task_writer import SinkPlan, identifiers
from directkafka.sinks.staging import ended_staging_pattern, stale_staging_pattern
from directkafka.sinks.write_modes import check_left, check_taken

_log = logging.getLogger("directkafka.sinks.postgres.sink")

#: How long the committing transaction waits for a zombie task that still writes to a staging table.
_DROP_LOCK_TIMEOUT_MS: Final = 200

Cursor = psycopg.Cursor[Any]


def move_rows(cursor: Cursor, plan: SinkPlan, staging: str, reports: Sequence[TaskReport]) -> int:
    """Move the reported rows into the target, whose columns must be as they were when the sink was prepared.

    Args:
        cursor: of the committing transaction.
        plan: the sink's.
        staging: name of this batch's staging table.
        reports: of all tasks that count.

    Returns:
        The number of rows that came, as the tasks count them.

    Raises:
        RowCountError: a staging table holds other numbers than were reported.
        RowRejectedError: a row without its key, or rows that the table itself has left out.
        SchemaMismatchError: somebody has changed a column's type.
        psycopg.Error: untranslated.
    """
    count = _move_rows(cursor, plan, staging, reports)
    _check_declared(cursor, plan)
    return count


def _check_declared(cursor: Cursor, plan: SinkPlan) -> None:
    """Behind the rows: COPY's bytes of a bigint are a number to a double precision too, and another one."""
    rows = cursor.connection.execute(SQL["declared_types"], {"table": plan.target_sql.as_string(cursor)}).fetchall()
    now = {name: (oid, modifier, text) for name, oid, modifier, text in rows}
    for name, oid, modifier in plan.declared:
        declared = now.get(name)
        if declared is None or declared[:2] != (oid, modifier):
            is_now = "is gone" if declared is None else f"is {declared[2]} now"
            raise SchemaMismatchError(
                store=plan.store,
                sink=plan.sink,
                detail=f"column {name!r} was changed while the pipeline ran, and {is_now}; nothing of this batch is "
                "stored. Start the pipeline again: it looks at the table anew",
            )


def _move_rows(cursor: Cursor, plan: SinkPlan, staging: str, reports: Sequence[TaskReport]) -> int:
    staged = [report for report in reports if report.staged]
    encoded = [report.encoded for report in reports if report.encoded]
    if plan.mode.adds_rows:
        if plan.mode.name == "replace":
            _empty(cursor, plan)
        return _append_encoded(cursor, plan, encoded) + _append_staged(cursor, plan, staging, staged)
    _check_staged(cursor, plan, staging, staged)
    # In the order of the tasks, which says what comes first.
    counted = [report for report in reports if report.staged or report.encoded]
    if not counted:
        return 0
    # Rows that came through the driver join those that are staged, so that one statement sees them all.
    source = plan.staging_sql(staging) if staged else _make_temporary(cursor, plan, staging)
    _copy_encoded(cursor, plan, source, encoded)
    if plan.mode.deletes is not None:
        Deleter(cursor, plan, source, _attempts(counted)).truncate()
    _refuse_nulls(cursor, plan, source, counted)
    _insert(cursor, plan, source, counted)
    if plan.triggers and plan.mode.key:
        _check_keys(cursor, plan, source, counted)
    return sum(report.rows for report in reports)


def drop_staging(cursor: Cursor, plan: SinkPlan, batch: BatchAttempt) -> None:
    """Drop the staging tables of batches up to this one; those that a zombie task still writes to are left.

    A zombie may be stopped for hours, and the batch must not wait for it; ending its session would need a
    right that the driver may not have. The sink asks again with its next batch, and the next fence does.

    Args:
        cursor: of the committing transaction.
        plan: the sink's.
        batch: the one that is committed.
    """
    connection = cursor.connection
    named = {
        "schema": plan.staging_schema,
        "pipeline": stale_staging_pattern(batch.pipeline, plan.ledger_schema),
        "generation": batch.generation,
        "driver": ended_staging_pattern(batch, plan.sink, plan.ledger_schema),
        "batch_id": batch.batch_id,
    }
    there = connection.execute(SQL["ended_staging"], named).fetchall()
    if not there:
        return
    limit = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
    for (name,) in there:
        try:
            with connection.transaction():
                cursor.execute(f"SET LOCAL lock_timeout = {_DROP_LOCK_TIMEOUT_MS}")
                cursor.execute(sql.SQL(SQL["drop_staging"]).format(staging=plan.staging_sql(name)))
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", limit)
        except psycopg.errors.LockNotAvailable:
            _log.warning("%s is still written to by a task that does not count; left for later", plan.staging_sql(name))


def _empty(cursor: Cursor, plan: SinkPlan) -> None:
    cursor.execute(sql.SQL(SQL["empty_table"]).format(target=plan.target_sql))
    if plan.triggers:
        row = cursor.connection.execute(sql.SQL(SQL["count_left"]).format(target=plan.target_sql)).fetchone()
        check_left(store=plan.store, sink=plan.sink, left=row[0] if row else 0, triggers=plan.triggers)


def _append_encoded(cursor: Cursor, plan: SinkPlan, encoded: Sequence[EncodedRows]) -> int:
    stored = _copy_encoded(cursor, plan, plan.target_sql, encoded)
    _check_taken(plan, sent=sum(rows.row_count for rows in encoded), taken=stored)
    return stored


def _append_staged(cursor: Cursor, plan: SinkPlan, staging: str, staged: Sequence[TaskReport]) -> int:
    """Move staged rows, and count them as they move: one pass over the table instead of two.

    An attempt's rows were staged by one COPY, all of them or none, so a right total means a right count for each.
    """
    if not staged:
        return 0
    moved = 0
    if _is_there(cursor, plan, staging):
        moved = _insert(cursor, plan, plan.staging_sql(staging), staged)
    reported = sum(report.rows for report in staged)
    if moved != reported:
        # Either rows are gone from the staging area, and are written again, or the table has not taken them.
        _check_staged(cursor, plan, staging, staged)
    _check_taken(plan, sent=reported, taken=moved)
    return moved


def _check_keys(cursor: Cursor, plan: SinkPlan, source: sql.Identifier, counted: Sequence[TaskReport]) -> None:
    """The modes with a key leave rows out themselves, so their number says nothing; but each key must be there."""
    key = plan.mode.key
    statement = sql.SQL(SQL["count_keys"]).format(
        target=plan.target_sql,
        keys=identifiers(key),
        is_same=each(key, "held.{0} = coming.{0}", " AND "),
        coming=each(key, "coming.{}"),
        rows=_going_in(plan, source, counted),
    )
    row = cursor.connection.execute(statement).fetchone()
    assert row is not None, "an aggregate without GROUP BY has one row"
    _check_taken(plan, sent=row[0], taken=row[1])


def _check_taken(plan: SinkPlan, *, sent: int, taken: int) -> None:
    check_taken(store=plan.store, sink=plan.sink, sent=sent, taken=taken, triggers=plan.triggers)


def _is_there(cursor: Cursor, plan: SinkPlan, staging: str) -> bool:
    name = {"name": plan.staging_sql(staging).as_string(cursor)}
    row = cursor.connection.execute(SQL["existing_staging"], name).fetchone()
    return bool(row and row[0])


def _check_staged(cursor: Cursor, plan: SinkPlan, staging: str, staged: Sequence[TaskReport]) -> None:
    """Count before moving: crash recovery empties unlogged tables, and would lose the rows in silence."""
    if not staged:
        return
    counts_by_attempt: dict[str, int] = {}
    if _is_there(cursor, plan, staging):
        table = plan.staging_sql(staging)
        statement = sql.SQL(SQL["count_attempts"]).format(
            staging=table, attempt=plan.attempt_sql, attempts=_attempts(staged)
        )
        counted = cursor.connection.execute(statement).fetchall()
        counts_by_attempt = {attempt.hex: count for attempt, count in counted}
    other = [report for report in staged if counts_by_attempt.get(report.attempt, 0) != report.rows - report.folded]
    check_count(
        store=plan.store,
        sink=plan.sink,
        reported=sum(report.rows - report.folded for report in other),
        stored=sum(counts_by_attempt.get(report.attempt, 0) for report in other),
    )


def _copy_encoded(cursor: Cursor, plan: SinkPlan, table: sql.Identifier, encoded: Sequence[EncodedRows]) -> int:
    """Rows that the server says it has stored."""
    if not encoded:
        return 0
    statement = plan.copy_sql(table, with_attempt=not plan.mode.adds_rows)
    return copy_chunks(cursor, statement, (chunk for rows in encoded for chunk in rows.chunks))


def _make_temporary(cursor: Cursor, plan: SinkPlan, staging: str) -> sql.Identifier:
    table = sql.Identifier("pg_temp", staging)
    cursor.execute(sql.SQL(SQL["create_temporary"]).format(staging=table, definitions=plan.definitions_sql))
    return table


def _refuse_nulls(cursor: Cursor, plan: SinkPlan, source: sql.Identifier, reports: Sequence[TaskReport]) -> None:
    deletes = plan.mode.deletes
    if deletes is not None:
        _refuse_nulls_in(
            cursor, plan, source, reports, names=plan.mode.key, reason=null_key_reason(plan.mode.key, deletes)
        )
        _refuse_nulls_in(cursor, plan, source, reports, names=[deletes.column], reason=null_delete_reason(deletes))
    elif plan.refuse_null_keys:
        _refuse_nulls_in(
            cursor, plan, source, reports, names=plan.mode.key,
            reason=f"in the key {', '.join(plan.mode.key)}, and its unique index would not see that two of them "
            "are the same: filter them out in the transform, or make the index NULLS NOT DISTINCT (since Postgres 15)",
        )  # fmt: skip
    if plan.mode.order:
        _refuse_nulls_in(
            cursor, plan, source, reports, names=plan.mode.order,
            reason=null_order_reason(plan.mode.order),
        )  # fmt: skip


def _refuse_nulls_in(
    cursor: Cursor,
    plan: SinkPlan,
    source: sql.Identifier,
    reports: Sequence[TaskReport],
    *,
    names: Sequence[str],
    reason: str,
) -> None:
    is_null = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(sql.Identifier(name)) for name in names)
    statement = sql.SQL(SQL["count_nulls"]).format(
        staging=source, is_null=is_null, attempt=plan.attempt_sql, attempts=_attempts(reports)
    )
    row = cursor.connection.execute(statement).fetchone()
    if row and row[0]:
        raise RowRejectedError(store=plan.store, sink=plan.sink, detail=f"{row[0]} rows have a null {reason}")


def _insert(cursor: Cursor, plan: SinkPlan, source: sql.Identifier, reports: Sequence[TaskReport]) -> int:
    if not reports:
        return 0
    if plan.mode.name == "upsert":
        return _upsert(cursor, plan, source, reports)
    block = "append" if plan.mode.name == "replace" else plan.mode.name
    key, add = plan.mode.key, plan.mode.add
    keys = identifiers(key)
    by_key = sql.SQL("({})").format(keys) if key else sql.SQL("")
    order = sql.SQL("{},").format(keys) if key else sql.SQL("")
    names = identifiers((*key, *add)) if plan.mode.name == "merge" else plan.columns_sql
    statement = sql.SQL(SQL[block]).format(
        target=plan.target_sql,
        staging=source,
        columns=names,
        conflict=by_key,
        order=order,
        keys=keys,
        sums=each(add, "coalesce(sum({}), 0)"),
        additions=each(add, "{0} = coalesce(held.{0}, 0) + excluded.{0}"),
        attempt=plan.attempt_sql,
        attempts=_attempts(reports),
        row_number=plan.row_number_sql,
    )
    cursor.execute(statement)
    return cursor.rowcount


def _upsert(cursor: Cursor, plan: SinkPlan, source: sql.Identifier, reports: Sequence[TaskReport]) -> int:
    winners = _winners(plan, source, reports)
    if plan.mode.deletes is not None:
        # Of two rows of a key one may delete, and the other go in: the statement below would not see both.
        _refuse_double_key(cursor, plan, winners)
    if plan.mode.removes_rows:
        Deleter(cursor, plan, source, _attempts(reports)).delete(winners)
    statement = sql.SQL(SQL["upsert"]).format(
        target=plan.target_sql, columns=plan.stored_sql, winners=_going_in(plan, source, reports),
        keys=identifiers(plan.mode.key), action=_replacement(plan),
    )  # fmt: skip
    try:
        with cursor.connection.transaction():
            cursor.execute(statement)
            count = cursor.rowcount
    except psycopg.errors.CardinalityViolation as error:
        _refuse_double_key(cursor, plan, winners, error)
        raise
    if plan.mode.deletes is not None and plan.mode.deletes.is_soft:
        Deleter(cursor, plan, source, _attempts(reports)).mark(_winners(plan, source, reports, only="{}"))
    return count


def _refuse_double_key(
    cursor: Cursor, plan: SinkPlan, winners: sql.Composed, cause: psycopg.Error | None = None
) -> None:
    query = sql.SQL(SQL["find_double_key"]).format(keys=identifiers(plan.mode.key), winners=winners)
    if (row := cursor.connection.execute(query).fetchone()) is not None:
        *values, count = row
        detail = plan.mode.double_key(values, count)
        raise RowRejectedError(store=plan.store, sink=plan.sink, detail=detail) from cause


def _going_in(plan: SinkPlan, source: sql.Identifier, reports: Sequence[TaskReport]) -> sql.Composed:
    """Those of the rows that go in: the winners that delete nothing, or what wins without rows that mark."""
    deletes = plan.mode.deletes
    if deletes is None:
        return _winners(plan, source, reports)
    if deletes.is_soft:
        return _winners(plan, source, reports, only="NOT {}")
    return _winners(plan, source, reports) + sql.SQL(" AND NOT {}").format(sql.Identifier(deletes.column))


def _winners(
    plan: SinkPlan, source: sql.Identifier, reports: Sequence[TaskReport], *, only: LiteralString = ""
) -> sql.Composed:
    """The rows of the batch that their order puts first among those of their key; all, if there is no order.

    Args:
        plan: the sink's.
        source: where they are.
        reports: of the tasks that count.
        only: a condition of the column that deletes, for those that compete.
    """
    deletes = plan.mode.deletes
    condition: sql.Composable = sql.SQL("")
    if only and deletes is not None:
        condition = sql.SQL(" AND ") + sql.SQL(only).format(sql.Identifier(deletes.column))
    block = "highest_rows" if plan.mode.order else "all_rows"
    return sql.SQL(SQL[block]).format(
        staging=source,
        columns=plan.columns_sql,
        keys=identifiers(plan.mode.key),
        descending=each(plan.mode.order, "{} DESC"),
        rank=plan.rank_sql,
        attempt=plan.attempt_sql,
        attempts=_attempts(reports),
        only=condition,
    )


def _replacement(plan: SinkPlan) -> sql.Composed:
    names = [name for name in plan.stored if name not in plan.mode.key]
    if not names:
        return sql.Composed([sql.SQL("NOTHING")])
    replace = sql.SQL(SQL["replace_row"]).format(assignments=each(names, "{0} = excluded.{0}"))
    if not plan.mode.order:
        return replace
    only_newer = sql.SQL(" " + SQL["only_newer"]).format(
        is_null=sql.SQL(" OR ").join(sql.SQL("held.{} IS NULL").format(sql.Identifier(n)) for n in plan.mode.order),
        held=each(plan.mode.order, "held.{}"),
        coming=each(plan.mode.order, "excluded.{}"),
    )
    return replace + only_newer


def _attempts(reports: Sequence[TaskReport]) -> sql.Literal:
    return sql.Literal([uuid.UUID(report.attempt) for report in reports])
