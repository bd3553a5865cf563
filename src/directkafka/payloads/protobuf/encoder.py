"""The encoder of Protocol Buffers: columns of a message's fields to columns of bytes, row by row.

The columns are those that messages are decoded into (:mod:`directkafka.options.schemas.protobuf.spark_types`). A
message in a message is encoded first, as a column of bytes, from the innermost one out: so its length is known when the
outer one is written. A field that is null is left out. So is a zero or an empty text of a field that has no presence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.options.schemas.protobuf.schema import (
    ENUM,
    GROUP,
    MESSAGE,
    ProtobufField,
    ProtobufMessage,
    ProtobufSchema,
)
from directkafka.options.schemas.protobuf.well_known import TIMESTAMP, WELL_KNOWN, WRAPPERS
from directkafka.payloads.arrow_types import checked_texts, is_text
from directkafka.payloads.kernels.arrow_columns import COLUMN_FIELDS, FIRST_ROW, column_line
from directkafka.payloads.kernels.written import RecordSizes, written
from directkafka.payloads.protobuf.kernels import write_records as op

_VARINT: Final = 0
_I64: Final = 1
_LENGTH: Final = 2
_GROUP: Final = 3
_I32: Final = 5

#: What is written for a scalar, its wire type, and the type that its values must fit.
_SCALARS: Final[dict[str, tuple[int, int, pa.DataType | None]]] = {
    "int32": (op.VARINT, _VARINT, pa.int32()),
    "int64": (op.VARINT, _VARINT, pa.int64()),
    "uint32": (op.VARINT, _VARINT, pa.uint32()),
    "uint64": (op.VARINT, _VARINT, pa.uint64()),
    "sint32": (op.ZIGZAG, _VARINT, pa.int32()),
    "sint64": (op.ZIGZAG, _VARINT, pa.int64()),
    "bool": (op.BOOL, _VARINT, None),
    "fixed32": (op.FIXED32, _I32, pa.uint32()),
    "sfixed32": (op.FIXED32, _I32, pa.int32()),
    "float": (op.FIXED32, _I32, None),
    "fixed64": (op.FIXED64, _I64, pa.uint64()),
    "sfixed64": (op.FIXED64, _I64, pa.int64()),
    "double": (op.FIXED64, _I64, pa.float64()),
    "string": (op.BYTES, _LENGTH, None),
    "bytes": (op.BYTES, _LENGTH, None),
}


@dataclass(frozen=True, slots=True)
class _Field:
    """How a field is written.

    Attributes:
        path: of the field.
        index: of its column in the struct.
        tag, operation: as the kernel takes them.
        prepare: makes of its values what the kernel reads.
        is_map: whether the column is a map.
        is_repeated: whether it is a list.
        skips_default: whether a zero is left out.
        oneof: the oneof that it is in.
        is_required: whether it must not be null.
        is_of_flags: whether it is a map whose values are messages without fields: true where they are there.
    """

    path: str
    index: int
    tag: int
    operation: int
    prepare: Callable[[pa.Array], pa.Array]
    is_map: bool = False
    is_repeated: bool = False
    skips_default: bool = False
    oneof: str = ""
    is_required: bool = False
    is_of_flags: bool = False


class ProtobufEncoder:
    """Encodes rows of one Arrow type, each as a message, in one thread.

    Args:
        schema: of the message.
        type: of the rows: a struct.
        prefix: stands before each record.

    Raises:
        ValueError: the message has no room for the type.
    """

    def __init__(self, schema: ProtobufSchema, type: pa.DataType, *, prefix: bytes = b"") -> None:
        self._message = _Message(schema, schema.message, type, "")
        self._prefix = prefix

    def encode(self, rows: pa.Array) -> pa.Array:
        """Encode a column.

        Returns:
            Binary: a record for each row; null for a null.

        Raises:
            ValueError: a value has no place in the message; the text names the field, or the oneof. The number of a
                row counts messages: of those in a list, its elements.
        """
        try:
            return self._message.encode(rows, self._prefix)
        except pa.ArrowInvalid as error:
            raise ValueError(str(error)) from error


class _Message:
    """A message at one place."""

    def __init__(self, schema: ProtobufSchema, name: str, kind: pa.DataType, path: str) -> None:
        if not pa.types.is_struct(kind):
            raise _wrong(f"message {name}", kind, path)
        self._schema = schema
        message = schema.messages[name] if name in schema.messages else WELL_KNOWN[name]
        fields = {field.name: field for field in message.fields}
        self._fields = []
        names = [kind.field(index).name for index in range(kind.num_fields)]
        if len(set(names)) < len(names):
            raise ValueError(f"the rows have two fields of one name{_at(path)}")
        if lacking := [field.name for field in message.fields if field.is_required and field.name not in names]:
            raise ValueError(f"message {name}{_at(path)} has a required field {lacking[0]!r}, and the rows have none")
        for index in range(kind.num_fields):
            column = kind.field(index)
            if column.name not in fields:
                raise ValueError(f"message {name}{_at(path)} has no field {column.name!r}, and the rows have one")
            below = f"{path}.{column.name}" if path else column.name
            self._fields.append(self._field(fields[column.name], column.type, index, below))
        self._sizes = RecordSizes()

    def encode(self, rows: pa.Array, prefix: bytes = b"") -> pa.Array:
        """The bytes of each row."""
        table = np.zeros((1 + 2 * len(self._fields), COLUMN_FIELDS), np.int64)
        lines = np.zeros((len(self._fields), op.FIELDS), np.int64)
        table[op.ROOT] = column_line(rows, rows)
        kept = [rows]
        # Null where the row is: a struct's own columns may have anything there.
        columns = rows.flatten()
        self._check_oneofs(columns)
        self._check_required(rows, columns)
        for number, field in enumerate(self._fields):
            outer = columns[field.index]
            inner, is_packed, first = outer, False, 0
            if field.is_repeated or field.is_map:
                # The elements of these rows alone: a batch that is too large is encoded by halves.
                # (A list without rows may have no offsets at all.)
                first, behind = (int(outer.offsets[row].as_py()) for row in (0, len(outer))) if len(outer) else (0, 0)
                inner = _entries(outer, has_flags=field.is_of_flags) if field.is_map else outer.values
                inner = inner.slice(first, behind - first)
                is_packed = field.operation not in (op.BYTES, op.GROUP)
            made = field.prepare(pa.concat_arrays([inner]) if inner.offset else inner)
            own, around = 1 + 2 * number, 2 + 2 * number
            table[own], table[around] = column_line(made, made), column_line(outer, outer)
            # Lists count elements from the first one of their buffer.
            table[own][FIRST_ROW] -= first
            is_list = field.is_repeated or field.is_map
            tag = field.tag & ~7 | _LENGTH if is_packed else field.tag
            lines[number] = (tag, field.operation, own, around if is_list else -1, is_packed, field.skips_default)
            kept += [outer, inner, made]
        return self._written(rows, lines.reshape(-1), table.reshape(-1), prefix, kept)

    def _written(self, rows: pa.Array, lines: Any, table: Any, prefix: bytes, kept: list[pa.Array]) -> pa.Array:
        before = np.frombuffer(prefix or b"\0", np.uint8)
        result = np.zeros(1, np.int64)

        def write(row: int, out: Any, ends: Any) -> int:
            next_row: int = op.write_messages(
                before.ctypes.data, len(prefix), lines, table, row, len(rows), out.ctypes.data, len(out), ends, result
            )
            if result[0] >= 0:
                raise ValueError(f"row {next_row}: {self._fields[int(result[0])].path} has a null in its list or map")
            return next_row

        made = written(rows, write, self._sizes)
        del kept
        return made

    def _check_oneofs(self, columns: Sequence[pa.Array]) -> None:
        counts: dict[str, Any] = {}
        for field in self._fields:
            if field.oneof:
                is_there = columns[field.index].is_valid().to_numpy(zero_copy_only=False).astype(np.int8)
                counts[field.oneof] = counts.get(field.oneof, 0) + is_there
        for name, count in counts.items():
            if len(count) and count.max() > 1:
                raise ValueError(f"row {int(count.argmax())}: several fields of the oneof {name} are not null")

    def _check_required(self, rows: pa.Array, columns: Sequence[pa.Array]) -> None:
        for field in self._fields:
            if field.is_required:
                column = columns[field.index]
                # Of a message without fields false is none.
                is_there = pc.fill_null(column, False) if field.prepare is _empty else column.is_valid()
                is_lacking = pc.and_not(rows.is_valid(), is_there)
                if (row := pc.index(is_lacking, pa.scalar(True)).as_py()) >= 0:
                    raise ValueError(f"row {row}: {field.path} is null, and it is required")

    def _field(self, field: ProtobufField, kind: pa.DataType, index: int, path: str) -> _Field:
        entry = self._schema.messages.get(field.type_name)
        is_map = field.is_repeated and entry is not None and entry.is_map_entry
        value = kind
        if is_map:
            if not pa.types.is_map(kind):
                raise _wrong("a map", kind, path)
            value = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        elif field.is_repeated:
            if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
                raise _wrong(f"a list of {field.kind}", kind, path)
            value = kind.value_type
        operation, wire_type, prepare = self._value(field, value, path)
        return _Field(
            path, index, field.number << 3 | wire_type, operation, prepare, is_map,
            is_repeated=field.is_repeated and not is_map,
            skips_default=not (field.is_repeated or field.has_presence or field.oneof or field.kind == MESSAGE),
            oneof=field.oneof, is_required=field.is_required, is_of_flags=is_map and self._is_of_flags(entry),
        )  # fmt: skip

    def _is_of_flags(self, entry: ProtobufMessage | None) -> bool:
        assert entry is not None, "a map has an entry"
        value = next(field for field in entry.fields if field.name == "value")
        message = self._schema.messages.get(value.type_name) or WELL_KNOWN.get(value.type_name)
        return message is not None and not message.fields

    def _value(
        self, field: ProtobufField, kind: pa.DataType, path: str
    ) -> tuple[int, int, Callable[[pa.Array], pa.Array]]:
        if field.kind in _SCALARS:
            return _scalar(field.kind, kind, path)
        if field.kind == ENUM:
            if not is_text(kind):
                raise _wrong(f"enum {field.type_name}", kind, path)
            numbers = {name: number for number, name in self._schema.enums[field.type_name].values}
            return op.VARINT, _VARINT, partial(_numbers_of, numbers=numbers, path=path)
        if field.type_name == TIMESTAMP:
            if not pa.types.is_timestamp(kind):
                raise _wrong("a timestamp", kind, path)
            inner = _Message(self._schema, TIMESTAMP, _MOMENT, path)
            return op.BYTES, _LENGTH, lambda times: inner.encode(_moments(times))
        if field.type_name in WRAPPERS:
            wrapper = _Message(self._schema, field.type_name, pa.struct([("value", kind)]), path)
            return op.BYTES, _LENGTH, lambda values: wrapper.encode(_wrapped(values))
        message = self._schema.messages.get(field.type_name) or WELL_KNOWN[field.type_name]
        if not message.fields:
            if not pa.types.is_boolean(kind):
                raise _wrong(f"message {field.type_name} without fields, which is true where it is there", kind, path)
            return (op.GROUP, _GROUP, _empty) if field.kind == GROUP else (op.BYTES, _LENGTH, _empty)
        inner = _Message(self._schema, field.type_name, kind, path)
        return (op.GROUP, _GROUP, inner.encode) if field.kind == GROUP else (op.BYTES, _LENGTH, inner.encode)


_MOMENT: Final = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


def _scalar(name: str, kind: pa.DataType, path: str) -> tuple[int, int, Callable[[pa.Array], pa.Array]]:
    operation, wire_type, wanted = _SCALARS[name]
    is_number = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    fits = {
        "bool": pa.types.is_boolean(kind),
        "float": pa.types.is_float32(kind),
        "double": pa.types.is_floating(kind),
        "string": is_text(kind),
        "bytes": pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    }.get(name, is_number)
    if not fits:
        raise _wrong(name, kind, path)
    if name == "string":
        return operation, wire_type, partial(checked_texts, path=path)
    return operation, wire_type, partial(_cast, wanted=wanted, is_varint=operation == op.VARINT, path=path)


def _cast(values: pa.Array, *, wanted: pa.DataType | None, is_varint: bool, path: str) -> pa.Array:
    """The values as the kernel reads them: signed numbers, those without a sign by their bits."""
    try:
        made = values if wanted is None else pc.cast(values, wanted)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
    if wanted == pa.uint64():
        return made.view(pa.int64())
    # A number of variable length is read as 64 bits.
    return pc.cast(made, pa.int64()) if wanted == pa.uint32() and is_varint else made


def _numbers_of(names: pa.Array, *, numbers: dict[str, int], path: str) -> pa.Array:
    """The numbers of an enum's names; a text of digits is a number that has none, as it is read."""
    known_numbers = pa.array(list(numbers.values()), pa.int64()).take(
        pc.index_in(names, pa.array(list(numbers), names.type))
    )
    if known_numbers.null_count == names.null_count:
        return known_numbers
    others = names.filter(pc.and_(pc.is_null(known_numbers), pc.is_valid(names))).unique()
    try:
        added = pc.cast(others, pa.int32())
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: no name of the enum, and no number of 32 bits: {error}") from error
    places = pc.index_in(names, others)
    return pc.coalesce(known_numbers, pc.cast(added, pa.int64()).take(places))


