"""What the driver decided about a Postgres sink, as a value: it moves rows on the driver and on executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from directkafka.sinks.copy_rows import RowEncoder, WireColumn
from directkafka.sinks.modes import RowMode
from directkafka.sinks.postgres_table import SQL

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
        types_sql: the target columns' types, in the same order.
        refuse_null_keys: whether the unique index would let two rows without a key in.
    """

    store: str
    sink: str
    mode: RowMode
    target: tuple[str, str]
    staging_schema: str
    columns: tuple[WireColumn, ...]
    types_sql: tuple[str, ...]
    refuse_null_keys: bool = False

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
    def definitions_sql(self) -> sql.Composed:
        """The columns and their types, for a staging table."""
        return sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(kind))
            for column, kind in zip(self.columns, self.types_sql, strict=True)
        )

    def copy_sql(self, table: sql.Identifier, *, with_attempt: bool) -> sql.Composed:
        """The COPY statement that goes with :meth:`encoder`."""
        names = [column.name for column in self.columns] + ["_attempt"] * with_attempt
        return sql.SQL(SQL["copy_rows"]).format(table=table, columns=identifiers(names))

    def encoder(self, attempt: str = "") -> RowEncoder:
        """Encodes rows for the target, or with ``attempt`` (hex of a UUID) for a staging table."""
        return RowEncoder(
            columns=self.columns,
            store=self.store,
            sink=self.sink,
            attempt=bytes.fromhex(attempt),
        )


def identifiers(names: Iterable[str]) -> sql.Composed:
    """Names, quoted, with commas between them."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)
