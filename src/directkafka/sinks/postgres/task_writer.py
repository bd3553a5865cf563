"""The task writer of a Postgres sink, on executors: holds few rows, stages many; and the driver's plan for it.

A task does not know how many rows will come. It holds them while they are few; a task that ends so hands them
to the driver inside its report, as data of COPY, and the committing transaction writes them once. As soon as they
are more, the task opens a connection and COPYs everything, held and coming, into the batch's staging table under
its own attempt's UUID. Nobody reads that table but the committing transaction, and it reads the attempts whose
reports have arrived: a task that dies, or a speculative twin, leaves rows that count for nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
from psycopg import sql

from directkafka.fault_points import fault_point
from directkafka.python_worker import freeze_imports
from directkafka.sinks.api import TaskReport
from directkafka.sinks.databases import free_name
from directkafka.sinks.ledger import check_count
from directkafka.sinks.postgres.copy_format import (
    ATTEMPT_BYTES,
    HEAD_BYTES,
    LENGTH_BYTES,
    WireColumn,
    copy_chunks,
)
from directkafka.sinks.postgres.lock_watch import PostgresWatch
from directkafka.sinks.postgres.session import ALREADY_THERE, PostgresAddress
from directkafka.sinks.postgres.table_schema import SQL
from directkafka.sinks.staging import buffer, report_encoded
from directkafka.sinks.write_modes import WriteMode

if TYPE_CHECKING:
    from directkafka.sinks.postgres.copy_encoder import RowEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """A sink that was checked against its table.

    Attributes:
        store, sink: names for messages.
        mode: how rows meet those that are there.
        target: schema and name of the table.
        staging_schema: where staging tables are made.
        columns: the DataFrame's columns in order, with their wire types.
        types_sql: the target columns' types and collations, in the same order.
        declared: name, type's oid and modifier of those of them that are the target's.
        refuse_null_keys: whether the unique index would let two rows without a key in.
        triggers: of the target, those that may leave rows out.
        ledger_schema: where the pipeline's ledger is.
    """

    store: str
    sink: str
    mode: WriteMode
    target: tuple[str, str]
    staging_schema: str
    columns: tuple[WireColumn, ...]
    types_sql: tuple[str, ...]
    declared: tuple[tuple[str, int, int], ...] = ()
    refuse_null_keys: bool = False
    triggers: tuple[str, ...] = ()
    ledger_schema: str = ""

    @property
    def target_sql(self) -> sql.Identifier:
        """The table, quoted."""
        return sql.Identifier(*self.target)

    def staging_sql(self, name: str) -> sql.Identifier:
        """A staging table of this sink, quoted."""
        return sql.Identifier(self.staging_schema, name)

    @property
    def columns_sql(self) -> sql.Composed:
        """The columns, quoted, with commas."""
        return identifiers(column.name for column in self.columns)

    @property
    def stored_sql(self) -> sql.Composed:
        """Those of the columns that are the target's, quoted, with commas."""
        return identifiers(self.stored)

    @property
    def stored(self) -> tuple[str, ...]:
        """Those of the columns that are the target's."""
        return tuple(column.name for column in self.columns if column.name not in self.mode.controls)

    @property
    def attempt_sql(self) -> sql.Identifier:
        """A staging table's column for the task attempt that a row is of."""
        return self._own("directkafka_attempt")

    @property
    def row_number_sql(self) -> sql.Identifier:
        """A staging table's column that counts the rows of an attempt as they came; for mode ignore alone."""
        # Staging tables of earlier versions have the name.
        return self._own("directkafka_place")

    @property
    def rank_sql(self) -> sql.Identifier:
        """What a query calls the rank of a row among those of its key."""
        return self._own("directkafka_rank")

    @property
    def definitions_sql(self) -> sql.Composed:
        """The columns of a staging table: the target's, which compare as they do there, and our own."""
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(kind))
            for column, kind in zip(self.columns, self.types_sql, strict=True)
        ]
        columns.append(sql.SQL("{} uuid NOT NULL").format(self.attempt_sql))
        if self.mode.name == "ignore":
            columns.append(sql.SQL("{} bigint GENERATED ALWAYS AS IDENTITY").format(self.row_number_sql))
        return sql.SQL(", ").join(columns)

    def copy_sql(self, table: sql.Identifier, *, with_attempt: bool) -> sql.Composed:
        """The COPY statement that goes with :meth:`encoder`."""
        own = [self.attempt_sql] * with_attempt
        columns = sql.SQL(", ").join([*(sql.Identifier(column.name) for column in self.columns), *own])
        return sql.SQL(SQL["copy_rows"]).format(table=table, columns=columns)

    def encoder(self, attempt: str = "") -> RowEncoder:
        """Encodes rows for the target, or with ``attempt`` (hex of a UUID) for a staging table."""
        # Not above: the driver plans with this class, and encodes nothing.
        from directkafka.sinks.postgres.copy_encoder import RowEncoder

        freeze_imports("copy")
        return RowEncoder(
            columns=self.columns,
            store=self.store,
            sink=self.sink,
            attempt=bytes.fromhex(attempt),
        )

    def _own(self, wanted: str) -> sql.Identifier:
        return sql.Identifier(free_name(wanted, [column.name for column in self.columns]))


