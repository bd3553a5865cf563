"""The Delta sink: writes a DataFrame's rows into one Delta table, in one commit with the ledger entry; needs no jar.

Rows of ``append`` and ``replace`` are the table's own files from the start. Those of the modes with a key are staged
beside it; the driver reads them, folds them to one row a key, and has delta-rs merge that into the table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from directkafka.errors import OptionError, RowRejectedError, SchemaMismatchError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.capabilities import SinkCapabilities, TableCount
from directkafka.sinks.delta.config import DeltaConfig
from directkafka.sinks.delta.folding import Folding
from directkafka.sinks.delta.merge import Merge
from directkafka.sinks.delta.store import DeltaStore, DeltaTransaction
from directkafka.sinks.delta.table import FilesChange, delta_errors
from directkafka.sinks.files.formats import ParquetFormat
from directkafka.sinks.files.log_state import DataFile, TableState
from directkafka.sinks.files.posix import require_writable, sync_directory, translated
from directkafka.sinks.files.schema import grown_columns, plain_schema, storage_problems
from directkafka.sinks.files.task_writer import AttemptTracker, DataFileWriter, reported_files, whole_rows
from directkafka.sinks.ledger import doubled_records
from directkafka.sinks.wrapped_sink import Clonable
from directkafka.sinks.write_modes import WriteMode

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

_WHERE: Final = "a Delta sink"

_NUMBERS: Final = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


class DeltaSink(DeltaConfig, Clonable):
    """Rows into one Delta table, exactly once.

    Tasks write Parquet files, the driver commits them or merges what is in them; the table is an ordinary one for every
    reader. It must not be partitioned, and must have no constraints, generated columns or column mapping. The modes
    ``ignore``, ``upsert`` and ``merge`` hold a batch in the driver's memory, go through the whole table for each
    batch, and are tried again where somebody else has changed the table meanwhile.

    Raises:
        OptionError: path, mode, its columns or compression make no sense, or the package deltalake is missing.
    """

    @classmethod
    def store_at(cls, url: str) -> DeltaStore:
        """The store of ``delta:PATH``."""
        return DeltaStore(url.partition(":")[2])

    def __post_init__(self) -> None:
        self._mode = WriteMode.parse(
            self.mode, key=self.key, add=self.add, order=self.order, delete=self.delete, delete_how=self.delete_how,
            delete_time=self.delete_time, truncate=self.truncate, where=_WHERE,
        )  # fmt: skip
        if self._mode.name == "ignore" and not self._mode.key:
            reason = "a Delta table has no unique index that ignore could go by: name columns in key = [...]"
            raise OptionError(option="key", where=_WHERE, reason=reason)
        self._store = DeltaStore(self.path, durable=self.durable)
        self._format = ParquetFormat(compression=self.compression, row_group_bytes=self.row_group_bytes)
        self._schema: pa.Schema | None = None
        self._tries = AttemptTracker()

    def __repr__(self) -> str:
        return f"DeltaSink({str(self._store.folder)!r}, mode={self._mode.name!r})"

    @property
    def name(self) -> str:
        """The last part of the table's path."""
        return self._store.folder.name

    @property
    def store(self) -> DeltaStore:
        """The table's ledger."""
        return self._store

    @property
    def capabilities(self) -> SinkCapabilities:
        """How rows meet those that are there."""
        return SinkCapabilities(write_mode=self._mode)

    def check(self, schema: pa.Schema) -> None:
        """Find what :meth:`prepare` would refuse, making and changing nothing.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as :meth:`prepare`.
        """
        table = self._store.log.snapshot()
        self._grown(schema, table)
        # The fence comes before prepare(), and makes the table if there is none.
        self._store.log.schema_to_make = plain_schema(self._mode.stored(schema))
        require_writable(self._store.folder, store=self._store.label)

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table if need be, and add the columns that it lacks.

        Raises:
            SchemaMismatchError: all that does not fit, in one message.
            StoreAccessError, StoreUnavailableError: the table cannot be read or changed.
        """
        from deltalake import Schema

        self._store.log.schema_to_make = plain_schema(self._mode.stored(schema))
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
        if not self._mode.adds_rows:
            with translated(self._store.label):
                self._store.staging.mkdir(exist_ok=True)
        return DataFileWriter(
            folder=self._files_folder,
            batch=batch,
            format=self._format,
            durable=self._store.durable and self._mode.adds_rows,
            store=self._store.label,
        )

    def apply(self, transaction: DeltaTransaction, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Check the table's columns, count the rows of every reported file, and say what the commit does with them.

        Returns:
            The rows that the files hold, as their footers say; none of a file that is gone or has another size.

        Raises:
            SchemaMismatchError: somebody has changed the table's columns since :meth:`prepare`.
            RowRejectedError: rows that the mode cannot place.
        """
        assert self._schema is not None, "prepare() comes before the first batch"
        if self._grown(self._schema, transaction.table).schema != _columns(transaction.table):
            self._mismatch_raised("it has lost columns since the pipeline started")
        files = reported_files(reports)
        rows = sum(whole_rows(self._files_folder, file, self._format) for file in files)
        if self._mode.adds_rows:
            transaction.change = self._files_change(files)
            transaction.given_up |= self._tries.besides(batch)
        elif files and rows == sum(file.rows for file in files):
            transaction.change = self._merge(files)
        return rows

    @property
    def _files_folder(self) -> Path:
        """Where tasks write their files."""
        return self._store.folder if self._mode.adds_rows else self._store.staging

    def _files_change(self, files: Sequence[DataFile]) -> FilesChange:
        from deltalake.transaction import AddAction

        if files and self._store.durable:
            sync_directory(self._store.folder)
        added = [
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
        return FilesChange(added, replaces=self._mode.name == "replace")

    def _merge(self, files: Sequence[DataFile]) -> Merge:
        rows = pa.concat_tables(pq.read_table(self._store.staging / file.name) for file in files)
        folding = Folding(mode=self._mode, store=self._store.label, sink=self.name)
        try:
            folded = folding.fold(rows.cast(_with_large_texts(rows.schema)))
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            detail = f"the batch cannot be folded by the driver ({error}): make smaller ones (maxOffsetsPerTrigger)"
            raise RowRejectedError(store=self._store.label, sink=self.name, detail=detail) from error
        return Merge(batch=folded, mode=self._mode, compression=self.compression)

    def recount(self) -> TableCount:
        """What the table has now: rows, records that two rows name, sums of the columns that merge adds up.

        Raises:
            SchemaMismatchError: there is no table.
            StoreUnavailableError: the table cannot be read.
        """
        table = self._store.log.snapshot() or self._mismatch_raised("there is no such table")
        with translated(self._store.label), delta_errors(self._store.label):
            dataset = table.to_pyarrow_dataset()
            sums = {name: pc.sum(dataset.to_table(columns=[name]).column(0)).as_py() or 0 for name in self._mode.add}
            return TableCount(
                rows=dataset.count_rows(),
                doubled=doubled_records(dataset),
                is_folded=self._mode.is_folded,
                sums=sums,
            )

    def _grown(self, schema: pa.Schema, table: DeltaTable | None) -> TableState:
        before, stored = None, self._mode.stored(schema)
        if table is not None:
            before = TableState(format="parquet", schema=_columns(table))
        grown, problems = grown_columns(stored, before, format="parquet", policy=self.schema_policy)
        if table is not None:
            problems = problems + _table_problems(table, stored, self._mode)
        problems = problems + self._mode.column_problems(schema) + _type_problems(schema, self._mode)
        if problems := storage_problems(stored, "parquet") + problems:
            self._mismatch_raised("; ".join(problems))
        return grown

    def _mismatch_raised(self, detail: str) -> Any:
        raise SchemaMismatchError(store=self._store.label, sink=self.name, detail=detail)


def _columns(table: DeltaTable) -> pa.Schema:
    return plain_schema(pa.schema(table.schema()))


def _with_large_texts(schema: pa.Schema) -> pa.Schema:
    """The columns so that a batch may have more than 2 GiB of a text."""
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return pa.schema([field.with_type(large.get(field.type, field.type)) for field in schema])


def _type_problems(schema: pa.Schema, mode: WriteMode) -> list[str]:
    """Which columns of the mode have types that cannot be compared or added up, one sentence each."""
    fields = {field.name: field.type for field in schema}
    problems = [
        f"column {name!r} of type {fields[name]} is no key or order: it has no order, or not one that all readers share"
        for name in (*mode.key, *mode.order)
        if name in fields and (pa.types.is_nested(fields[name]) or pa.types.is_floating(fields[name]))
    ]
    time = None if mode.deletes is None else mode.deletes.time
    if time is not None and time in fields and pa.types.is_nested(fields[time]):
        problems.append(f"column {time!r} of type {fields[time]} is no time (delete_time)")
    return problems + [
        f"column {name!r} of type {fields[name]} is no number that can be added up"
        for name in mode.add
        if name in fields and not any(is_it(fields[name]) for is_it in _NUMBERS)
    ]


def _table_problems(table: DeltaTable, schema: pa.Schema, mode: WriteMode) -> list[str]:
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
    if mode.name not in ("append", "ignore") and metadata.configuration.get("delta.appendOnly") == "true":
        problems.append(f"its property delta.appendOnly is set, and {mode.name} takes rows out of it")
    given = {field.name: field for field in schema}
    for column in table.schema().fields:
        problems += [
            f"its column {column.name!r} {words}" for key, words in _REFUSED_COLUMNS.items() if key in column.metadata
        ]
        if not column.nullable and (column.name not in given or given[column.name].nullable):
            problems.append(f"its column {column.name!r} is NOT NULL, and the DataFrame may lack it")
    return problems
