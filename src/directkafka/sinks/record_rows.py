"""Rows of a sink's table by the records that they came from: counted, and deleted in the transaction of a reset.

A table has them where its rows have the columns ``topic``, ``partition`` and ``offset``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

from directkafka.errors import SchemaMismatchError
from directkafka.fault_points import fault_point
from directkafka.offsets import OffsetRange
from directkafka.sinks.api import BatchAttempt, Sink, TaskReport
from directkafka.sinks.databases import load_blocks
from directkafka.sinks.dead_letters.table import DeadLetterTable
from directkafka.sinks.wrapped_sink import WrappedSink

SQL = load_blocks("directkafka.sinks", "record_rows.sql")

_COLUMNS: Final = {"topic", "partition", "offset"}


class RecordRows:
    """A sink's table.

    Args:
        table: as the sink opens it.
    """

    def __init__(self, table: DeadLetterTable) -> None:
        self._table = table
        self._columns = set(table.columns())

    @classmethod
    def of(cls, sink: Sink) -> RecordRows | None:
        """The sink's table; None where its rows cannot leave it in a transaction.

        Raises:
            StoreError: the store must be asked, and does not answer.
        """
        table = sink.dead_letters()
        return None if table is None else cls(table)

    @property
    def is_there(self) -> bool:
        """Whether there is a table."""
        return bool(self._columns)

    @property
    def names_records(self) -> bool:
        """Whether each row says which record it came from."""
        return self._columns >= _COLUMNS

    def check_deletable(self) -> None:
        """See that rows may be deleted by record, and delete none.

        Raises:
            SchemaMismatchError: the columns are not those of records.
            StoreAccessError: a right is missing.
            StoreError: what else the database says to such a statement.
        """
        none = OffsetRange("", 0, 0, 0)
        with self._table.opened() as rows:
            ((count,),) = rows(self._sql("odd", is_whole=self._table.dialect.is_whole), ())
            if count:
                raise SchemaMismatchError(
                    store=self._table.store,
                    sink=self._table.sink,
                    detail="there are rows whose column offset holds no whole number, so they name no record",
                )
            rows(self._sql("count_locked", lock=self._table.dialect.lock), _parameters(none))
            rows(self._sql("delete"), _parameters(none))

    def is_empty(self) -> bool:
        """Whether it has no row, or is not there."""
        if not self.is_there:
            return True
        with self._table.opened() as rows:
            ((count,),) = rows(self._sql("any"), ())
        return not count

    def count(self, ranges: Iterable[OffsetRange]) -> list[int]:
        """How many rows there are of the records of each range."""
        with self._table.opened() as rows:
            return [int(rows(self._sql("count"), _parameters(each))[0][0]) for each in ranges]

    def delete(self, transaction: Any, ranges: Iterable[OffsetRange]) -> int:
        """Inside the store's transaction: delete the rows of these records; how many there were."""
        rows, deleted = self._table.inside(transaction), 0
        for each in ranges:
            ((count,),) = rows(self._sql("count_locked", lock=self._table.dialect.lock), _parameters(each))
            if count:
                rows(self._sql("delete"), _parameters(each))
                deleted += int(count)
        return deleted

    def _sql(self, block: str, **parts: object) -> str:
        chosen = SQL["of_record"].format(exactly=self._table.dialect.is_same_topic)
        return SQL[block].format(target=self._table.target, chosen=chosen, **parts)


class RecordDeletionSink(WrappedSink):
    """Stands in for a sink in a commit that adds no rows, and deletes the rows of the given records.

    Args:
        inner: the sink whose table it is.
        rows: the table.
        ranges: the records.
    """

    def __init__(self, inner: Sink, rows: RecordRows, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(inner)
        self._rows = rows
        self._ranges = tuple(ranges)

    def reports(self) -> tuple[TaskReport, ...]:
        """What is to be deleted, as a number of rows below zero: the ledger's total is to go down by it."""
        count = sum(self._rows.count(self._ranges))
        return (TaskReport(rows=-count, attempt=uuid.uuid4().hex, staged=False),)

    def apply(self, transaction: Any, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Delete them. If they are not as many as were counted, the store refuses the commit."""
        deleted = self._rows.delete(transaction, self._ranges)
        fault_point("reset.rows_deleted")
        return -deleted


def _parameters(each: OffsetRange) -> tuple[str, int, int, int]:
    return each.topic, each.partition, each.from_offset, each.until_offset
