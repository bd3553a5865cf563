"""Step 4's middle in an embedded database: the statements that move a batch's rows into the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from directkafka.errors import RowRejectedError
from directkafka.sinks.embedded.deletes import Deleter
from directkafka.sinks.embedded.file.connection import FileConnection, quoted
from directkafka.sinks.embedded.plan import BATCH, SQL, FilePlan, batch_column, names_sql
from directkafka.sinks.embedded.staging_files import StagedRows
from directkafka.sinks.write_modes import check_left, check_taken


@dataclass(frozen=True, slots=True)
class _Feed:
    """The rows of all reports, as the database takes them.

    Attributes:
        schema: of what the task writers hand over; their batches may say less of nulls, and have other names.
        rows: of the reports.
    """

    schema: pa.Schema
    rows: StagedRows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them."""
        for batch in self.rows.batches():
            yield pa.record_batch(batch.columns, schema=self.schema)


def move_rows(connection: FileConnection, plan: FilePlan, rows: StagedRows) -> int:
    """Move the reported rows into the target.

    Args:
        connection: in the committing transaction.
        plan: the sink's.
        rows: of the batch.

    Returns:
        The number of rows that came, as the tasks count them.

    Raises:
        RowCountError, StoreAccessError: rows that were reported are not there.
        RowRejectedError: rows that the mode cannot place, or that the table itself has left out.
        Exception: the database's own, untranslated.
    """
    count = sum(report.rows for report in rows.reports)
    if plan.mode.name == "replace":
        _empty(connection, plan)
    if not count:
        return 0
    if plan.mode.adds_rows and plan.goes_straight:
        taken = connection.fill(plan.target, _Feed(plan.converted, rows))
        _check_taken(plan, sent=count, taken=taken)
        return count
    batch = _make_batch(connection, plan)
    named = pa.schema([field.with_name(batch_column(index)) for index, field in enumerate(plan.converted)])
    connection.fill((BATCH,), _Feed(named, rows), is_temporary=True)
    if plan.mode.deletes is not None:
        Deleter(connection, plan, batch).truncate()
    _refuse_nulls(connection, plan, batch)
    taken = _write_rows(connection, plan, batch)
    if plan.mode.adds_rows:
        _check_taken(plan, sent=count, taken=taken)
    elif plan.triggers and plan.mode.key:
        _check_keys(connection, plan, batch)
    connection.rows(SQL["drop_batch"].format(batch=batch))
    return count


def try_insert(connection: FileConnection, plan: FilePlan) -> None:
    """Let the database itself say whether it would take the columns, a generated one for example; nothing runs.

    Raises:
        Exception: the database's own, untranslated.
    """
    batch = _make_batch(connection, plan)
    connection.rows(_sql("try_insert", plan, batch=batch))
    connection.rows(SQL["drop_batch"].format(batch=batch))


def _make_batch(connection: FileConnection, plan: FilePlan) -> str:
    """A table of the connection's own for the batch's rows."""
    connection.rows(SQL["create_batch"].format(batch=quoted(BATCH), definitions=", ".join(plan.definitions)))
    return quoted("temp", BATCH)


def _refuse_nulls(connection: FileConnection, plan: FilePlan, batch: str) -> None:
    for names, reason in plan.mode.null_reasons().items():
        is_null = _is_null(plan, names)
        ((null_count,),) = connection.rows(SQL["count_nulls"].format(batch=batch, is_null=is_null))
        if null_count:
            detail = f"{null_count} rows have a null {reason}"
            raise RowRejectedError(store=plan.store, sink=plan.sink, detail=detail)


def _empty(connection: FileConnection, plan: FilePlan) -> None:
    connection.rows(SQL["empty_table"].format(target=plan.target_sql))
    if plan.triggers:
        ((left,),) = connection.rows(SQL["count_left"].format(target=plan.target_sql))
        check_left(store=plan.store, sink=plan.sink, left=left, triggers=plan.triggers)


def _check_taken(plan: FilePlan, *, sent: int, taken: int) -> None:
    check_taken(store=plan.store, sink=plan.sink, sent=sent, taken=taken, triggers=plan.triggers)


def _check_keys(connection: FileConnection, plan: FilePlan, batch: str) -> None:
    """The modes with a key leave rows out themselves, so their number says nothing; but each key must be there."""
    key = plan.mode.key
    is_same = " AND ".join(f"held.{quoted(name)} = coming.{plan.coming_column(name)}" for name in key)
    statement = _sql("count_keys", plan, is_same=is_same, keys=plan.coming(key), rows=_going_in(plan, batch))
    ((sent, taken),) = connection.rows(statement)
    _check_taken(plan, sent=sent, taken=taken)


def _write_rows(connection: FileConnection, plan: FilePlan, batch: str) -> int:
    match plan.mode.name:
        case "ignore":
            return _ignore(connection, plan, batch)
        case "merge":
            statement = _merge(plan, batch)
        case "upsert":
            winners = _winners(plan, batch)
            _refuse_double_keys(connection, plan, winners)
            if plan.mode.removes_rows:
                Deleter(connection, plan, batch).delete(winners)
            statement = _sql(
                "upsert", plan, winners=_going_in(plan, batch), keys=names_sql(plan.mode.key), action=_replacement(plan)
            )
            taken = connection.insert(statement)
            if plan.mode.deletes is not None and plan.mode.deletes.is_soft:
                Deleter(connection, plan, batch).mark(_winners(plan, batch, only="{}"))
            return taken
        case _:
            statement = _sql("append", plan, rows=batch)
    return connection.insert(statement)


