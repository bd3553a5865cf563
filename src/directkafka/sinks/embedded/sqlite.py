"""The SQLite sink: a DataFrame's rows into one table of a file, in the transaction of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from directkafka.sinks.embedded.sink import EmbeddedSink, SchemaPolicy
from directkafka.sinks.embedded.sqlite_dialect import SQLiteDialect
from directkafka.sinks.embedded.sqlite_store import SQLiteStore
from directkafka.sinks.write_modes import Mode, RowMode

__all__ = ["SQLiteSink"]


class SQLiteSink(EmbeddedSink):
    """Rows into one table of a SQLite file, exactly once.

    A process of the driver's opens the file for a moment at each commit; other programs may use it meanwhile.

    Args:
        path: the file; made when it does not exist.
        table: its name, quoted where SQL would need it; made from the DataFrame's schema
            when it does not exist.
        mode: how rows meet those that are there: ``append``; ``ignore`` (rows that violate a unique index are left
            out); ``upsert`` (a row replaces the row of its key); ``merge`` (one row per key, to which numbers are
            added); ``replace`` (a batch's rows become the whole table).
        key: columns with a unique index: needed by ``upsert`` and ``merge``, optional for ``ignore``.
        add: numeric columns of ``merge``; a null counts as zero.
        order: columns of ``upsert``: of two rows of a key the one with the higher values stays, in the batch and in
            the table. Without them the later batch's row stays, and two rows of a key in one batch are an error.
        inline_bytes_max: up to about this many bytes of a batch go to the driver inside the tasks' reports; the tasks
            share it. A task with more than its share stages its rows in a file.
        staging: folder for such files, which driver and executors share; None: beside the database file.
        schema_policy: what happens to columns that the table lacks: ``fail`` or ``add-columns``.
        lock_timeout_s: bound on waiting for another process that keeps the file, in seconds.

    Raises:
        OptionError: path, table, mode, key, add or order make no sense.
    """

    def __init__(  # noqa: PLR0917 - the order of the arguments is a contract
        self,
        path: str | Path,
        table: str,
        mode: Mode = "append",
        key: Sequence[str] | None = None,
        add: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        *,
        inline_bytes_max: int = 64 * 1024 * 1024,
        staging: str | Path | None = None,
        schema_policy: SchemaPolicy = "fail",
        lock_timeout_s: float = 10.0,
    ) -> None:
        super().__init__(
            SQLiteStore(path, lock_timeout_s=lock_timeout_s),
            SQLiteDialect(),
            table,
            RowMode.parse(mode, key=key, add=add, order=order, where="a sqlite sink"),
            name_parts=1,
            inline_bytes_max=inline_bytes_max,
            staging=staging,
            schema_policy=schema_policy,
        )

    def json_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Columns that the sink wants as JSON texts: all nested ones."""
        return tuple(field.name for field in schema if pa.types.is_nested(field.type))