def identifiers(names: Iterable[str]) -> sql.Composed:
    """Names, quoted, with commas between them."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTaskWriter:
    """Writes one task's rows; picklable, and its ``repr`` shows no password.

    Attributes:
        address: the database.
        plan: what the driver decided about the table.
        staging: name of the batch's staging table; made by the first task that needs it.
        inline_bytes_max: up to about this many bytes travel inside the report.
    """

    address: PostgresAddress
    plan: SinkPlan
    staging: str
    inline_bytes_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows.

        Raises:
            RowRejectedError: a row that Postgres cannot hold.
            StoreUnavailableError, StoreAccessError: the task may be run again.
        """
        own_bytes = 0 if self.plan.mode.adds_rows else LENGTH_BYTES + ATTEMPT_BYTES
        row_bytes = HEAD_BYTES + LENGTH_BYTES * len(self.plan.columns) + own_bytes
        rows = buffer(batches, bytes_max=self.inline_bytes_max, row_bytes=row_bytes, mode=self.plan.mode)
        if isinstance(rows.batches, tuple):
            return report_encoded(rows.batches, self._encode, rows.folded)
        return self._stage(uuid.uuid4().hex, rows.batches, rows.folded)

    def _encode(self, attempt: str, batch: pa.RecordBatch) -> Iterator[memoryview]:
        return self.plan.encoder("" if self.plan.mode.adds_rows else attempt).chunks(batch)

    def _stage(self, attempt: str, batches: Iterator[pa.RecordBatch], folded: int) -> TaskReport:
        encoder, staging = self.plan.encoder(attempt), self.plan.staging_sql(self.staging)
        sent = 0

        def chunks() -> Iterator[memoryview]:
            nonlocal sent
            for batch in batches:
                sent += batch.num_rows
                yield from encoder.chunks(batch)

        connection = self.address.connect("directkafka task")
        watch = PostgresWatch(self.address, lambda: connection, doing=f"a task that stages rows for {self.plan.sink}")
        try:
            with watch:
                self._make_staging(connection, staging)
                # In autocommit mode a COPY is a transaction of its own: all of the attempt's rows or none.
                statement = self.plan.copy_sql(staging, with_attempt=True)
                stored = copy_chunks(connection.cursor(), statement, chunks())
        except psycopg.Error as error:
            raise self.address.translate(error, sink=self.plan.sink, note=watch.note_on(error)) from error
        finally:
            connection.close()
        check_count(store=self.plan.store, sink=self.plan.sink, reported=sent, stored=stored)
        fault_point("task.staged")
        return TaskReport(rows=sent + folded, attempt=attempt, staged=True, folded=folded)

    def _make_staging(self, connection: psycopg.Connection[Any], staging: sql.Identifier) -> None:
        statement = sql.SQL(SQL["create_staging"]).format(staging=staging, definitions=self.plan.definitions_sql)
        with suppress(*ALREADY_THERE):
            connection.execute(statement)
