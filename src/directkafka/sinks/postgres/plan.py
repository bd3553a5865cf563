"""What the driver decided about a Postgres sink, as a value: it moves rows on the driver and on executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from directkafka.sinks.postgres.copy_encoder import RowEncoder, WireColumn
from directkafka.sinks.postgres.table_schema import SQL
from directkafka.sinks.sql_files import free_name
from directkafka.sinks.write_modes import RowMode

__all__ = ["SinkPlan", "identifiers"]


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
        refuse_null_keys: whether the unique index would let two rows without a key in.
        triggers: of the target, those that may leave rows out.
        ledger_schema: where the pipeline's ledger is.
    """

    store: str
    sink: str
    mode: RowMode
    target: tuple[str, str]
    staging_schema: str
    columns: tuple[WireColumn, ...]
    types_sql: tuple[str, ...]
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
    def attempt_sql(self) -> sql.Identifier:
        """A staging table's column for the task attempt that a row is of."""
        return self._own("directkafka_attempt")

    @property
    def place_sql(self) -> sql.Identifier:
        """A staging table's column that counts the rows of an attempt as they came; for mode ignore alone."""
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
            columns.append(sql.SQL("{} bigint GENERATED ALWAYS AS IDENTITY").format(self.place_sql))
        return sql.SQL(", ").join(columns)

    def copy_sql(self, table: sql.Identifier, *, with_attempt: bool) -> sql.Composed:
        """The COPY statement that goes with :meth:`encoder`."""
        own = [self.attempt_sql] * with_attempt
        columns = sql.SQL(", ").join([*(sql.Identifier(column.name) for column in self.columns), *own])
        return sql.SQL(SQL["copy_rows"]).format(table=table, columns=columns)

    def encoder(self, attempt: str = "") -> RowEncoder:
        """Encodes rows for the target, or with ``attempt`` (hex of a UUID) for a staging table."""
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