def _moments(times: pa.Array) -> pa.Array:
    micros = pc.fill_null(pc.cast(pc.cast(times, pa.timestamp("us", times.type.tz)), pa.int64()), 0).to_numpy()
    seconds = np.floor_divide(micros, 1_000_000)
    nanos = ((micros - seconds * 1_000_000) * 1_000).astype(np.int32)
    return pa.StructArray.from_arrays([seconds, nanos], fields=list(_MOMENT), mask=times.is_null())


def _wrapped(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], names=["value"], mask=values.is_null())


def _empty(flags: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(flags, False), pa.scalar(b""), pa.scalar(None, pa.binary()))


def _entries(maps: pa.Array, *, has_flags: bool) -> pa.Array:
    # An entry without a value would be read as zero, or as empty: it is a null, which is refused.
    is_absent = pc.invert(pc.fill_null(maps.items, False)) if has_flags else pc.is_null(maps.items)
    return pa.StructArray.from_arrays([maps.keys, maps.items], names=["key", "value"], mask=is_absent)


def _wrong(wanted: str, kind: pa.DataType, path: str) -> ValueError:
    return ValueError(f"the schema has {wanted}{_at(path)}, and the rows have {kind}: cast it in the transform")


def _at(path: str) -> str:
    return f" at {path}" if path else ""
