"""The task writer of a MySQL sink, on executors: holds few rows, stages many; and the driver's plan for it.

A task does not know how many rows will come. It holds them while they are few; a task that ends so hands them to the
driver inside its report, and they are written once, by the committing transaction. As soon as they are more, the task
opens a connection and inserts everything, held and coming, into the batch's staging table under its own attempt, in one
transaction. Nobody reads that table but the committing transaction, and it reads the attempts whose reports have
arrived: a task that dies, or a speculative twin, leaves rows that count for nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from directkafka.fault_points import fault_point
from directkafka.sinks.api import TaskReport
from directkafka.sinks.databases import free_name
from directkafka.sinks.ledger import check_count
from directkafka.sinks.mysql.lock_watch import watched
from directkafka.sinks.mysql.session import MySQLAddress, execute, names_sql, quoted
from directkafka.sinks.mysql.table_schema import SQL
from directkafka.sinks.mysql.values_encoder import ATTEMPT_BYTES, FIELD_BYTES, HEAD_BYTES, ValuesEncoder, send
from directkafka.sinks.staging import buffer, report_encoded
from directkafka.sinks.write_modes import WriteMode


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """A sink that was checked against its table.

    Attributes:
        store, sink: names for messages.
        mode: how rows meet those that are there.
        target: schema and name of the table.
        columns: the DataFrame's columns, in order.
        definitions: the same as columns of a staging table, which compare as those of the target do.
        packet_bytes_max: how large a statement may be for the server, in bytes.
        members: the texts that a column's ENUM has, by the column's name.
        never_null: columns in which the server would take a null for the time of now.
    """

    store: str
    sink: str
    mode: WriteMode
    target: tuple[str, str]
    columns: tuple[str, ...]
    definitions: tuple[str, ...]
    packet_bytes_max: int
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    never_null: tuple[str, ...] = ()

    @property
    def target_sql(self) -> str:
        """The table, quoted."""
        return quoted(*self.target)

    @property
    def columns_sql(self) -> str:
        """The columns, quoted, with commas."""
        return names_sql(self.columns)

    @property
    def stored(self) -> tuple[str, ...]:
        """Those of the columns that are the target's."""
        return tuple(name for name in self.columns if name not in self.mode.controls)

    @property
    def attempt_sql(self) -> str:
        """A staging table's column for the task attempt that a row is of."""
        return quoted(free_name("directkafka_attempt", self.columns))

    @property
    def row_number_sql(self) -> str:
        """A staging table's column that counts rows as they came."""
        # Staging tables of earlier versions have the name.
        return quoted(free_name("directkafka_place", self.columns))

    @property
    def rank_sql(self) -> str:
        """What a query calls the rank of a row among those of its key."""
        return quoted(free_name("directkafka_rank", self.columns))

    @property
    def staging_definitions_sql(self) -> str:
        """The columns of a staging table: the target's and our own."""
        own = (f"{self.attempt_sql} binary(16) NOT NULL", f"{self.row_number_sql} bigint AUTO_INCREMENT PRIMARY KEY")
        return ", ".join((*self.definitions, *own))

    def insert_sql(self, table: str, *, with_attempt: bool) -> str:
        """The statement up to the values that go with :meth:`encoder`."""
        columns = ", ".join([self.columns_sql, *[self.attempt_sql] * with_attempt])
        return SQL["insert_values"].format(target=table, columns=columns)

    def encoder(self, attempt: str = "") -> ValuesEncoder:
        """Encodes rows for the target, or with ``attempt`` (hex of a UUID) for a staging table."""
        return ValuesEncoder(
            store=self.store, sink=self.sink, packet_bytes_max=self.packet_bytes_max, attempt=attempt,
            members=self.members, never_null=self.never_null,
            deletes=self.mode.deletes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MySQLTaskWriter:
    """Writes one task's rows; picklable, and its ``repr`` shows no password.

    Attributes:
        address: the database.
        plan: what the driver decided about the table.
        staging: schema and name of the batch's staging table; made by the first task that needs it.
        inline_bytes_max: up to about this many bytes travel inside the report.
    """

    address: MySQLAddress
    plan: SinkPlan
    staging: tuple[str, str]
    inline_bytes_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows.

        Raises:
            RowRejectedError: a row that MySQL cannot hold.
            StoreUnavailableError, StoreAccessError: the task may be run again.
        """
        own_bytes = 0 if self.plan.mode.adds_rows else ATTEMPT_BYTES
        row_bytes = HEAD_BYTES + FIELD_BYTES * len(self.plan.columns) + own_bytes
        rows = buffer(batches, bytes_max=self.inline_bytes_max, row_bytes=row_bytes, mode=self.plan.mode)
        if isinstance(rows.batches, tuple):
            return report_encoded(rows.batches, self._encode, rows.folded)
        return self._stage(uuid.uuid4().hex, rows.batches, rows.folded)

    def _encode(self, attempt: str, batch: pa.RecordBatch) -> Iterator[bytes]:
        if self.plan.mode.adds_rows:
            attempt, table = "", self.plan.target_sql
        else:
            table = quoted(*self.staging)
        return self.plan.encoder(attempt).statements(self.plan.insert_sql(table, with_attempt=bool(attempt)), batch)

    def _stage(self, attempt: str, batches: Iterator[pa.RecordBatch], folded: int) -> TaskReport:
        encoder, staging, sent = self.plan.encoder(attempt), quoted(*self.staging), 0

        def statements() -> Iterator[bytes]:
            nonlocal sent
            for batch in batches:
                sent += batch.num_rows
                yield from encoder.statements(self.plan.insert_sql(staging, with_attempt=True), batch)

        with watched(self.address, "directkafka task", sink=self.plan.sink) as connection:
            definitions = self.plan.staging_definitions_sql
            execute(connection, SQL["create_staging"].format(staging=staging, definitions=definitions))
            # One transaction: all of the attempt's rows or none.
            execute(connection, "START TRANSACTION")
            stored = send(connection, statements())
            execute(connection, "COMMIT")
        check_count(store=self.plan.store, sink=self.plan.sink, reported=sent, stored=stored)
        fault_point("task.staged")
        return TaskReport(rows=sent + folded, attempt=attempt, staged=True, folded=folded)
