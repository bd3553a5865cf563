"""The encoding of columns as Avro: the program of a schema for a type, and the columns as the kernel reads them.

The columns are those that Avro is decoded into (:mod:`directkafka.options.schemas.avro_types`); whole numbers may be
shorter than the schema's. A union of several types is a struct with one field for each, of which one is not null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.options.schemas.avro import AvroSchema, AvroType
from directkafka.options.schemas.avro_types import DURATION, widened
from directkafka.payloads.arrow_types import is_text
from directkafka.payloads.avro.kernels import write_records as op
from directkafka.payloads.kernels.arrow_columns import COLUMN_FIELDS, column_line

Prepare = Callable[[pa.Array], pa.Array]

#: In place of the number of a struct's field: a list's elements, a map's keys, a map's values.
ELEMENTS: Final = -1
KEYS: Final = -2
ITEMS: Final = -3

_LINES_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the kernel's table.

    Attributes:
        parent: the number of the column that it is a part of; -1: it is the whole.
        part: the number of a struct's field, :data:`ELEMENTS`, :data:`KEYS` or :data:`ITEMS`.
        type: Arrow's.
        prepare: makes of its array what the kernel reads; None: that is the array.
    """

    parent: int
    part: int
    type: pa.DataType
    prepare: Prepare | None = None


