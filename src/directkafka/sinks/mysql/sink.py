"""The MySQL sink: a DataFrame's rows into one table of MySQL or MariaDB, in the transaction of the ledger.

Rights that the URL's user needs, beside those of :mod:`directkafka.sinks.mysql.store`: INSERT and SELECT on the table
(``upsert`` and ``merge``: UPDATE, ``replace`` and rows that delete others: DELETE as well), CREATE and DROP on the
ledger's database for staging tables, with ``truncate`` DELETE there, CREATE TEMPORARY TABLES for modes with a key. To
have columns added: ALTER.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import pyarrow as pa

from directkafka.errors import OptionError, SchemaMismatchError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.capabilities import SinkCapabilities, TableCount
from directkafka.sinks.databases import is_json, parse_name
from directkafka.sinks.mysql.config import MySQLConfig
from directkafka.sinks.mysql.dead_letters import MySQLDeadLetters
from directkafka.sinks.mysql.lock_watch import watched
from directkafka.sinks.mysql.session import Connection, execute, names_sql, quoted
from directkafka.sinks.mysql.statements import move_rows
from directkafka.sinks.mysql.store import MySQLStore, MySQLTransaction
from directkafka.sinks.mysql.table_schema import (
    SQL,
    Table,
    creation_type,
    definitions,
    read_table,
    table_problems,
)
from directkafka.sinks.mysql.task_writer import MySQLTaskWriter, SinkPlan
from directkafka.sinks.staging import staging_name
from directkafka.sinks.wrapped_sink import Clonable
from directkafka.sinks.write_modes import WriteMode

_WHERE: Final = "a MySQL sink"
#: Of the column op in staging tables: a letter is itself alone.
_OP_TYPE: Final = "text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_RECORD: Final = frozenset({"topic", "partition", "offset"})


class MySQLSink(MySQLConfig, Clonable):
    """Rows into one table of MySQL or MariaDB, exactly once; the table's engine is InnoDB.

    Raises:
        OptionError: mode, key, add, order, table or URL make no sense.
    """

    @classmethod
    def store_at(cls, url: str) -> MySQLStore:
        """The store of ``mysql://HOST/DATABASE``."""
        return MySQLStore(url)

    def __post_init__(self) -> None:
        self._mode = WriteMode.parse(
            self.mode, key=self.key, add=self.add, order=self.order, delete=self.delete, delete_how=self.delete_how,
            delete_time=self.delete_time, truncate=self.truncate, where=_WHERE,
        )  # fmt: skip
        try:
            self._table = parse_name(self.table, fold=False)
        except ValueError as error:
            raise OptionError(option="table", where=_WHERE, reason=str(error)) from None
        self._store = MySQLStore(self.dsn)
        self._plan: SinkPlan | None = None
        #: Staging tables that may be there, and the number of the batch that each is for.
        self._staging_names: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"MySQLSink({self._store.label!r}, {self.name!r}, mode={self._mode.name!r})"

    @property
    def name(self) -> str:
        """The table as the options name it, without quotes."""
        return ".".join(self._table)

    @property
    def store(self) -> MySQLStore:
        """The database's ledger."""
        return self._store

    @property
    def target(self) -> str:
        """Server, database and table, the same however they are spelt.

        Raises:
            StoreUnavailableError, StoreAccessError: the database does not answer.
        """
        return f"{self._store.identity.rpartition('/')[0]}/{'.'.join(self._qualified_name)}"

    @property
    def capabilities(self) -> SinkCapabilities:
        """A task that writes may hold one connection; a batch may be staged while the one before it is committed."""
        return SinkCapabilities(
            writers_max=self.connections_max,
            inline_bytes_max=self.inline_bytes_max,
            allows_prefetch=True,
            write_mode=self._mode,
        )

    def dead_letters(self) -> MySQLDeadLetters:
        """The table, for a replay of the dead letters in it."""
        return MySQLDeadLetters(self._store.address, self._qualified_name, sink=self.name, stop=self._store.stop)

    def json_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Columns that the sink wants as JSON texts: all nested ones."""
        return tuple(field.name for field in schema if pa.types.is_nested(field.type))

    def check(self, schema: pa.Schema) -> None:
        """Find what :meth:`prepare` would refuse, and leave the database as it is.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as :meth:`prepare`.
        """
        stored = self._mode.stored(schema)
        types = self._types_sql(stored)
        with self._connected("directkafka check") as connection:
            table = read_table(connection, *self._qualified_name)
            if table is None:
                self._refuse(self._mode.column_problems(schema))
                return
            new = self._new_names(stored, table)
            held = pa.schema([field for field in stored if field.name not in new])
            self._refuse(table_problems(schema, table, self._mode, name=self.name, held=held))
            assert len(types) == len(stored), "each has a type"
            if not new:
                self._try_insert(connection, stored)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table if there is none, and check columns, key and rights.

        Raises:
            SchemaMismatchError: all that does not fit, in one message.
            StoreAccessError: a right is missing; the message has the GRANT.
            StoreUnavailableError: the database cannot be reached.
        """
        stored = self._mode.stored(schema)
        types = self._types_sql(stored)
        with self._connected("directkafka prepare") as connection:
            table = read_table(connection, *self._qualified_name)
            if table is None:
                self._refuse(self._mode.column_problems(schema))
                self._make(connection, stored, types)
            else:
                self._add_columns(connection, stored, types, table)
            target_table = read_table(connection, *self._qualified_name) or self._refuse(
                ["it was dropped while it was prepared"]
            )
            self._refuse(table_problems(schema, target_table, self._mode, name=self.name, held=stored))
            self._try_insert(connection, stored)
            ((packet_bytes_max,),) = execute(connection, "SELECT @@max_allowed_packet")
        self._plan = SinkPlan(
            store=self._store.label,
            sink=self.name,
            mode=self._mode,
            target=(target_table.schema, target_table.name),
            columns=tuple(schema.names),
            definitions=tuple(self._definition(field, target_table) for field in schema),
            packet_bytes_max=int(packet_bytes_max),
            members=_members(stored, target_table),
            never_null=tuple(name for name in stored.names if target_table.column(name).takes_null_for_now),
        )

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> MySQLTaskWriter:
        """What each task of this batch runs.

        Args:
            batch: which try of which batch.
            schema: the one the sink was prepared with.
            task_count: how many tasks share ``inline_bytes_max``.
        """
        self._staging_names[staging_name(batch, self.name)] = batch.batch_id
        return MySQLTaskWriter(
            address=self._store.address,
            plan=self._prepared(),
            staging=self._staging(batch),
            inline_bytes_max=self.inline_bytes_max // max(1, task_count),
        )

    def apply(self, transaction: MySQLTransaction, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Move the reported rows into the table; what was staged is dropped once the commit is certain.

        Raises:
            RowCountError, RowRejectedError: the caller rolls back.
            pymysql.MySQLError: untranslated; the store knows whether its session was lost.
        """
        rows = move_rows(transaction.connection, self._prepared(), self._staging(batch), reports)
        # Tables of the next batch stay.
        ended = [name for name, batch_id in tuple(self._staging_names.items()) if batch_id <= batch.batch_id]
        # One of a try that failed may have been staged, whatever this one's tasks did.
        is_staged = len(ended) > 1 or any(report.staged for report in reports)
        transaction.after_commit.append(partial(self._drop_staged, batch.pipeline, ended, is_staged=is_staged))
        return rows

    def _drop_staged(self, pipeline: str, names: Sequence[str], *, is_staged: bool) -> None:
        for name in names:
            self._staging_names.pop(name, None)
        if is_staged:
            self._store.drop(pipeline, names)

    def recount(self) -> TableCount:
        """What the table has now: rows, records that two rows name, sums of the columns that merge adds up.

        Raises:
            SchemaMismatchError: there is no table.
            StoreUnavailableError: the database cannot be reached.
        """
        add, target = self._mode.add, quoted(*self._qualified_name)
        with self._connected("directkafka verify") as connection:
            table = read_table(connection, *self._qualified_name) or self._refuse(["there is no such table"])
            sums = "".join(f", coalesce(sum({quoted(name)}), 0)" for name in add)
            ((rows, *totals),) = execute(connection, SQL["count_rows"].format(sums=sums, target=target))
            records = rows
            if {column.name for column in table.columns} >= _RECORD:
                ((records,),) = execute(connection, SQL["count_records"].format(target=target))
        return TableCount(
            rows=rows,
            doubled=rows - records,
            is_folded=self._mode.is_folded,
            sums=dict(zip(add, totals, strict=True)),
        )

    def _connected(self, purpose: str) -> AbstractContextManager[Connection]:
        """A session beside the ledger's."""
        return watched(self._store.address, purpose, sink=self.name, stop=self._store.stop)

    @property
    def _qualified_name(self) -> tuple[str, str]:
        """Database and table."""
        return (self._table[-2] if len(self._table) > 1 else self._store.address.database, self._table[-1])

    def _staging(self, batch: BatchAttempt) -> tuple[str, str]:
        """In the ledger's database, where the next fence looks for what was left."""
        return (self._store.address.database, staging_name(batch, self.name))

    def _prepared(self) -> SinkPlan:
        assert self._plan is not None, "prepare() comes before the first batch"
        return self._plan

    def _new_names(self, schema: pa.Schema, table: Table) -> list[str]:
        if self.schema_policy != "add-columns":
            return []
        known = {column.name.lower() for column in table.columns}
        return [name for name in schema.names if name.lower() not in known]

    def _types_sql(self, schema: pa.Schema) -> list[str]:
        types = []
        for field in schema:
            is_sum, is_key = field.name in self._mode.add, field.name in self._mode.key
            kind = "json" if is_json(field) else creation_type(field.type, is_sum=is_sum, is_key=is_key)
            types.append(
                kind
                or self._refuse(
                    [
                        f"column {field.name!r} of type {field.type} has no MySQL type here: make a string of it, for "
                        "example with to_json"
                    ]
                )
            )
        return types

    def _make(self, connection: Connection, schema: pa.Schema, types: Sequence[str]) -> None:
        ((collation,),) = execute(connection, SQL["binary_collation"])
        columns = definitions(schema, types, self._mode.key, collation=collation or "utf8mb4_bin")
        execute(
            connection, SQL["create_table"].format(target=quoted(*self._qualified_name), definitions=", ".join(columns))
        )

    def _add_columns(self, connection: Connection, schema: pa.Schema, types: Sequence[str], table: Table) -> None:
        new = self._new_names(schema, table)
        for name, kind in zip(schema.names, types, strict=True):
            if name in new:
                target = quoted(*self._qualified_name)
                execute(connection, SQL["add_column"].format(target=target, column=quoted(name), type=kind))

    def _try_insert(self, connection: Connection, schema: pa.Schema) -> None:
        execute(
            connection,
            SQL["try_insert"].format(target=quoted(*self._qualified_name), columns=names_sql(schema.names)),
        )

    def _refuse(self, problems: Sequence[str]) -> Any:
        if problems:
            raise SchemaMismatchError(store=self._store.label, sink=self.name, detail="; ".join(problems))

    def _definition(self, field: pa.Field, table: Table) -> str:
        """A column of a staging table, which compares as the target's does, and takes nulls; or one that is not stored.

        Some servers make a TIMESTAMP that is declared without a word on nulls NOT NULL, and store the time of now for a
        null.
        """
        if field.name in self._mode.controls:
            return f"{quoted(field.name)} {'tinyint(1)' if field.name == self.delete else _OP_TYPE}"
        column = table.column(field.name)
        collation = f" COLLATE {column.collation}" if column.collation else ""
        return f"{quoted(field.name)} {column.type_sql}{collation} NULL"


def _members(schema: pa.Schema, table: Table) -> dict[str, tuple[str, ...]]:
    """The texts that the columns have that are ENUMs."""
    return {name: members for name in schema.names if (members := table.column(name).members)}
