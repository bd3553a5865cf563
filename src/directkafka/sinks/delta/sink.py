"""The Delta sink: writes a DataFrame's rows into one Delta table, in one commit with the ledger entry; needs no jar."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.delta.config import DeltaConfig
from directkafka.sinks.delta.store import DeltaStore, DeltaTransaction
from directkafka.sinks.delta.table import delta_errors
from directkafka.sinks.files.formats import ParquetFormat
from directkafka.sinks.files.log_state import TableState
from directkafka.sinks.files.posix import require_writable, sync_directory, translated
from directkafka.sinks.files.schema import grown_columns, plain_schema, storage_problems
from directkafka.sinks.files.task_writer import AttemptTracker, DataFileWriter, reported_files, whole_rows
from directkafka.sinks.ledger import TableCount, doubled_records
from directkafka.sinks.wrapped_sink import Clonable

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Table features that need writers to do what this sink does not do.
_REFUSED_FEATURES: Final = frozenset({"columnMapping", "rowTracking", "icebergCompatV1", "icebergCompatV2"})

#: Keys in a column's metadata that need writers to compute or check its values, and what they mean.
_REFUSED_COLUMNS: Final = {
    "delta.invariants": "has an invariant",
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity",
}

#: Table properties that this sink does not support; the last one would let the table forget the ledger.
_REFUSED_PROPERTIES: Final = ("delta.constraints.", "delta.columnMapping.mode", "delta.setTransactionRetentionDuration")


class DeltaSink(DeltaConfig, Clonable):
    """Rows into one Delta table, exactly once.

    Tasks write the table's Parquet files, the driver commits them; the table is an ordinary one for every reader. It
    must not be partitioned, and must have no constraints, generated columns or column mapping.

    Raises:
        OptionError: path, mode or compression make no sense, or the package deltalake is missing.
    """

    @classmethod
    def store_at(cls, url: str) -> DeltaStore:
        """The store of ``delta:PATH``."""
        return DeltaStore(url.partition(":")[2])

    def __post_init__(self) -> None:
        self._store = DeltaStore(self.path, durable=self.durable)
        self._format = ParquetFormat(compression=self.compression, row_group_bytes=self.row_group_bytes)
        self._schema: pa.Schema | None = None
        self._tries = AttemptTracker()

    def __repr__(self) -> str:
        return f"DeltaSink({str(self._store.folder)!r})"

    @property
    def name(self) -> str:
        """The last part of the table's path."""
        return self._store.folder.name

    @property
    def store(self) -> DeltaStore:
        """The table's ledger."""
        return self._store

    def check(self, schema: pa.Schema) -> None:
        """Find what :meth:`prepare` would refuse, making and changing nothing.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as :meth:`prepare`.
        """
        table = self._store.log.snapshot()
        self._grown(schema, table)
        # The fence comes before prepare(), and makes the table if there is none.
        self._store.log.schema_to_make = plain_schema(schema)
        require_writable(self._store.folder, store=self._store.label)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table if need be, and add the columns that it lacks.

        Raises:
            SchemaMismatchError: all that does not fit, in one message.
            StoreAccessError, StoreUnavailableError: the table cannot be read or changed.
        """
        from deltalake import Schema

        self._store.log.schema_to_make = plain_schema(schema)
        table = self._store.log.table()
        before = _columns(table)
        grown = self._grown(schema, table)
        if new := [field for field in grown.schema if field.name not in before.names]:
            with translated(self._store.label), delta_errors(self._store.label):
                table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
        self._schema = schema

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> DataFileWriter:
        """What each task of this batch runs: it writes its rows, if any, into one file."""
        self._tries.begin(batch)
        return DataFileWriter(
            folder=self._store.folder,
            batch=batch,
            format=self._format,
            durable=self._store.durable,
            store=self._store.label,
        )

    def apply(self, transaction: DeltaTransaction, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Check the table's columns, count the rows of every reported file, and let the commit add the files.

        Returns:
            The rows that the files hold, as their footers say; none of a file that is gone or has another size.

        Raises:
            SchemaMismatchError: somebody has changed the table's columns since :meth:`prepare`.
        """
        from deltalake.transaction import AddAction

        assert self._schema is not None, "prepare() comes before the first batch"
        if self._grown(self._schema, transaction.table).schema != _columns(transaction.table):
            self._mismatch_raised("it has lost columns since the pipeline started")
        files = reported_files(reports)
        rows = sum(whole_rows(self._store.folder, file, self._format) for file in files)
        if files and self._store.durable:
            sync_directory(self._store.folder)
        transaction.added += [
            AddAction(
                path=file.name,
                size=file.bytes,
                partition_values={},
                modification_time=time.time_ns() // 1_000_000,
                data_change=True,
                stats=json.dumps({"numRecords": file.rows}),
            )
            for file in files
        ]
        transaction.given_up |= self._tries.besides(batch)
        return rows

    def recount(self) -> TableCount:
        """What the table has now: rows, and rows beyond the first that name the same record.

        Raises:
            SchemaMismatchError: there is no table.
            StoreUnavailableError: the table cannot be read.
        """
        table = self._store.log.snapshot() or self._mismatch_raised("there is no such table")
        with translated(self._store.label), delta_errors(self._store.label):
            dataset = table.to_pyarrow_dataset()
            return TableCount(rows=dataset.count_rows(), doubled=doubled_records(dataset))

    def _grown(self, schema: pa.Schema, table: DeltaTable | None) -> TableState:
        before = None if table is None else TableState(format="parquet", schema=_columns(table))
        grown, problems = grown_columns(schema, before, format="parquet", policy=self.schema_policy)
        if table is not None:
            problems = problems + _table_problems(table, schema)
        if problems := storage_problems(schema, "parquet") + problems:
            self._mismatch_raised("; ".join(problems))
        return grown

    def _mismatch_raised(self, detail: str) -> Any:
        raise SchemaMismatchError(store=self._store.label, sink=self.name, detail=detail)


def _columns(table: DeltaTable) -> pa.Schema:
    return plain_schema(pa.schema(table.schema()))


def _table_problems(table: DeltaTable, schema: pa.Schema) -> list[str]:
    """What an existing table asks of its writers that is not done here, one sentence each."""
    metadata, protocol = table.metadata(), table.protocol()
    problems = [
        f"it needs the feature {name}" for name in sorted(_REFUSED_FEATURES & set(protocol.writer_features or ()))
    ]
    problems += [
        f"its property {name} is set" for name in sorted(metadata.configuration) if name.startswith(_REFUSED_PROPERTIES)
    ]
    if metadata.partition_columns:
        problems.append(f"it is partitioned by {', '.join(metadata.partition_columns)}")
    given = {field.name: field for field in schema}
    for column in table.schema().fields:
        problems += [
            f"its column {column.name!r} {words}" for key, words in _REFUSED_COLUMNS.items() if key in column.metadata
        ]
        if not column.nullable and (column.name not in given or given[column.name].nullable):
            problems.append(f"its column {column.name!r} is NOT NULL, and the DataFrame may lack it")
    return problems
