"""The Postgres sink: a DataFrame's rows into one table, in the transaction of the ledger.

Rights that the DSN's user needs, beside those of :mod:`directkafka.sinks.postgres.store`: INSERT on the table
(``ignore`` with a key: SELECT as well; ``upsert`` and ``merge``: SELECT and UPDATE; ``replace``, and ``upsert`` whose
rows delete others: DELETE), CREATE on
the staging schema, TEMPORARY on the database for ``ignore``, ``upsert`` and ``merge``. To have the table made: CREATE
on its schema. To have columns added: to own it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql

from directkafka.errors import OptionError, SchemaMismatchError, StoreAccessError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.capabilities import SinkCapabilities, TableCount
from directkafka.sinks.databases import is_json, parse_name
from directkafka.sinks.postgres.checks import missing_right, table_problems
from directkafka.sinks.postgres.config import PostgresConfig
from directkafka.sinks.postgres.dead_letters import PostgresDeadLetters
from directkafka.sinks.postgres.ledger_session import ledger_schema
from directkafka.sinks.postgres.lock_watch import PostgresWatch
from directkafka.sinks.postgres.session import ALREADY_THERE
from directkafka.sinks.postgres.statements import drop_staging, move_rows
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.sinks.postgres.table_schema import (
    SQL,
    Table,
    count_table,
    creation_type,
    json_columns,
    read_table,
    resolved_name,
    types_sql,
    wire_columns,
)
from directkafka.sinks.postgres.task_writer import PostgresTaskWriter, SinkPlan, identifiers
from directkafka.sinks.staging import staging_name
from directkafka.sinks.wrapped_sink import Clonable
from directkafka.sinks.write_modes import WriteMode

_WHERE: Final = "a Postgres sink"

#: NULLS NOT DISTINCT exists since this version.
_NULLS_NOT_DISTINCT_SINCE: Final = 150_000


class PostgresSink(PostgresConfig, Clonable):
    """Rows into one Postgres table, exactly once.

    Raises:
        OptionError: mode, key, add, order, table or DSN make no sense.
    """

    @classmethod
    def store_at(cls, url: str) -> PostgresStore:
        """The store of ``postgresql://HOST/DATABASE``."""
        return PostgresStore(url)

    def __post_init__(self) -> None:
        self._mode = WriteMode.parse(
            self.mode, key=self.key, add=self.add, order=self.order, delete=self.delete, delete_how=self.delete_how,
            delete_time=self.delete_time, truncate=self.truncate, where=_WHERE,
        )  # fmt: skip
        try:
            self._table = parse_name(self.table)
        except ValueError as error:
            raise OptionError(option="table", reason=str(error)) from None
        self._store = PostgresStore(self.dsn)
        self._plan: SinkPlan | None = None

    def __repr__(self) -> str:
        return f"PostgresSink({self._store.address.label!r}, {self.name!r}, mode={self._mode.name!r})"

    @property
    def name(self) -> str:
        """The table as the options name it, without quotes."""
        return ".".join(self._table)

    @property
    def store(self) -> PostgresStore:
        """The database's ledger."""
        return self._store

    @property
    def target(self) -> str:
        """Server, database and table, the same however name and address are spelt.

        Raises:
            StoreUnavailableError, StoreAccessError: the database does not answer.
        """
        with self._connected("directkafka") as connection:
            table = resolved_name(connection.cursor(), self._table)
        # Of the store's identity the last part is the ledger's schema.
        return f"{self._store.identity.rpartition('/')[0]}/{table}"

    @property
    def capabilities(self) -> SinkCapabilities:
        """A task that writes may hold one connection of the server's."""
        return SinkCapabilities(
            writers_max=self.connections_max,
            inline_bytes_max=self.inline_bytes_max,
            # A batch may be staged while the one before it is committed.
            allows_prefetch=True,
            write_mode=self._mode,
        )

    def dead_letters(self) -> PostgresDeadLetters:
        """The table, for a replay of the dead letters in it."""
        return PostgresDeadLetters(self._store.address, self._table, sink=self.name)

    def json_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """Columns that the sink wants as JSON texts: structs, maps, and lists of anything nested."""
        return json_columns(schema)

    def check(self, schema: pa.Schema) -> None:
        """Find what :meth:`prepare` would refuse, and leave the database as it is.

        A table that is not there is made in a transaction that is rolled back. One that is there is only looked
        at: a column that would be added could need a lock that a running driver holds.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as :meth:`prepare`.
        """
        stored = self._mode.stored(schema)
        with self._connected("directkafka check") as connection:
            table = self._read(connection)
            if table is None:
                with connection.transaction(force_rollback=True):
                    self._examine(connection, schema, self._find_or_make(connection, schema))
                return
            if self.schema_policy == "add-columns" and (new := _new_fields(stored, table)):
                self._check_rights(table, connection.info.user, "OWN")
                for field in new:
                    self._type_sql(field)
                # What is to be added fits by then.
                self._raise_problems(schema, table, pa.schema([field for field in stored if field not in new]))
                return
            self._examine(connection, schema, table)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table if there is none, and check columns, key and rights.

        Raises:
            SchemaMismatchError: all that does not fit, in one message.
            StoreAccessError: a right is missing; the message has the GRANT.
            StoreUnavailableError: the database cannot be reached.
        """
        with self._connected("directkafka prepare") as connection:
            plan = self._examine(connection, schema, self._find_or_make(connection, schema))
            self._plan = replace(plan, ledger_schema=ledger_schema(connection))

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> PostgresTaskWriter:
        """What each task of this batch runs.

        Args:
            batch: which try of which batch.
            schema: the one the sink was prepared with.
            task_count: how many tasks share ``inline_bytes_max``.
        """
        plan = self._prepared()
        return PostgresTaskWriter(
            address=self._store.address,
            plan=plan,
            staging=staging_name(batch, self.name, plan.ledger_schema),
            inline_bytes_max=self.inline_bytes_max // max(1, task_count),
        )

    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Move the reported rows into the table and drop what was staged.

        Args:
            transaction: a psycopg cursor of the store's open transaction.
            batch: the batch that :meth:`task_writer` was called with.
            reports: of all its tasks.

        Raises:
            RowCountError, RowRejectedError: the caller rolls back.
            psycopg.Error: untranslated; the store knows whether its session was lost.
        """
        plan = self._prepared()
        rows = move_rows(transaction, plan, staging_name(batch, self.name, plan.ledger_schema), reports)
        # Tables of the next batch stay.
        drop_staging(transaction, plan, batch)
        return rows

    def recount(self) -> TableCount:
        """What the table has now: rows, records that two rows name, sums of the columns that merge adds up.

        Raises:
            SchemaMismatchError: there is no table.
            StoreUnavailableError: the database cannot be reached.
        """
        with self._connected("directkafka verify") as connection:
            table = self._read(connection) or self._mismatch_raised("there is no such table")
            return count_table(connection, table, self._mode.add, is_folded=self._mode.is_folded)

    @contextmanager
    def _connected(self, purpose: str) -> Iterator[psycopg.Connection[Any]]:
        """A session beside the ledger's, with psycopg's errors translated."""
        address = self._store.address
        with closing(address.connect(purpose)) as connection:
            doing = f"{purpose} of table {self.name}"
            with PostgresWatch(address, lambda: connection, doing=doing, stop=self._store.stop) as watch:
                try:
                    yield connection
                except psycopg.Error as error:
                    raise address.translate(error, sink=self.name, note=watch.note_on(error)) from error

    def _examine(self, connection: psycopg.Connection[Any], schema: pa.Schema, table: Table) -> SinkPlan:
        self._check_rights(table, connection.info.user)
        return self._plan_for(schema, table)

    def _prepared(self) -> SinkPlan:
        assert self._plan is not None, "prepare() comes before the first batch"
        return self._plan

    def _find_or_make(self, connection: psycopg.Connection[Any], schema: pa.Schema) -> Table:
        table, stored = self._read(connection), self._mode.stored(schema)
        if table is None:
            self._make(connection, stored)
        elif self.schema_policy == "add-columns":
            self._add_columns(connection, stored, table)
        else:
            return table
        return self._read(connection) or self._mismatch_raised("it was dropped while it was prepared")

    def _read(self, connection: psycopg.Connection[Any]) -> Table | None:
        return read_table(connection.cursor(), self._table, self.staging_schema)

    def _make(self, connection: psycopg.Connection[Any], schema: pa.Schema) -> None:
        nulls_count = connection.info.server_version < _NULLS_NOT_DISTINCT_SINCE
        definitions = [
            sql.SQL("{} {}{}").format(
                sql.Identifier(field.name),
                sql.SQL(self._type_sql(field)),
                sql.SQL(" NOT NULL" if nulls_count and field.name in self._mode.key else ""),
            )
            for field in schema
        ]
        if self._mode.key:
            clause = "UNIQUE ({})" if nulls_count else "UNIQUE NULLS NOT DISTINCT ({})"
            definitions.append(sql.SQL(clause).format(identifiers(self._mode.key)))
        statement = sql.SQL(SQL["create_table"]).format(
            target=sql.Identifier(*self._table), definitions=sql.SQL(", ").join(definitions)
        )
        with suppress(*ALREADY_THERE), connection.transaction():
            connection.execute(statement)

    def _add_columns(self, connection: psycopg.Connection[Any], schema: pa.Schema, table: Table) -> None:
        new = _new_fields(schema, table)
        if new:
            self._check_rights(table, connection.info.user, "OWN")
        for field in new:
            connection.execute(
                sql.SQL(SQL["add_column"]).format(
                    target=sql.Identifier(table.schema, table.name),
                    column=sql.Identifier(field.name),
                    type=sql.SQL(self._type_sql(field)),
                )
            )

    def _type_sql(self, field: pa.Field) -> str:
        if is_json(field):
            return "jsonb"
        is_sum = field.name in self._mode.add
        type_sql = creation_type(field.type, is_sum=is_sum)
        return type_sql or self._mismatch_raised(
            f"column {field.name!r} of type {field.type} has no Postgres type here: make a string of it, "
            "for example with to_json"
        )

    def _raise_problems(self, schema: pa.Schema, table: Table, held: pa.Schema) -> None:
        if problems := table_problems(schema, table, self._mode, sink=self.name, held=held):
            self._mismatch_raised("; ".join(problems))

    def _plan_for(self, schema: pa.Schema, table: Table) -> SinkPlan:
        self._raise_problems(schema, table, self._mode.stored(schema))
        index = table.unique_index(self._mode.key)
        nulls_are_equal = index is None or index.nulls_are_equal
        return SinkPlan(
            store=self._store.address.label,
            sink=self.name,
            mode=self._mode,
            target=(table.schema, table.name),
            staging_schema=self.staging_schema or table.schema,
            columns=wire_columns(schema, table, self._mode.controls),
            types_sql=types_sql(schema, table, self._mode.controls),
            declared=tuple(
                (column.name, column.type_oid, column.type_modifier)
                for column in table.columns
                if column.name in schema.names
            ),
            # Two nulls are equal to an index at most, and never to a DELETE.
            refuse_null_keys=not nulls_are_equal or self._mode.deletes is not None,
            triggers=table.triggers,
        )

    def _check_rights(self, table: Table, user: str, *more: str) -> None:
        staging = self.staging_schema or table.schema
        if cause_and_remedy := missing_right(table, self._mode, user, staging_schema=staging, more=more):
            cause, remedy = cause_and_remedy
            raise StoreAccessError(store=self._store.address.label, cause=cause, remedy=remedy)

    def _mismatch_raised(self, detail: str) -> Any:
        raise SchemaMismatchError(store=self._store.address.label, sink=self.name, detail=detail)


def _new_fields(schema: pa.Schema, table: Table) -> list[pa.Field]:
    known = {column.name for column in table.columns}
    return [field for field in schema if field.name not in known]
