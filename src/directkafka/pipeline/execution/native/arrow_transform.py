"""The transform of Arrow batches: the user's function, the columns it gives, and one run of it on a batch of records.

It runs in the Python worker that has read the records, so no row enters the JVM. Executors import this module without
``pyspark.sql``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from directkafka.arrow_columns import empty_batch
from directkafka.errors import TransformError
from directkafka.errors.transport import Notes

DEFAULT_OUTPUT: Final = "default"

#: What a function may return: one batch, or several by name.
Batches: TypeAlias = "pa.RecordBatch | Mapping[str, pa.RecordBatch]"

#: The columns of each output.
Schemas = Mapping[str, pa.Schema]

#: Arrow's types, each with the one that it becomes because Spark has it; for others see :func:`settled_type`.
_SETTLED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_KEPT: Final = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(),
}  # fmt: skip
_DECIMAL_DIGITS_MAX: Final = 38
#: The columns that name a record.
_RECORD_COLUMNS: Final = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


@dataclass(frozen=True, slots=True)
class ArrowTransform:
    """A function from a batch of records to one batch of rows, or to several by name; it runs on executors.

    It must be stateless: batches come in any number and size, in several processes, and some of them twice.

    Attributes:
        function: takes a :class:`pyarrow.RecordBatch` with the source's columns, returns one or a dict of them.
        name: for messages; the function's own by default.
    """

    function: Callable[[pa.RecordBatch], Batches]
    name: str = ""

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.name or getattr(self.function, "__qualname__", type(self.function).__name__)


def same_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The transform of a pipeline that has none."""
    return batch


#: The source's columns as they are.
NO_TRANSFORM: Final = ArrowTransform(same_columns, "no transform")


def settled_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column becomes: one that Spark has too, so that sinks see the same whoever made the rows.

    Raises:
        ValueError: there is none.
    """
    if kind in _KEPT or kind in _SETTLED:
        return _SETTLED.get(kind, kind)
    if pa.types.is_dictionary(kind):
        return settled_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS_MAX:
        return pa.decimal128(kind.precision, kind.scale)
    return _settled_nested(kind)


def _settled_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(settled_type(kind.key_type), settled_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, settled_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", settled_type(kind.value_type)))
    raise ValueError(f"has the type {kind}, which Spark does not have: cast it, for example to a string")


def schemas_of(transform: ArrowTransform, source: pa.Schema) -> dict[str, pa.Schema]:
    """The columns of each output, as the function gives them for an empty batch.

    Raises:
        TransformError: the function raises, returns something else, or a column has a type that no sink could have.
    """
    empty = empty_batch(source)
    schemas = {}
    for output, batch in _run(transform, empty, "an empty batch").items():
        columns = []
        for field in batch.schema:
            try:
                columns.append(pa.field(field.name, settled_type(field.type)))
            except ValueError as error:
                raise _error(transform, "an empty batch", f"column {field.name!r} {error}") from None
        names = batch.schema.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise _error(transform, "an empty batch", f"output {output!r} has the column {twice[0]!r} twice")
        schemas[output] = pa.schema(columns)
    return schemas


def transformed(
    transform: ArrowTransform, batch: pa.RecordBatch, schemas: Schemas, location: str
) -> dict[str, pa.RecordBatch]:
    """The outputs of one batch, with the columns that were checked.

    Args:
        transform: the transform.
        batch: records of one range.
        schemas: what :func:`schemas_of` has found.
        location: topic, partition and offsets of the batch, for messages.

    Raises:
        TransformError: the function raises, or gives other outputs, columns or rows than it may.
    """
    outputs = _run(transform, batch, location)
    if outputs.keys() - schemas.keys():
        unknown = ", ".join(sorted(outputs.keys() - schemas.keys()))
        raise _error(transform, location, f"it gives the outputs {unknown}, which it did not for an empty batch")
    settled = {output: _settled(transform, rows, schemas[output], location) for output, rows in outputs.items()}
    for output, rows in settled.items():
        if _names_others(rows, batch):
            raise _error(transform, location, f"output {output!r} has rows of records that are not in the batch")
    return settled


def _names_others(rows: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
    """Whether rows say by topic, partition and offset that they are of other records than the batch's."""
    if rows.num_rows == 0 or any(
        name not in held.schema.names or held.schema.field(name).type != kind
        for held in (rows, batch)
        for name, kind in _RECORD_COLUMNS.items()
    ):
        return False
    if any(
        pc.less(row_bounds["min"], there["min"]).as_py() or pc.greater(row_bounds["max"], there["max"]).as_py()
        for row_bounds, there in (
            (pc.min_max(rows.column(name)), pc.min_max(batch.column(name))) for name in _RECORD_COLUMNS
        )
    ):
        return True
    # A batch is of one partition, in the order of its offsets. Compaction and aborted transactions leave some out.
    named, offsets = rows.column("offset"), batch.column("offset")
    if len(offsets) and offsets[len(offsets) - 1].as_py() - offsets[0].as_py() == len(offsets) - 1:
        return False
    return not pc.all(pc.or_(pc.is_in(named, value_set=offsets), pc.is_null(named))).as_py()