class EncodingProgram:
    """The program that writes rows of one Arrow type by one schema.

    Args:
        schema: what is written.
        type: of the rows.

    Raises:
        ValueError: the type is none that the schema has room for; the message has the path.
    """

    def __init__(self, schema: AvroSchema, type: pa.DataType) -> None:
        self._schema = schema
        self._lines: list[list[int]] = []
        self._paths: list[str] = []
        self._columns: list[_Column] = []
        # A row that is null is no record, so the program does not see it.
        self._value(schema.type, self._column(-1, 0, type), scope=0, path="", is_valid=True)
        self._add(op.END)
        self.lines = np.array(self._lines, np.int64).reshape(-1)

    def path(self, line: int) -> str:
        """The field that an instruction is about."""
        return self._paths[line]

    def table(self, rows: pa.Array) -> tuple[Any, list[pa.Array]]:
        """The columns of an array as the kernel reads them, and what must be kept as long as it does.

        Raises:
            ValueError: a value has no place in the schema.
        """
        table = np.zeros((len(self._columns), COLUMN_FIELDS), np.int64)
        arrays: list[pa.Array] = []
        kept: list[pa.Array] = []
        for number, column in enumerate(self._columns):
            array = rows if column.parent < 0 else _part(arrays[column.parent], column.part)
            arrays.append(array)
            if column.prepare is not None:
                # What is made of it begins with its first row.
                array = pa.concat_arrays([array]) if array.offset else array
                kept.append(array)
            made = array if column.prepare is None else column.prepare(array)
            kept.append(made)
            table[number] = column_line(made, array)
        return table.reshape(-1), arrays + kept

    def _column(self, parent: int, part: int, type: pa.DataType) -> int:
        self._columns.append(_Column(parent, part, type))
        return len(self._columns) - 1

    def _prepare(self, column: int, prepare: Prepare) -> None:
        self._columns[column] = replace(self._columns[column], prepare=prepare)

    def _add(
        self, operation: int, column: int = 0, scope: int = 0, *, first: int = 0, second: int = 0, path: str = ""
    ) -> int:
        if len(self._lines) == _LINES_MAX:
            raise ValueError(f"it takes more than {_LINES_MAX} steps to write a record")
        self._lines.append([operation, column, scope, first, second])
        self._paths.append(path)
        return len(self._lines) - 1

    def _value(self, wanted: AvroType, column: int, *, scope: int, path: str, is_valid: bool = False) -> None:
        """Write a column's row; a null only where the schema has one."""
        wanted, kind = self._schema.definition(wanted), self._columns[column].type
        if wanted.kind == "union":
            self._union(wanted, column, scope=scope, path=path, is_valid=is_valid)
            return
        if not is_valid:
            self._add(op.REQUIRED, column, scope, path=path)
        match wanted.kind:
            case "record":
                self._record(wanted, column, scope=scope, path=path)
            case "array":
                _expect(pa.types.is_list(kind) or pa.types.is_large_list(kind), wanted, kind, path)
                parts = [(wanted.inner[0], self._column(column, ELEMENTS, kind.value_type))]
                self._list(column, parts, scope=scope, path=f"{path}[]")
            case "map":
                _expect(pa.types.is_map(kind) and is_text(kind.key_type), wanted, kind, path)
                keys, items = self._column(column, KEYS, kind.key_type), self._column(column, ITEMS, kind.item_type)
                self._list(column, [(_TEXT, keys), (wanted.inner[0], items)], scope=scope, path=f"{path}{{}}")
            case _:
                self._scalar(wanted, column, scope=scope, path=path)

    def _list(self, column: int, parts: list[tuple[AvroType, int]], *, scope: int, path: str) -> None:
        """A list, or a map, whose elements have these parts. Of all lists around, each has a scope of its own."""
        if scope + 2 > op.SCOPES_MAX:
            raise ValueError(f"{path}: more than {op.SCOPES_MAX - 2} lists in one another")
        begin = self._add(op.LIST, column, scope, second=scope + 1, path=path)
        for wanted, part in parts:
            self._value(wanted, part, scope=scope + 1, path=path)
        self._add(op.NEXT_ELEMENT, column, scope, first=begin + 1, second=scope + 1, path=path)
        self._lines[begin][op.FIRST] = len(self._lines)

    def _record(self, wanted: AvroType, column: int, *, scope: int, path: str) -> None:
        kind = self._columns[column].type
        _expect(pa.types.is_struct(kind), wanted, kind, path)
        indexes = {kind.field(index).name: index for index in range(kind.num_fields)}
        names = [field.name for field in wanted.fields]
        if len(indexes) < kind.num_fields:
            raise ValueError(f"the rows have two fields of one name{_at(path)}")
        if unknown := [name for name in indexes if name not in names]:
            raise ValueError(f"{wanted}{_at(path)} has no field {unknown[0]!r}, and the rows have one")
        if missing := [name for name in names if name not in indexes]:
            raise ValueError(f"{wanted}{_at(path)} has a field {missing[0]!r}, and the rows have none")
        for field in wanted.fields:
            part = self._column(column, indexes[field.name], kind.field(indexes[field.name]).type)
            self._value(field.type, part, scope=scope, path=f"{path}.{field.name}" if path else field.name)

    def _union(self, union: AvroType, column: int, *, scope: int, path: str, is_valid: bool) -> None:
        branches = [self._schema.definition(inner) for inner in union.inner]
        null = next((branch for branch, inner in enumerate(branches) if inner.kind == "null"), None)
        alternatives = [(branch, inner) for branch, inner in enumerate(branches) if inner.kind != "null"]
        begin = None
        if null is not None and not is_valid:
            begin = self._add(op.NULLABLE, column, scope, first=null, path=path)
        elif not is_valid:
            self._add(op.REQUIRED, column, scope, path=path)
        if len(alternatives) == 1 or widened([inner for _, inner in alternatives]) is not None:
            # Of int and long, float and double, one column has all, and the wider one takes them.
            branch, widest = max(alternatives, key=lambda alternative: alternative[1].kind in ("long", "double"))
            self._add(op.BRANCH, first=branch, path=path)
            self._value(widest, column, scope=scope, path=path, is_valid=True)
        else:
            self._alternatives(union, alternatives, column, scope=scope, path=path)
        if begin is not None:
            self._lines[begin][op.SECOND] = len(self._lines)

    def _alternatives(
        self, union: AvroType, alternatives: list[tuple[int, AvroType]], column: int, *, scope: int, path: str
    ) -> None:
        kind = self._columns[column].type
        # Not by their places alone: of two alternatives that are texts one would be taken for the other.
        names = [f"member{number}" for number in range(len(alternatives))]
        _expect(pa.types.is_struct(kind) and [field.name for field in kind] == names, union, kind, path)
        self._add(op.UNION, column, scope, first=len(alternatives), path=path)
        parts = [self._column(column, index, kind.field(index).type) for index in range(len(alternatives))]
        listed = [
            self._add(op.ALTERNATIVE, part, scope, second=branch, path=path)
            for part, (branch, _) in zip(parts, alternatives, strict=True)
        ]
        ends = []
        for line, part, (_, inner) in zip(listed, parts, alternatives, strict=True):
            self._lines[line][op.FIRST] = len(self._lines)
            below = f"{path}.{kind.field(self._columns[part].part).name}"
            self._value(inner, part, scope=scope, path=below, is_valid=True)
            ends.append(self._add(op.JUMP, path=path))
        for line in ends:
            self._lines[line][op.FIRST] = len(self._lines)

    def _scalar(self, wanted: AvroType, column: int, *, scope: int, path: str) -> None:
        kind = self._columns[column].type
        if wanted.logical == "duration":
            self._duration(wanted, column, scope=scope, path=path)
            return
        scalar = _logical_scalar(wanted, kind) or _plain_scalar(wanted, kind)
        _expect(scalar is not None, wanted, kind, path)
        assert scalar is not None, "else it is refused"
        operation, first, prepare = scalar
        if prepare is not None:
            self._prepare(column, prepare)
        parts = 1_000 if wanted.logical.endswith("-nanos") else 0
        self._add(operation, column, scope, first=first, second=parts, path=path)

    def _duration(self, wanted: AvroType, column: int, *, scope: int, path: str) -> None:
        kind = self._columns[column].type
        is_right = pa.types.is_struct(kind) and [field.name for field in kind] == list(DURATION)
        _expect(is_right and all(pa.types.is_signed_integer(field.type) for field in kind), wanted, kind, path)
        for index, name in enumerate(DURATION):
            part = self._column(column, index, kind.field(index).type)
            self._prepare(part, _cast(pa.int64()))
            self._add(op.REQUIRED, part, scope, path=f"{path}.{name}")
            self._add(op.UNSIGNED, part, scope, path=f"{path}.{name}")


