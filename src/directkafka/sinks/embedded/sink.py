"""The sink of embedded databases: rows into one table of one file, in the transaction of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from directkafka.arrow_columns import empty_batch
from directkafka.errors import OptionError, SchemaMismatchError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.capabilities import SinkCapabilities, TableCount
from directkafka.sinks.databases import lower, parse_name
from directkafka.sinks.embedded.config import EmbeddedConfig
from directkafka.sinks.embedded.dead_letters import EmbeddedDeadLetters
from directkafka.sinks.embedded.file.connection import FileConnection, FileTransaction, quoted
from directkafka.sinks.embedded.plan import BATCH, SQL, FilePlan, batch_column
from directkafka.sinks.embedded.staging_files import Access, FileTaskWriter, StagedRows, StagingFolder
from directkafka.sinks.embedded.statements import move_rows, try_insert
from directkafka.sinks.embedded.store import EmbeddedStore
from directkafka.sinks.embedded.table_schema import Dialect, FileTable, table_problems
from directkafka.sinks.staging import staging_name
from directkafka.sinks.wrapped_sink import Clonable
from directkafka.sinks.write_modes import WriteMode

#: Names of directkafka's own tables, which no target may have.
_OWN_TABLES = frozenset({BATCH, "directkafka_ledger", "directkafka_truncate"})

_RECORD = frozenset({"topic", "partition", "offset"})


class EmbeddedSink(EmbeddedConfig, Clonable):
    """Rows into one table of a file; :class:`~directkafka.sinks.embedded.sqlite.SQLiteSink` and its sibling say which.

    Attributes:
        store_type: of the file's ledger.
        dialect: the database's.
        name_parts_max: how many parts a table's name may have.
    """

    store_type: ClassVar[Callable[..., EmbeddedStore]]
    dialect: ClassVar[Dialect]
    name_parts_max: ClassVar[int]

    @classmethod
    def store_at(cls, url: str) -> EmbeddedStore:
        """The store of ``sqlite:PATH`` or ``duckdb:PATH``."""
        return cls.store_type(url.partition(":")[2], lock_timeout_s=cls.lock_timeout_s)

    def __post_init__(self) -> None:
        store = self.store_type(self.path, lock_timeout_s=self.lock_timeout_s)
        where = f"a {store.file.kind} sink"
        self._mode = WriteMode.parse(
            self.mode, key=self.key, add=self.add, order=self.order, delete=self.delete, delete_how=self.delete_how,
            delete_time=self.delete_time, truncate=self.truncate, where=where,
        )  # fmt: skip
        try:
            self._target = parse_name(self.table, parts_max=self.name_parts_max, fold=False)
        except ValueError as error:
            raise OptionError(option="table", where=where, reason=str(error)) from None
        if self._target[-1].lower() in _OWN_TABLES:
            raise OptionError(option="table", where=where, reason=f"{self.table!r} is a table of directkafka's own")
        self._store = store
        beside = store.file.path.with_name(store.file.path.name + ".directkafka-staging")
        self._staging = StagingFolder(Path(self.staging).absolute() if self.staging is not None else beside)
        #: Folders of batches that may be there, and the number of the batch that each is for.
        self._staging_names: dict[str, int] = {}
        #: Whether what older drivers left is removed.
        self._is_swept = False
        self._plan: FilePlan | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._store.file.path)!r}, {self.name!r}, mode={self._mode.name!r})"

    @property
    def name(self) -> str:
        """The table as the options name it, without quotes."""
        return ".".join(self._target)

    @property
    def target(self) -> str:
        """File and table, the same however they are spelt."""
        schema = self._target[-2] if len(self._target) > 1 else "main"
        return f"{self.store.identity}/{lower(schema)}.{lower(self._target[-1])}"

    @property
    def store(self) -> EmbeddedStore:
        """The file's ledger."""
        return self._store

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch may be staged while the one before it is committed."""
        return SinkCapabilities(inline_bytes_max=self.inline_bytes_max, allows_prefetch=True, write_mode=self._mode)

    def dead_letters(self) -> EmbeddedDeadLetters:
        """The table, for a replay of the dead letters in it."""
        return EmbeddedDeadLetters(self._store, self.dialect, self._target, sink=self.name)

    def check(self, schema: pa.Schema) -> None:
        """Find what :meth:`prepare` would refuse, and leave the file as it is; one that is not there is not made.

        Raises:
            SchemaMismatchError, StoreAccessError, StoreUnavailableError: as :meth:`prepare`.
        """
        for field in self._mode.stored(schema):
            self._type_sql(field)
        if not self._store.file.path.exists():
            self._refuse(self._mode.column_problems(schema) + self._ignore_problems(schema, FileTable(columns=())))
            return
        with self._store.opened(sink=self.name) as connection:
            connection.begin()
            self._examine(connection, schema)
            connection.rollback()

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table if there is none, and check columns and key.

        Raises:
            SchemaMismatchError: all that does not fit, in one message.
            StoreAccessError, StoreUnavailableError: the file cannot be opened.
        """
        self._plan = self._store.retry_locked(lambda: self._prepared(schema))

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> FileTaskWriter:
        """What each task of this batch runs.

        Args:
            batch: which try of which batch.
            schema: the one the sink was prepared with.
            task_count: how many tasks share ``inline_bytes_max``.
        """
        if not self._is_swept:
            self._staging.remove_stale(batch)
            self._is_swept = True
        self._staging_names[staging_name(batch, self.name)] = batch.batch_id
        return FileTaskWriter(
            store=self._store.file.label,
            folder=self._staging.of(batch, self.name),
            convert=self.dialect.converter(schema, store=self._store.file.label, sink=self.name),
            inline_bytes_max=self.inline_bytes_max // max(1, task_count),
            mode=self._mode,
            access=Access.of(self._store.file.path),
        )

    def apply(self, transaction: FileTransaction, batch: BatchAttempt, reports: Sequence[TaskReport]) -> int:
        """Move the reported rows into the table; what was staged is removed once the commit is certain.

        Raises:
            RowCountError, RowRejectedError: the caller rolls back.
            Exception: the database's own, untranslated.
        """
        assert self._plan is not None, "prepare() comes before the first batch"
        rows = StagedRows(
            store=self._store.file.label, sink=self.name, folder=self._staging.of(batch, self.name), reports=reports
        )
        count = move_rows(transaction.connection, self._plan, rows)
        # Folders of the next batch stay.
        ended = [name for name, batch_id in tuple(self._staging_names.items()) if batch_id <= batch.batch_id]
        transaction.after_commit.append(partial(self._remove_staged, ended))
        return count

    def _remove_staged(self, names: Sequence[str]) -> None:
        for name in names:
            self._staging_names.pop(name, None)
        # The next batch's tasks may be making their folder inside.
        self._staging.remove(names, is_last=not self._staging_names)

    def recount(self) -> TableCount:
        """What the table has now: rows, records that two rows name, sums of the columns that merge adds up.

        Raises:
            SchemaMismatchError: there is no table.
            StoreUnavailableError: the file cannot be opened.
        """
        if not self._store.file.path.exists():
            self._refuse(["there is no such table"])
        with self._store.opened(sink=self.name) as connection:
            table = self.dialect.read_table(connection, self._target)
            if table is None:
                self._refuse(["there is no such table"])
            return self._count(connection, {column.name for column in table.columns} if table else set())

    def _count(self, connection: FileConnection, columns: set[str]) -> TableCount:
        add, target = self._mode.add, quoted(*self._target)
        sums = "".join(f", coalesce(sum(held.{quoted(name)}), 0)" for name in add)
        ((rows, *totals),) = connection.rows(SQL["count_rows"].format(sums=sums, target=target))
        records = rows
        if columns >= _RECORD:
            ((records,),) = connection.rows(SQL["count_records"].format(target=target))
        return TableCount(
            rows=rows,
            doubled=rows - records,
            is_folded=self._mode.is_folded,
            sums=dict(zip(add, totals, strict=True)),
        )

    def _prepared(self, schema: pa.Schema) -> FilePlan:
        with self._store.opened(sink=self.name) as connection:
            connection.begin()
            plan = self._examine(connection, schema)
            connection.commit()
        return plan

    def _examine(self, connection: FileConnection, schema: pa.Schema) -> FilePlan:
        """In an open transaction: find or make the table, and see that all fits."""
        table, stored = self.dialect.read_table(connection, self._target), self._mode.stored(schema)
        if table is None:
            self._make(connection, schema)
        elif self.schema_policy == "add-columns":
            self._add_columns(connection, stored, table)
        target_table = self.dialect.read_table(connection, self._target)
        if target_table is None:
            # DuckDB takes the file's own name in front of a table for the file, and makes the table in schema main.
            self._refuse(["it was made, and is not there under this name: write schema.table, with one of its schemas"])
        assert target_table is not None, "else it is refused"
        problems = table_problems(schema, self._mode, target_table, self.dialect, name=self.name)
        problems += self._ignore_problems(schema, target_table)
        self._refuse(problems if target_table.is_table else [*problems, "it is no table"])
        convert = self.dialect.converter(schema, store=self._store.file.label, sink=self.name)
        plan = FilePlan(
            store=self._store.file.label,
            sink=self.name,
            mode=self._mode,
            target=self._target,
            unique=tuple(dict.fromkeys(target_table.unique)),
            triggers=target_table.triggers,
            goes_straight=target_table.is_plain,
            schema=schema,
            converted=convert(empty_batch(schema)).schema,
            definitions=tuple(self._definition(target_table, index, name) for index, name in enumerate(schema.names)),
            dialect=self.dialect,
        )
        try_insert(connection, plan)
        return plan

    def _definition(self, table: FileTable, index: int, name: str) -> str:
        """A batch's column: as the table has it, or bare."""
        if not self.dialect.is_typed:
            return batch_column(index)
        if name in self._mode.controls:
            return f"{batch_column(index)} {'BOOLEAN' if name == self.delete else 'VARCHAR'}"
        column = next(column for column in table.columns if column.name.lower() == name.lower())
        collation = f" COLLATE {column.collation}" if column.collation else ""
        return f"{batch_column(index)} {column.type_sql}{collation}"

    def _ignore_problems(self, schema: pa.Schema, table: FileTable) -> list[str]:
        """What keeps ``ignore`` from finding the first of rows that collide."""
        if self._mode.name != "ignore":
            return []
        if self._mode.key or self.dialect.goes_row_by_row or not table.unique:
            return []
        if len(set(table.unique)) > 1:
            return [
                "it has several unique indexes, and DuckDB would leave out rows without a conflict, too: name the "
                "columns of one in key = [...]"
            ]
        given = {name.lower() for name in schema.names}
        missing = [name for name in sorted(table.unique[0]) if name.lower() not in given]
        return [f"its unique index has the column {name!r}, which the DataFrame lacks" for name in missing]

    def _make(self, connection: FileConnection, schema: pa.Schema) -> None:
        self._refuse(self._mode.column_problems(schema))
        definitions = [f"{quoted(field.name)} {self._type_sql(field)}" for field in self._mode.stored(schema)]
        if self._mode.key:
            definitions.append(f"UNIQUE ({', '.join(quoted(name) for name in self._mode.key)})")
        connection.rows(
            SQL["create_table"].format(
                target=quoted(*self._target), definitions=", ".join(definitions), suffix=self.dialect.table_suffix
            )
        )

    def _add_columns(self, connection: FileConnection, schema: pa.Schema, table: FileTable) -> None:
        known = {column.name.lower() for column in table.columns}
        for field in schema:
            if field.name.lower() not in known:
                kind = self._type_sql(field)
                statement = SQL["add_column"].format(target=quoted(*self._target), column=quoted(field.name), type=kind)
                connection.rows(statement)

    def _type_sql(self, field: pa.Field) -> str:
        type_sql = self.dialect.creation_type(field.type, is_sum=field.name in self._mode.add)
        if type_sql is None:
            kind = self._store.file.kind
            advice = "make a string of it, for example with to_json"
            self._refuse([f"column {field.name!r} of type {field.type} has no {kind} type here: {advice}"])
        return str(type_sql)

    def _refuse(self, problems: Sequence[str]) -> None:
        if problems:
            raise SchemaMismatchError(store=self._store.file.label, sink=self.name, detail="; ".join(problems))