def _run(transform: ArrowTransform, batch: pa.RecordBatch, location: str) -> dict[str, pa.RecordBatch]:
    try:
        result = transform.function(batch)
    except Exception as error:
        raise _error(transform, location, f"{type(error).__name__}: {error}") from error
    named: Mapping[Any, Any] = result if isinstance(result, Mapping) else {DEFAULT_OUTPUT: result}
    for output, rows in named.items():
        if not isinstance(output, str) or not isinstance(rows, pa.RecordBatch):
            kind = type(rows).__name__
            raise _error(transform, location, f"output {output!r} is a {kind}; return a RecordBatch, or a dict of them")
    return dict(named)


def _settled(transform: ArrowTransform, rows: pa.RecordBatch, schema: pa.Schema, location: str) -> pa.RecordBatch:
    """Rows in the types that were checked."""
    if rows.schema.names != schema.names:
        column_names, wanted = ", ".join(rows.schema.names), ", ".join(schema.names)
        raise _error(transform, location, f"it gives the columns {column_names}, and for an empty batch {wanted}")
    if rows.schema.types == schema.types:
        return rows
    columns = []
    for field, column in zip(schema, rows.columns, strict=True):
        if column.type != field.type and settled_type_or_none(column.type) != field.type:
            raise _error(
                transform, location, f"column {field.name!r} is {column.type}, and for an empty batch {field.type}"
            )
        try:
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
        except pa.ArrowInvalid as error:
            raise _error(transform, location, f"column {field.name!r}: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def settled_type_or_none(kind: pa.DataType) -> pa.DataType | None:
    """The same as :func:`settled_type`, and None where there is none."""
    try:
        return settled_type(kind)
    except ValueError:
        return None


def _error(transform: ArrowTransform, location: str, cause: str) -> TransformError:
    return TransformError(source=transform.label, cause=f"on {location}: {cause}")


class OneOutput:
    """A function for ``mapInArrow``: one of the transform's outputs, where Spark carries the rows.

    Args:
        transform: the transform.
        output: the output's name.
        schemas: of all outputs.
    """

    def __init__(self, transform: ArrowTransform, output: str, schemas: Schemas) -> None:
        self._transform = transform
        self._output = output
        self._schemas = dict(schemas)
        self._notes = Notes.of_this_process()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output's rows."""
        with self._notes.signing():
            for batch in batches:
                outputs = transformed(self._transform, batch, self._schemas, location_of(batch))
                if self._output in outputs:
                    yield outputs[self._output]


def location_of(batch: pa.RecordBatch) -> str:
    """Topic, partition and offsets of a batch of records, as far as it has these columns."""
    known = batch.schema.names
    if batch.num_rows == 0 or not {"topic", "partition", "offset"} <= set(known):
        return f"a batch of {batch.num_rows} records"
    topic, partition, offsets = (batch.column(name) for name in ("topic", "partition", "offset"))
    return f"topic {topic[0]}, partition {partition[0]}, offsets {offsets[0]} to {offsets[len(offsets) - 1]}"