def _refuse_double_keys(connection: FileConnection, plan: FilePlan, winners: str) -> None:
    """SQLite would take the last of such rows, DuckDB the first. Rows that are all key are equal."""
    if plan.mode.deletes is None and set(plan.schema.names) == set(plan.mode.key):
        return
    if double := connection.rows(SQL["find_double_key"].format(keys=plan.coming(plan.mode.key), winners=winners)):
        *values, count = double[0]
        raise RowRejectedError(store=plan.store, sink=plan.sink, detail=plan.mode.double_key(values, count))


def _compared(plan: FilePlan, batch: str) -> str:
    """The rows of the batch, compared as the target's are."""
    if plan.dialect.is_typed:
        return batch
    held = ", ".join(
        f"{'NULL' if name in plan.mode.controls else f'held.{quoted(name)}'} AS {plan.coming_column(name)}"
        for name in plan.schema.names
    )
    return _sql("as_in_target", plan, held=held, batch=batch, coming=plan.all_coming)


def _sql(block: str, plan: FilePlan, **names: str) -> str:
    """A block with the names that most blocks have, and those that are given."""
    known = {
        "insert": plan.dialect.insert_sql, "target": plan.target_sql, "columns": plan.columns_sql,
        "coming": plan.coming(plan.stored),
    }  # fmt: skip
    return SQL[block].format(**known | names)


def _ignore(connection: FileConnection, plan: FilePlan, batch: str) -> int:
    if not plan.unique:
        return connection.insert(_sql("append", plan, rows=batch))
    by_key = f" ({names_sql(plan.mode.key)})" if plan.mode.key else ""
    # Without a key there is one unique index where it matters: several are refused beforehand.
    keys = plan.mode.key or sorted(plan.unique[0])
    if plan.dialect.goes_row_by_row:
        firsts, others = SQL["rows_in_order"].format(batch=batch), ""
    else:
        is_null = _is_null(plan, keys)
        firsts = SQL["first_rows"].format(batch=batch, is_null=is_null, keys=plan.coming(keys))
        others = SQL["rows_without_key"].format(batch=batch, is_null=is_null)
    taken = connection.insert(_sql("ignore", plan, firsts=firsts, conflict=f"ON CONFLICT{by_key} DO NOTHING"))
    return taken + connection.insert(_sql("append", plan, rows=others)) if others else taken


def _is_null(plan: FilePlan, names: Iterable[str]) -> str:
    return " OR ".join(f"{plan.coming_column(name)} IS NULL" for name in names)


def _merge(plan: FilePlan, batch: str) -> str:
    key, add = plan.mode.key, plan.mode.add
    additions = (
        f"{quoted(name)} = {plan.dialect.addition(quoted(name), plan.schema.field(name).type)}" for name in add
    )
    return _sql(
        "merge",
        plan,
        columns=names_sql((*key, *add)),
        keys=names_sql(key),
        coming=plan.coming(key),
        sums=", ".join(f"coalesce(sum({plan.coming_column(name)}), 0)" for name in add),
        batch=_compared(plan, batch),
        additions=", ".join(additions),
    )


def _going_in(plan: FilePlan, batch: str) -> str:
    """Those of the rows that go in: the winners that delete nothing, or what wins without rows that mark."""
    deletes = plan.mode.deletes
    if deletes is None:
        return _winners(plan, batch)
    if deletes.is_soft:
        return _winners(plan, batch, only="NOT {}")
    return f"{_winners(plan, batch)} AND NOT {plan.coming_column(deletes.column)}"


def _winners(plan: FilePlan, batch: str, *, only: str = "") -> str:
    """The rows of the batch that their order puts first among those of their key; all, if there is no order.

    Args:
        plan: the sink's.
        batch: where they are.
        only: a condition of the column that deletes, for those that compete.
    """
    batch, deletes = _compared(plan, batch), plan.mode.deletes
    condition = f" AND {only.format(plan.coming_column(deletes.column))}" if only and deletes is not None else ""
    if not plan.mode.order:
        return SQL["all_rows"].format(batch=batch, only=condition)
    descending = ", ".join(f"{plan.coming_column(name)} DESC" for name in plan.mode.order)
    keys = plan.coming(plan.mode.key)
    names = {"coming": plan.all_coming, "keys": keys, "descending": descending, "batch": batch, "only": condition}
    return _sql("highest_rows", plan, **names)


def _replacement(plan: FilePlan) -> str:
    names = [name for name in plan.stored if name not in plan.mode.key]
    if not names:
        return "NOTHING"
    replace = SQL["replace_row"].format(assignments=", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in names))
    if not plan.mode.order:
        return replace
    order = [quoted(name) for name in plan.mode.order]
    only_newer = SQL["only_newer"].format(
        is_null=" OR ".join(f"held.{name} IS NULL" for name in order),
        held=", ".join(f"held.{name}" for name in order),
        coming=", ".join(f"excluded.{name}" for name in order),
    )
    return f"{replace} {only_newer}"