#: An operation with its number, and what is made of the column before.
_Scalar = tuple[int, int, Prepare | None]
_TEXT: Final = AvroType("string")
_ANY: Final = -1


def _plain_scalar(wanted: AvroType, kind: pa.DataType) -> _Scalar | None:
    """How values are written that are what they are; None: these are not."""
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    bits = kind.bit_width if pa.types.is_signed_integer(kind) or pa.types.is_floating(kind) else 0
    narrow = pa.types.is_signed_integer(kind) and bits < 32
    scalars: dict[str, tuple[bool, _Scalar]] = {
        "boolean": (pa.types.is_boolean(kind), (op.BOOLEAN, 0, None)),
        "int": (pa.types.is_signed_integer(kind), (op.NUMBER, 32, _cast(pa.int32()) if narrow else None)),
        "long": (pa.types.is_signed_integer(kind), (op.NUMBER, 64, _cast(pa.int32()) if narrow else None)),
        "float": (pa.types.is_float32(kind), (op.PLAIN, 4, None)),
        "double": (pa.types.is_floating(kind), (op.PLAIN, 8, _cast(pa.float64()) if bits < 64 else None)),
        "string": (is_text(kind), (op.TEXT, _ANY, None)),
        "bytes": (is_bytes, (op.BYTES, _ANY, None)),
        "fixed": (is_bytes, (op.BYTES, wanted.size, None)),
        "enum": (is_text(kind), (op.SYMBOL, 0, _numbers_of(wanted.symbols))),
    }
    suits, scalar = scalars.get(wanted.kind, (False, (op.END, 0, None)))
    return scalar if suits else None


def _logical_scalar(wanted: AvroType, kind: pa.DataType) -> _Scalar | None:
    """How values of a logical type are written; None where it has no column of its own."""
    size = wanted.size if wanted.kind == "fixed" else _ANY
    match wanted.logical:
        case "decimal" if pa.types.is_decimal128(kind):
            fits = kind.scale == wanted.scale and kind.precision <= wanted.precision
            return (op.DECIMAL, size, None) if fits else None
        case "date" if pa.types.is_date32(kind):
            return op.NUMBER, 32, None
        case "uuid" if wanted.kind == "fixed" and is_text(kind):
            return op.BYTES, size, _uuid_bytes
        case str() as logical if "timestamp" in logical and pa.types.is_timestamp(kind):
            is_local = logical.startswith("local-")
            if is_local is (kind.tz is None):
                return op.NUMBER, 64, _moments(logical.rpartition("-")[2])
    return None


def _cast(kind: pa.DataType) -> Prepare:
    return partial(pc.cast, target_type=kind)


def _numbers_of(symbols: tuple[str, ...]) -> Prepare:
    def numbers(texts: pa.Array) -> pa.Array:
        return pc.fill_null(pc.index_in(texts, value_set=pa.array(symbols, texts.type)), -1)

    return numbers


def _moments(unit: str) -> Prepare:
    """Numbers since 1970 in a unit, of times in microseconds; of nanoseconds the kernel makes the rest."""

    def numbers(times: pa.Array) -> pa.Array:
        micros = pc.fill_null(pc.cast(pc.cast(times, pa.timestamp("us", times.type.tz)), pa.int64()), 0)
        if unit == "millis":
            return pa.array(np.floor_divide(micros.to_numpy(), 1_000))
        return micros

    return numbers


def _uuid_bytes(texts: pa.Array) -> pa.Array:
    """The 16 bytes of UUIDs; of what is none a text that is too short."""
    digits = pc.replace_substring(pc.fill_null(texts, ""), "-", "")
    is_uuid = pc.match_substring_regex(pc.fill_null(texts, ""), _UUID)
    digits = pc.if_else(is_uuid, digits, "")
    joined = np.frombuffer("".join(digits.to_pylist()).encode(), np.uint8)
    values = np.where(joined >= ord("a"), joined - ord("a") + 10, np.where(joined >= ord("A"), joined - ord("A") + 10,
                                                                          joined - ord("0")))  # fmt: skip
    raw = ((values[0::2] << 4) | values[1::2]).astype(np.uint8).tobytes()
    ends = np.concatenate([[0], np.cumsum(np.where(is_uuid.to_numpy(zero_copy_only=False), 16, 0))]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(raw)])


_UUID: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def _part(array: pa.Array, part: int) -> pa.Array:
    if part == ELEMENTS:
        return array.values
    if part == KEYS:
        return array.keys
    return array.items if part == ITEMS else array.field(part)


def _expect(is_right: bool, wanted: AvroType, kind: pa.DataType, path: str) -> None:
    if not is_right:
        raise ValueError(f"the schema has {wanted}{_at(path)}, and the rows have {kind}: cast it in the transform")


def _at(path: str) -> str:
    return f" at {path}" if path else ""
