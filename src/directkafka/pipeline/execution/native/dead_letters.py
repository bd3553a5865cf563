"""Dead letters of a native pipeline: what the function rejects is looked up in the batch that it was given.

It means the same as under Spark (:mod:`directkafka.pipeline.execution.dead_letters`), and needs no join: a batch holds
the records that its rows may name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.arrow_columns import empty_batch
from directkafka.errors import TransformError
from directkafka.options.payloads import AS_IT_CAME, UNREAD
from directkafka.payloads.arrow_types import is_text, mended_texts
from directkafka.pipeline.execution.native.arrow_transform import Schemas, location_of
from directkafka.pipeline.execution.rejection import (
    BETWEEN_REASONS,
    DEAD_LETTERS,
    HEADER,
    REASON,
    RECORD,
    TOLD,
    kept_columns,
    no_dead_letter_sink,
    unnamed_records,
)
from directkafka.sinks.api import Sink
from directkafka.sinks.databases import outside_years

#: Type of the headers of a record.
_HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersOfBatch:
    """Sets rejected records apart, batch by batch; picklable.

    Attributes:
        columns: of a record, those that its dead letter has.
        is_record: whether a dead letter is a Kafka record, whose headers tell what else it would have columns for.
    """

    columns: tuple[str, ...]
    is_record: bool

    @classmethod
    def of(cls, source: pa.Schema, sink: Sink) -> DeadLettersOfBatch:
        """For a sink of dead letters.

        Raises:
            TransformError: the source has not what a dead letter needs.
        """
        return cls(columns=tuple(kept_columns(source.names)), is_record=sink.capabilities.takes_records)

    def schema(self, source: pa.Schema) -> pa.Schema:
        """The columns of dead letters."""
        empty = empty_batch(source)
        return self.divert({}, empty)[DEAD_LETTERS].schema

    def of_records(self, records: pa.RecordBatch, reasons: pa.Array) -> pa.RecordBatch:
        """The dead letters of records that are as they came, each with its reason."""
        dead_letters = records.select(list(self.columns)).append_column(TOLD, reasons)
        return _as_records(dead_letters) if self.is_record else _with_years(dead_letters)

    @staticmethod
    def shown(batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of a batch that can be read, in the columns that the function is given."""
        if UNREAD in batch.schema.names and (unread := batch.column(UNREAD)).null_count < len(unread):
            batch = batch.filter(pc.is_null(unread))
        return batch.drop_columns([name for name in (*AS_IT_CAME.values(), UNREAD) if name in batch.schema.names])

    def divert(self, outputs: Mapping[str, pa.RecordBatch], batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """The outputs without what is rejected, and that as the output ``dead_letters``: a letter for each record.

        Args:
            outputs: what the function made of the records.
            batch: the records, with what they were before they were decoded, and those that could not be.

        Raises:
            TransformError: a rejected row names none of the records.
        """
        kept, rejected = dict(outputs), []
        records = _as_they_came(batch)
        if UNREAD in batch.schema.names and (unread := batch.column(UNREAD)).null_count < len(unread):
            rows = pc.indices_nonzero(pc.is_valid(unread)).cast(pa.int64())
            rejected.append(pa.table({"row": rows, TOLD: _valid(unread.take(rows))}))
        for output in _rejecting({name: rows.schema for name, rows in outputs.items()}):
            rows = kept.pop(output)
            reasons = rows.column(_reason_of(rows.schema))
            is_rejected = pc.is_valid(reasons)
            if output != DEAD_LETTERS:
                others = rows if reasons.null_count == len(rows) else rows.filter(pc.invert(is_rejected))
                kept[output] = others.drop_columns([REASON])
            if reasons.null_count < len(rows):
                rejected.append(_named(rows.filter(is_rejected), records))
        kept[DEAD_LETTERS] = self._dead_letters(records, pa.concat_tables(rejected) if rejected else None)
        return kept

    def _dead_letters(self, records: pa.RecordBatch, rejected: pa.Table | None) -> pa.RecordBatch:
        """A letter for each record that some row names, in their order, with all its reasons."""
        rows, told = pa.nulls(0, pa.int64()), pa.nulls(0, pa.string())
        if rejected is not None:
            # Each reason of a record once, in the order of the texts.
            single = rejected.group_by(["row", TOLD]).aggregate([]).sort_by([("row", "ascending"), (TOLD, "ascending")])
            joined = single.group_by("row", use_threads=False).aggregate([(TOLD, "list")]).combine_chunks()
            rows = joined.column("row").combine_chunks()
            told = pc.binary_join(joined.column(f"{TOLD}_list").combine_chunks(), BETWEEN_REASONS)
        return self.of_records(records.take(rows), told)


def _with_years(dead_letters: pa.RecordBatch) -> pa.RecordBatch:
    """A record's time that no calendar has is NULL in a table: else its letter could not be stored."""
    if "timestamp" not in dead_letters.schema.names:
        return dead_letters
    times = dead_letters.column("timestamp")
    known = pc.if_else(outside_years(times), pa.scalar(None, times.type), times)
    return dead_letters.set_column(dead_letters.schema.get_field_index("timestamp"), "timestamp", known)


def diverted(schemas: Schemas, dead_letters: pa.Schema | None) -> dict[str, pa.Schema]:
    """The columns of the outputs once rejected records are set apart.

    Args:
        schemas: of the function's outputs.
        dead_letters: their columns; None in a pipeline without a sink for them.

    Raises:
        TransformError: the function rejects records and nobody takes them, or it does not say which, or why.
    """
    diverted_schemas = {name: schema for name, schema in schemas.items() if name != DEAD_LETTERS}
    for output in _rejecting(schemas):
        if dead_letters is None:
            raise no_dead_letter_sink(output)
        schema = schemas[output]
        if (error := unnamed_records(output, schema.names, _reason_of(schema))) is not None:
            raise error
        if not is_text(kind := schema.field(_reason_of(schema)).type):
            cause = f"its column {_reason_of(schema)!r} is {kind}: make it a string, and null where nothing is wrong"
            raise TransformError(source=f"output {output!r}", cause=cause)
        if output != DEAD_LETTERS:
            diverted_schemas[output] = pa.schema([field for field in schema if field.name != REASON])
    if dead_letters is not None:
        diverted_schemas[DEAD_LETTERS] = dead_letters
    return diverted_schemas


def _as_they_came(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The records with their bytes."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {name: columns.pop(kept) for name, kept in AS_IT_CAME.items() if kept in columns}
    columns.pop(UNREAD, None)
    return pa.record_batch(columns)


def _rejecting(schemas: Schemas) -> list[str]:
    """The outputs that may reject records."""
    return [name for name, schema in schemas.items() if name == DEAD_LETTERS or REASON in schema.names]


def _reason_of(schema: pa.Schema) -> str:
    return REASON if REASON in schema.names else TOLD


def _named(rejected: pa.RecordBatch, records: pa.RecordBatch) -> pa.Table:
    """Rejected rows as numbers of the records that they name, and reasons.

    Raises:
        TransformError: one names no record of the batch.
    """
    named = {name: _as_in_records(rejected.column(name), name, records) for name in RECORD}
    places = pc.index_in(named["offset"], value_set=records.column("offset"))
    is_known = pc.is_valid(places)
    # A batch is of one partition.
    for name in ("topic", "partition") if records.num_rows else ():
        is_known = pc.and_(is_known, pc.fill_null(pc.equal(named[name], records.column(name)[0]), False))
    if not pc.all(is_known).as_py():
        row = pc.index(is_known, False).as_py()
        named_record = ", ".join(f"{name} {rejected.column(name)[row]}" for name in RECORD).replace("None", "null")
        raise _refused(f"a rejected row names no record of the batch: {named_record}", records)
    told = _valid(rejected.column(_reason_of(rejected.schema)))
    return pa.table({"row": places.cast(pa.int64()), TOLD: told})


def _as_in_records(column: pa.Array, name: str, records: pa.RecordBatch) -> pa.Array:
    kind = records.schema.field(name).type
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refused(f"column {name!r} of a rejected row is no {kind}: {error}", records) from error


def _refused(cause: str, records: pa.RecordBatch) -> TransformError:
    return TransformError(source="[dead_letters]", cause=f"on {location_of(records)}: {cause}")


def _valid(texts: pa.Array) -> pa.Array:
    """Texts that databases take: what is made of a record's bytes may be no UTF-8, or have a NUL."""
    return pc.replace_substring(mended_texts(texts).cast(pa.string()), "\0", "\ufffd")


def _as_records(dead_letters: pa.RecordBatch) -> pa.RecordBatch:
    """Dead letters as records of Kafka: bytes as they came, and in headers where they came from and why."""
    added = [
        pa.StructArray.from_arrays(
            [
                pa.repeat(HEADER + name, len(dead_letters)),
                dead_letters.column(name).cast(pa.string()).cast(pa.binary()),
            ],
            fields=list(_HEADER_TYPE),
        )
        for name in (*RECORD, TOLD)
    ]
    there = dead_letters.column("headers") if "headers" in dead_letters.schema.names else None
    columns = {name: dead_letters.column(name) for name in ("key", "value") if name in dead_letters.schema.names}
    return pa.record_batch(columns | {"headers": _with_headers(there, added, len(dead_letters))})


def _with_headers(there: pa.Array | None, added: Sequence[pa.Array], count: int) -> pa.Array:
    """The headers of each record, and behind them one of each column of ``added``."""
    if there is None:
        there = pa.nulls(count, pa.list_(_HEADER_TYPE))
    lengths = pc.fill_null(pc.list_value_length(there), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    old = there.flatten().cast(_HEADER_TYPE)
    ends = np.concatenate(([0], np.cumsum(lengths + len(added))))
    # Where each header comes from: the old ones in their order, then the added columns one behind the other.
    order = np.empty(ends[-1], np.int64)
    behind = ends[1:] - len(added)
    is_old = np.ones(ends[-1], bool)
    for number in range(len(added)):
        order[behind + number] = len(old) + number * count + np.arange(count)
        is_old[behind + number] = False
    order[is_old] = np.arange(len(old))
    headers = pa.concat_arrays([old, *added]).take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), headers)
