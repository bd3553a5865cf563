"""A table of an embedded database as a value, and what of a DataFrame fits into it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa

from directkafka.sinks.columns import Column, column_problems, target_problems
from directkafka.sinks.embedded.file.connection import FileConnection
from directkafka.sinks.write_modes import WriteMode


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTable:
    """The target table.

    Attributes:
        columns: as the database describes them.
        unique: the sets of columns that a unique index without a condition covers.
        is_table: whether it is a table at all.
        triggers: by name; they may leave rows out.
        is_plain: whether it takes each row or refuses it, and changes nothing else.
    """

    columns: tuple[Column, ...]
    unique: tuple[frozenset[str], ...] = ()
    is_table: bool = True
    triggers: tuple[str, ...] = ()
    is_plain: bool = True


class Dialect(Protocol):
    """What differs between the embedded databases.

    Attributes:
        table_suffix: what follows the columns in CREATE TABLE.
        insert_sql: INSERT, so that the sink's mode says what becomes of a row that violates a constraint, not the
            table.
        is_typed: whether a copy of a table's columns compares as the table does; else a batch's columns have no types.
        goes_row_by_row: whether an INSERT takes rows one after the other, so that the first of two that collide stays.
    """

    table_suffix: ClassVar[str] = ""
    insert_sql: ClassVar[str] = "INSERT"
    is_typed: ClassVar[bool] = True
    goes_row_by_row: ClassVar[bool] = False

    def creation_type(self, kind: pa.DataType, *, is_sum: bool = False) -> str | None:
        """The SQL type of a new table's column; None for what has none.

        Args:
            kind: the DataFrame's type.
            is_sum: the column will be added to for ever, so it gets room to grow.
        """

    def takes(self, kind: pa.DataType, column: Column) -> bool:
        """Whether the values go into a column unchanged."""

    def compares(self, kind: pa.DataType) -> bool:
        """Whether values of a type are compared and added up by their value, where they are kept as they are."""
        return True

    def is_number(self, column: Column) -> bool:
        """Whether a column can be added to."""

    def addition(self, column: str, kind: pa.DataType) -> str:
        """SQL of the sum of what is held and what comes; it must not wrap round or lose digits."""

    def read_table(self, connection: FileConnection, name: Sequence[str]) -> FileTable | None:
        """The table as the catalogs have it; None when there is none."""

    def converter(self, schema: pa.Schema, *, store: str, sink: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """What turns a DataFrame's columns into those that the database takes; picklable.

        Its calls raise RowRejectedError for a value that the database cannot hold.
        """


def table_problems(schema: pa.Schema, mode: WriteMode, table: FileTable, dialect: Dialect, *, name: str) -> list[str]:
    """What keeps the DataFrame out of the table, one sentence each. Names ignore case, as in the database.

    Args:
        schema: the DataFrame's.
        mode: how rows meet those that are there.
        table: as the database describes it.
        dialect: the database's.
        name: the table's, for remedies.
    """
    problems = column_problems(
        mode.stored(schema),
        table.columns,
        takes=lambda field, column: dialect.takes(field.type, column),
        can_be_made=lambda kind: dialect.creation_type(kind) is not None,
        fold=str.lower,
    )
    values = [schema.field(name) for name in (*mode.add, *mode.order) if name in schema.names]
    problems += mode.column_problems(schema) + [
        f"column {field.name!r} of type {field.type} is kept as a text, which has another order and no sum: cast it "
        "to a whole number or a double in the transform"
        for field in values
        if not dialect.compares(field.type)
    ]
    key = frozenset(name.lower() for name in mode.key)
    has_index = key in {frozenset(column.lower() for column in columns) for columns in table.unique}
    return problems + target_problems(
        mode.key, mode.add, table.columns,
        has_index=has_index, index_sql=f"some_name ON {name}", is_number=dialect.is_number, fold=str.lower,
    )  # fmt: skip
