"""Merges into a Delta table: delta-rs's MERGE for a folded batch, in the commit that has the ledger's numbers.

What each mode asks of a row of the table and the folded row of its key:

- ``ignore``: a key that is not there goes in.
- ``merge``: numbers are added; a key that is not there goes in.
- ``upsert``: what goes in replaces the row that is there if that is not newer, by the mode's order; so does a delete,
  which removes the row or marks it. A TRUNCATE does that to every row that is not newer, whatever its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.sinks.deletes import Deletes
from directkafka.sinks.delta.folding import DELETES, GOES_IN, FoldedBatch, own_order
from directkafka.sinks.delta.table import FilesChange
from directkafka.sinks.files.formats import ParquetCompression
from directkafka.sinks.write_modes import WriteMode

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.table import TableMerger

_ALWAYS: Final = "TRUE"

#: What delta-rs calls them; Arrow's own lz4 in Parquet is LZ4_RAW too.
_CODECS: Final[Mapping[ParquetCompression, Any]] = {
    "zstd": "ZSTD", "snappy": "SNAPPY", "lz4": "LZ4_RAW", "gzip": "GZIP", "none": "UNCOMPRESSED",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A change of a table's rows.

    Attributes:
        batch: the rows, folded.
        mode: how they meet those that are there.
        compression: of the files that delta-rs writes.
    """

    batch: FoldedBatch
    mode: WriteMode
    compression: ParquetCompression

    @property
    def leaves_files_to_sync(self) -> bool:
        """delta-rs writes the files, and does not sync them."""
        return True

    def commit(self, table: DeltaTable, properties: CommitProperties) -> None:
        """Make one commit.

        Raises:
            deltalake.exceptions.DeltaError: it failed, or somebody else has added, removed or changed rows meanwhile.
        """
        from deltalake import WriterProperties

        merger = table.merge(
            self.batch.rows,
            " AND ".join(f"{_held(name)} = {_coming(name)}" for name in self.mode.key),
            source_alias="source",
            target_alias="target",
            # Else files are passed over by the statistics of whoever wrote them, and a wrong one would double a key.
            streamed_exec=True,
            writer_properties=WriterProperties(compression=_CODECS[self.compression]),
            commit_properties=properties,
        )
        before = table.version()
        self._with_clauses(merger).execute()
        if table.version() == before:
            # Where no row changes delta-rs makes no commit, and the ledger's numbers would not move.
            FilesChange().commit(table, properties)

    def _with_clauses(self, merger: TableMerger) -> TableMerger:
        mode, schema = self.mode, self.batch.rows.schema
        if mode.name == "ignore":
            return merger.when_not_matched_insert(_from_batch(schema.names))
        if mode.name == "merge":
            added = {_quoted(name): _addition(name, schema.field(name).type) for name in mode.add}
            return merger.when_matched_update(added).when_not_matched_insert(_from_batch(schema.names))
        controls = {GOES_IN, DELETES, *(own_order(index) for index in range(len(mode.order)))}
        stored = _from_batch(name for name in schema.names if name not in controls)
        merger = merger.when_matched_update(
            stored, self._condition(GOES_IN, [_coming(own_order(index)) for index in range(len(mode.order))])
        )
        deletes = mode.deletes
        if deletes is None:
            return merger.when_not_matched_insert(stored)
        is_deleted = self._condition(DELETES, [_coming(name) for name in mode.order])
        if deletes.is_soft:
            merger = merger.when_matched_update(_from_batch(deletes.taken(mode.order)), is_deleted)
            merger = merger.when_not_matched_insert(stored)
        else:
            merger = merger.when_matched_delete(is_deleted).when_not_matched_insert(stored, _coming(GOES_IN))
        return self._with_truncate(merger, deletes)

    def _with_truncate(self, merger: TableMerger, deletes: Deletes) -> TableMerger:
        truncate = self.batch.truncate
        if truncate is None:
            return merger
        bounds = [_literal(truncate.column(name)[0]) for name in self.mode.order]
        is_older = _is_not_newer(self.mode.order, bounds)
        if not deletes.is_soft:
            return merger.when_not_matched_by_source_delete(is_older)
        marks = {_quoted(name): _literal(truncate.column(name)[0]) for name in deletes.taken(self.mode.order)}
        return merger.when_not_matched_by_source_update(marks | {_quoted(deletes.column): _ALWAYS}, is_older)

    def _condition(self, flag: str, order: Sequence[str]) -> str:
        return f"{_coming(flag)} AND {_is_not_newer(self.mode.order, order)}"


def _is_not_newer(order: Sequence[str], bounds: Sequence[str]) -> str:
    """Whether the row that is there is not newer than something. A null in its order is older than anything."""
    condition = _ALWAYS
    for name, bound in reversed(list(zip(order, bounds, strict=True))):
        held = _held(name)
        condition = f"({held} < {bound} OR ({held} = {bound} AND {condition}))"
    return f"({' OR '.join([*(f'{_held(name)} IS NULL' for name in order), condition])})"


def _addition(name: str, kind: pa.DataType) -> str:
    """The sum of what is held and what comes; an error where it does not fit, for DataFusion's own would wrap round."""
    held = f"coalesce({_held(name)}, 0)"
    if pa.types.is_floating(kind):
        return f"{held} + {_coming(name)}"
    wide = f"Decimal256(76, {kind.scale if pa.types.is_decimal(kind) else 0})"
    total = f"arrow_cast({held}, '{wide}') + arrow_cast({_coming(name)}, '{wide}')"
    return f"arrow_cast({total}, '{_type_name(kind)}')"


def _literal(value: Any) -> str:
    """An Arrow scalar in DataFusion's SQL."""
    if not value.is_valid:
        return "NULL"
    if pa.types.is_binary(value.type) or pa.types.is_large_binary(value.type):
        return f"X'{value.as_py().hex()}'"
    name = _type_name(value.type)
    if pa.types.is_timestamp(value.type):
        # As numbers: of a year beyond 9999 a text is not understood.
        return f"arrow_cast({pc.cast(value, pa.int64()).as_py()}, '{name}')"
    if pa.types.is_date32(value.type):
        return f"arrow_cast(arrow_cast({pc.cast(value, pa.int32()).as_py()}, 'Int32'), '{name}')"
    text = f"{value.as_py():f}" if pa.types.is_decimal(value.type) else str(pc.cast(value, pa.string()).as_py())
    return f"arrow_cast('{text.replace(chr(39), 2 * chr(39))}', '{name}')"


def _type_name(kind: pa.DataType) -> str:
    """What DataFusion calls a type, for ``arrow_cast``."""
    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        return f"Timestamp(Microsecond, {zone})"
    return _TYPE_NAMES[str(kind)]


_TYPE_NAMES: Final[Mapping[str, str]] = {
    "bool": "Boolean", "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "float": "Float32",
    "double": "Float64", "string": "Utf8", "large_string": "LargeUtf8", "date32[day]": "Date32",
}  # fmt: skip


def _from_batch(names: Iterable[str]) -> dict[str, str]:
    return {_quoted(name): _coming(name) for name in names}


def _held(name: str) -> str:
    return f"target.{_quoted(name)}"


def _coming(name: str) -> str:
    return f"source.{_quoted(name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
