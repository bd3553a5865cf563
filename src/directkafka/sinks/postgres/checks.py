"""Checks of an existing Postgres table: what keeps rows out of it, and which right the user lacks.

Pure functions: the caller has read the catalogs before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from directkafka.sinks.columns import column_problems, target_problems
from directkafka.sinks.postgres.table_schema import Table, creation_type, wire_column
from directkafka.sinks.write_modes import Mode, WriteMode

#: Rights by mode: on the table; STAGE is CREATE on the staging schema, TEMPORARY is a right on the database.
_RIGHTS: Final[dict[Mode, tuple[str, ...]]] = {
    "append": ("INSERT", "STAGE"),
    "ignore": ("INSERT", "SELECT", "STAGE", "TEMPORARY"),
    "upsert": ("INSERT", "SELECT", "UPDATE", "STAGE", "TEMPORARY"),
    "merge": ("INSERT", "SELECT", "UPDATE", "STAGE", "TEMPORARY"),
    "replace": ("INSERT", "DELETE", "STAGE"),
}

#: The events, by mode, whose rules would apply to its statements. Postgres itself refuses ON CONFLICT on a table with a
#: rule for INSERT or UPDATE.
_EVENTS: Final[dict[Mode, tuple[str, ...]]] = {
    "append": ("INSERT",),
    "ignore": ("INSERT", "UPDATE"),
    "upsert": ("INSERT", "UPDATE"),
    "merge": ("INSERT", "UPDATE"),
    "replace": ("INSERT", "DELETE"),
}

_NUMBERS: Final = frozenset({"int2", "int4", "int8", "float4", "float8", "numeric"})


def table_problems(schema: pa.Schema, table: Table, mode: WriteMode, *, sink: str, held: pa.Schema) -> list[str]:
    """All that keeps rows of a schema out of a table, one sentence each.

    Args:
        schema: the columns of the rows.
        table: as the catalogs have it.
        mode: how rows are combined with those that are there.
        sink: the table's name, for remedies.
        held: those columns of ``schema`` that the table should have already.
    """
    problems = column_problems(
        held,
        table.columns,
        takes=lambda field, column: wire_column(field, column) is not None,
        can_be_made=lambda kind: creation_type(kind) is not None,
    )
    problems += mode.column_problems(schema)
    problems += target_problems(
        mode.key, mode.add, table.columns,
        has_index=table.unique_index(mode.key) is not None, index_sql=f"ON {sink}",
        is_number=lambda column: column.base_type in _NUMBERS,
    )  # fmt: skip
    if table.kind not in ("r", "p"):
        problems.append("it is no ordinary or partitioned table")
    elif table.fleeting:
        problems.append(
            "what is committed to it may be gone while the ledger says that it is there, since a crash of the server "
            f"empties it or it commits by itself: {', '.join(table.fleeting)}. Run ALTER TABLE ... SET LOGGED for what "
            "is unlogged; make a foreign or temporary table again as an ordinary one"
        )
    return problems + _rule_problems(table, mode)


def missing_right(
    table: Table, mode: WriteMode, user: str, *, staging_schema: str, more: Sequence[str] = ()
) -> tuple[str, str] | None:
    """The first right that the user lacks, as cause and remedy; None when all are there.

    Args:
        table: as the catalogs have it.
        mode: how rows are combined with those that are there.
        user: the user whose rights ``table.rights`` are; named in the remedy.
        staging_schema: the schema where staging tables are made.
        more: further rights that are needed, for example ``OWN``.
    """
    table_name = f'"{table.schema}"."{table.name}"'
    for right in (*_rights_needed(table, mode), *more):
        if right in table.rights:
            continue
        if right == "OWN":
            cause = f"columns are to be added to {table_name}, and user {user!r} does not own it"
            return cause, f'Run ALTER TABLE {table_name} OWNER TO "{user}", or add the columns yourself.'
        grant = {
            "STAGE": f'CREATE ON SCHEMA "{staging_schema}"',
            "TEMPORARY": "TEMPORARY ON DATABASE ...",
        }.get(right, f"{right} ON {table_name}")
        purpose = " (for staging tables)" if right == "STAGE" else ""
        return f"user {user!r} lacks {grant}{purpose}", f'Run GRANT {grant} TO "{user}".'
    return None


def _rights_needed(table: Table, mode: WriteMode) -> list[str]:
    """The rights of the mode. ``ignore`` needs SELECT only with a key, ``replace`` only if triggers may keep rows."""
    needed = [right for right in _RIGHTS[mode.name] if right != "SELECT" or mode.key]
    needed += ["DELETE"] * mode.removes_rows
    return needed + ["SELECT"] * (mode.name == "replace" and bool(table.triggers))


def _rule_problems(table: Table, mode: WriteMode) -> list[str]:
    """The problem of rules that apply to this mode's statements: COPY ignores rules, so that small and large batches
    would be treated differently."""
    events = (*_EVENTS[mode.name], *["DELETE"] * mode.removes_rows)
    met = [rule for rule in table.rules if rule.rpartition(" ")[2] in events]
    if not met:
        return []
    return [f"it has rules ({', '.join(met)}), and not every way into the table obeys them: make triggers of them"]
