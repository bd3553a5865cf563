"""Rows that say themselves which table they go into: one output, a sink for each table, and one transaction for all.

A list says which tables may be named. A row that names another one is refused with its batch: it would be nowhere.
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

#: Names that are told of rows that go nowhere.
_TOLD_MAX = 5
_LENGTH_MAX = 100


@dataclass(frozen=True, slots=True)
class Routing:
    """Which column says where a row goes, and where it may.

    Attributes:
        column: a string; not stored.
        tables: that may be named.
    """

    column: str
    tables: tuple[str, ...]

    @classmethod
    def parse(cls, column: object, tables: object, *, names: tuple[str, str] = ("table_from", "tables")) -> Routing:
        """Check a column and a list.

        Args:
            column: that says where a row goes.
            tables: that may be named.
            names: what the two are called.

        Raises:
            OptionError: one of them is missing, or is none.
        """
        if not isinstance(column, str) or not column:
            raise OptionError(option=names[0], reason="expected the column that says where a row goes")
        if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
            raise OptionError(option=names[1], reason=f"expected a list of the {names[1]} that rows may name")
        if wrong := [name for name in tables if not isinstance(name, str) or not name]:
            raise OptionError(option=names[1], reason=f"expected names, found {wrong[0]!r}")
        if len(set(tables)) < len(tables):
            twice = next(name for name in tables if list(tables).count(name) > 1)
            raise OptionError(option=names[1], reason=f"{twice!r} stands there twice")
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
        raise OptionError(option="table_from", reason="this sink writes large batches in a way that knows one table")
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
        names: tuple[str, ...] = self._inner.json_columns(self._stored(schema))
        return names

    def check(self, schema: pa.Schema) -> None:
        """See :class:`~directkafka.sinks.api.Sink`.

        Raises:
            SchemaMismatchError: there is no such column, or it is no string; and as the table's sink.
        """
        self._inner.check(self._stored(schema))

    def prepare(self, schema: pa.Schema) -> None:
        """See :class:`~directkafka.sinks.api.Sink`.

        Raises:
            SchemaMismatchError: there is no such column, or it is no string; and as the table's sink.
        """
        self._inner.prepare(self._stored(schema))

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> RoutedWriter:
        """See :class:`~directkafka.sinks.api.Sink`."""
        inner = self._inner.task_writer(batch, self._stored(schema), task_count=task_count)
        return RoutedWriter(inner, self._routing, self._table, store=self.store.identity, sink=self.name)

    def _stored(self, schema: pa.Schema) -> pa.Schema:
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
        return self.inner(map(self._own, batches))

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        number = batch.schema.get_field_index(self.routing.column)
        names: Any = batch.column(number).cast(pa.string())
        known = pc.is_in(names, pa.array(self.routing.tables))
        if not pc.all(known, min_count=0).as_py():
            lost = pc.unique(names.filter(pc.invert(known))).to_pylist()
            raise RowRejectedError(
                store=self.store,
                sink=self.sink,
                detail=f"its column {self.routing.column} names {told(lost)}, and tables has "
                f"{', '.join(self.routing.tables)}: name it there, or leave such rows out in the transform",
            )
        own = batch.filter(pc.equal(names, self.table))
        return own.remove_column(number)


def told(names: Sequence[str | None]) -> str:
    """Names that rows have, for a message: some of them, and of each not too much."""
    shown = [repr(name if name is None else name[:_LENGTH_MAX]) for name in names[:_TOLD_MAX]]
    return ", ".join(shown) + ", ..." * (len(names) > _TOLD_MAX)
