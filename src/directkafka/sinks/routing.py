"""Rows that name their own table: one output, one sink for each table, one transaction for all of them.

Only listed tables are allowed. A row that names another table fails its whole batch, so that no row gets lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.errors import OptionError, RowRejectedError, SchemaMismatchError
from directkafka.payloads.arrow_types import is_text
from directkafka.sinks.api import BatchAttempt, Sink, TaskReport, TaskWriter
from directkafka.sinks.capabilities import SinkCapabilities
from directkafka.sinks.wrapped_sink import WrappedSink

#: How many unknown names a message shows, and how many characters of each.
_NAMES_SHOWN_MAX = 5
_NAME_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Routing:
    """Which column says where a row goes, and where it may.

    Attributes:
        column: the column that holds a row's table name; it is not stored.
        tables: the names that rows may use.
    """

    column: str
    tables: tuple[str, ...]

    @classmethod
    def parse(cls, column: object, tables: object, *, names: tuple[str, str] = ("table_from", "tables")) -> Routing:
        """Check a column and a list.

        Args:
            column: the column that holds a row's table name.
            tables: the names that rows may use.
            names: the names of the two options.

        Raises:
            OptionError: the column or the list is missing, empty or of the wrong type, or a name is listed twice.
        """
        if not isinstance(column, str) or not column:
            raise OptionError(option=names[0], reason="expected the column that says where a row goes")
        if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
            raise OptionError(option=names[1], reason=f"expected a list of the {names[1]} that rows may name")
        if wrong := [name for name in tables if not isinstance(name, str) or not name]:
            raise OptionError(option=names[1], reason=f"expected names, found {wrong[0]!r}")
        if len(set(tables)) < len(tables):
            twice = next(name for name in tables if list(tables).count(name) > 1)
            raise OptionError(option=names[1], reason=f"{twice!r} is listed twice")
        return cls(column, tuple(tables))


def routed_sinks(make: Callable[[str], Sink], routing: Routing) -> list[Sink]:
    """A sink for each table, which takes the rows that name it.

    Args:
        make: the sink of a table.
        routing: the column and the tables.

    Raises:
        OptionError: the sink writes large batches in a second job, which does not go by tables.
    """
    sinks = [RoutedSink(make(table), routing, table) for table in routing.tables]
    if any(sink.capabilities.has_second_phase for sink in sinks):
        raise OptionError(option="table_from", reason="this sink cannot split its rows over several tables")
    return list(sinks)


class RoutedSink(WrappedSink):
    """The sink of one of several tables: it takes the rows that name this one.

    Args:
        inner: the table's sink.
        routing: the column and the tables.
        table: which of them it is.
    """

    def __init__(self, inner: Sink, routing: Routing, table: str) -> None:
        super().__init__(inner)
        self._routing, self._table = routing, table

    def __repr__(self) -> str:
        return f"{self._inner!r} of rows whose {self._routing.column} is {self._table!r}"

    @property
    def capabilities(self) -> SinkCapabilities:
        """Those of the table's sink, of some of the output's rows."""
        column, table = self._routing.column.replace("`", "``"), self._table.replace("\\", "\\\\").replace("'", "\\'")
        inner: SinkCapabilities = self._inner.capabilities
        return replace(inner, row_condition=f"`{column}` = '{table}'")

    def clone(self) -> RoutedSink | None:
        """See :class:`~directkafka.sinks.api.Sink`."""
        inner = self._inner.clone()
        return None if inner is None else RoutedSink(inner, self._routing, self._table)

    def json_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """See :class:`~directkafka.sinks.api.Sink`.

        Raises:
            SchemaMismatchError: there is no such column, or it is no string.
        """
        names: tuple[str, ...] = self._inner.json_columns(self._without_route_column(schema))
        return names

    def check(self, schema: pa.Schema) -> None:
        """See :class:`~directkafka.sinks.api.Sink`.

        Raises:
            SchemaMismatchError: there is no such column, or it is no string; and as the table's sink.
        """
        self._inner.check(self._without_route_column(schema))

    def prepare(self, schema: pa.Schema) -> None:
        """See :class:`~directkafka.sinks.api.Sink`.

        Raises:
            SchemaMismatchError: there is no such column, or it is no string; and as the table's sink.
        """
        self._inner.prepare(self._without_route_column(schema))

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> RoutedWriter:
        """See :class:`~directkafka.sinks.api.Sink`."""
        inner = self._inner.task_writer(batch, self._without_route_column(schema), task_count=task_count)
        return RoutedWriter(inner, self._routing, self._table, store=self.store.identity, sink=self.name)

    def _without_route_column(self, schema: pa.Schema) -> pa.Schema:
        name, number = self._routing.column, schema.get_field_index(self._routing.column)
        if number < 0:
            self._refuse(f"the DataFrame has no column {name!r} (table_from)")
        if not is_text(schema.field(number).type):
            self._refuse(f"column {name!r} of type {schema.field(number).type} is no string (table_from)")
        return schema.remove(number)

    def _refuse(self, detail: str) -> None:
        raise SchemaMismatchError(store=self.store.identity, sink=self.name, detail=detail)


@dataclass(frozen=True, slots=True)
class RoutedWriter:
    """Writes those of a task's rows that name one table; picklable.

    Attributes:
        inner: the table's own.
        routing: the column and the tables.
        table: which of them it is.
        store, sink: names for messages.
    """

    inner: TaskWriter
    routing: Routing
    table: str
    store: str
    sink: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Consume the task's rows.

        Raises:
            RowRejectedError: a row names no table, or one that is not in the list; and as the table's writer.
        """
        return self.inner(map(self._rows_of_table, batches))

    def _rows_of_table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        number = batch.schema.get_field_index(self.routing.column)
        names: Any = batch.column(number).cast(pa.string())
        known = pc.is_in(names, pa.array(self.routing.tables))
        if not pc.all(known, min_count=0).as_py():
            lost = pc.unique(names.filter(pc.invert(known))).to_pylist()
            raise RowRejectedError(
                store=self.store,
                sink=self.sink,
                detail=f"column {self.routing.column} has {names_for_message(lost)}, not in tables "
                f"({', '.join(self.routing.tables)}): add it to tables, or filter these rows out",
            )
        own = batch.filter(pc.equal(names, self.table))
        return own.remove_column(number)


def names_for_message(names: Sequence[str | None]) -> str:
    """Names that rows have, for a message: some of them, and of each not too much."""
    shown = [repr(name if name is None else name[:_NAME_CHARACTERS_MAX]) for name in names[:_NAMES_SHOWN_MAX]]
    return ", ".join(shown) + ", ..." * (len(names) > _NAMES_SHOWN_MAX)
