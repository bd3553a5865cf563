"""A sink of an embedded database that was checked against its table, and the names of its SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from directkafka.sinks.databases import load_blocks
from directkafka.sinks.embedded.file.connection import quoted
from directkafka.sinks.embedded.table_schema import Dialect
from directkafka.sinks.write_modes import WriteMode

SQL = load_blocks("directkafka.sinks.embedded", "statements.sql")

#: The rows of a batch, in the connection's own schema.
BATCH = "directkafka_batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """A sink that was checked against its table.

    Attributes:
        store, sink: names for messages.
        mode: how rows meet those that are there.
        target: parts of the table's name.
        unique: sets of columns with a unique index; DuckDB refuses ON CONFLICT where nothing can conflict.
        triggers: of the table, by name.
        goes_straight: whether rows may be appended to the table as they come, since it takes each or fails.
        schema: the DataFrame's.
        converted: the schema of what the task writers hand over.
        definitions: SQL of the columns of a table for one batch.
        dialect: the database's.
    """

    store: str
    sink: str
    mode: WriteMode
    target: tuple[str, ...]
    unique: tuple[frozenset[str], ...]
    triggers: tuple[str, ...]
    goes_straight: bool
    schema: pa.Schema
    converted: pa.Schema
    definitions: tuple[str, ...]
    dialect: Dialect

    @property
    def target_sql(self) -> str:
        """The table, quoted."""
        return quoted(*self.target)

    @property
    def stored(self) -> list[str]:
        """Those of the DataFrame's columns that are the target's."""
        return [name for name in self.schema.names if name not in self.mode.controls]

    @property
    def columns_sql(self) -> str:
        """The target's columns, quoted, with commas."""
        return names_sql(self.stored)

    @property
    def all_coming(self) -> str:
        """The batch's columns, with commas."""
        return self.coming(self.schema.names)

    def coming(self, names: Iterable[str]) -> str:
        """What columns of the target are called in the batch, with commas."""
        return ", ".join(map(self.coming_column, names))

    def coming_column(self, name: str) -> str:
        """What a column of the target is called in the batch; case is ignored, as in the database."""
        return batch_column([known.lower() for known in self.schema.names].index(name.lower()))


def batch_column(index: int) -> str:
    """A column of a batch's table."""
    return f"c{index}"


def names_sql(names: Iterable[str]) -> str:
    """Names, quoted, with commas between them."""
    return ", ".join(quoted(name) for name in names)
