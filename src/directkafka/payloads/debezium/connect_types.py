"""Kafka Connect's types: how the JSON of its converter writes values, as the schema in front of them says.

With ``schemas.enable=true`` an event says of each column what its JSON stands for: days, milliseconds, microseconds or
nanoseconds since 1970, or the bytes of a decimal in Base64. The names are those of ``org.apache.kafka.connect.data``
and ``io.debezium.time``. Without, a column is what its JSON says by itself, as ``from_json`` reads it; but a number is
no timestamp, because nobody says what it counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.payloads.debezium.base64_columns import decode_base64
from directkafka.payloads.debezium.iso_texts import dates, moments

_DAYS: Final = {"org.apache.kafka.connect.data.Date", "io.debezium.time.Date"}
#: Microseconds in a unit, as a factor and a divisor.
_UNITS: Final = {
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
    "io.debezium.time.Timestamp": (1000, 1),
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
}
#: The largest number that factors leave in 64 bits.
_INT64_MAX: Final = (1 << 63) - 1
#: Texts of dates and times; a string without a name may be one too.
_TEXTS: Final = {
    None,
    "io.debezium.time.ZonedTimestamp",
    "io.debezium.time.IsoDate",
    "io.debezium.time.IsoTimestamp",
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
_DECIMALS: Final = {_DECIMAL, _VARIABLE_DECIMAL}
_SIDES: Final = ("before", "after")
#: What comes of reading what is no schema as one.
_NO_SCHEMA: Final = (KeyError, TypeError, AttributeError, OverflowError, RecursionError, json.JSONDecodeError)
#: What decimals of any column are made of: Arrow's largest.
_DIGITS_MAX: Final = 76
_WHOLE: Final = pa.decimal256(_DIGITS_MAX, 0)
_BYTES_MAX: Final = 32
#: The largest first byte of a number that is not below 0.
_POSITIVE_MAX: Final = 127

Conversion = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class Wire:
    """How a column is written.

    Attributes:
        type: that its JSON is read as.
        convert: makes the column's own type of that; None: it is that.
    """

    type: pa.DataType
    convert: Conversion | None = None


class Wires:
    """How the columns of rows and of keys are written.

    Args:
        row: the columns that are wanted.
        time_zone: of timestamps that name none.
    """

    def __init__(self, row: pa.StructType, time_zone: str) -> None:
        self._row, self._time_zone = row, time_zone

    def alone(self) -> dict[str, Wire]:
        """Of columns without a schema, by name, those that are not read as what they are."""
        return self._of({})

    def of_events(self, schema_text: str) -> dict[str, Wire]:
        """Of an event's rows, by name, those that are not read as what they are.

        Args:
            schema_text: the event's schema, as JSON.

        Raises:
            ValueError: it is no schema of an event, or a column is written as what cannot become its type.
        """
        try:
            fields = _fields_of(json.loads(schema_text))
            columns = _fields_of(next(fields[name] for name in _SIDES if name in fields))
            return self._of(columns)
        except (
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            StopIteration,
            RecursionError,
            json.JSONDecodeError,
        ):
            raise ValueError("schema: no schema of a change event, which has the fields before and after") from None

    def of_keys(self, schema_text: str) -> dict[str, Wire]:
        """Of keys; see :meth:`of_events`.

        Raises:
            ValueError: it is no schema of a struct, or a column is written as what cannot become its type.
        """
        try:
            return self._of(_fields_of(json.loads(schema_text)))
        except _NO_SCHEMA:
            raise ValueError("schema: no schema of a struct") from None

    def _of(self, columns: Mapping[str, Any]) -> dict[str, Wire]:
        wires = {field.name: self._wire(columns.get(field.name, {}), field.type, field.name) for field in self._row}
        return {name: wire for name, wire in wires.items() if wire.convert is not None}

    def _wire(self, column: Mapping[str, Any], wanted: pa.DataType, path: str) -> Wire:
        kind, name = column.get("type"), column.get("name")
        if pa.types.is_list(wanted) and kind in (None, "array"):
            inner = self._wire(column.get("items", {}), wanted.value_type, f"{path}[]")
            listed = pa.list_(pa.field("element", inner.type))
            return Wire(wanted) if inner.convert is None else Wire(listed, _of_lists(wanted, inner.convert))
        if pa.types.is_struct(wanted) and kind in (None, "struct") and name != _VARIABLE_DECIMAL:
            return self._wire_of_struct(_fields_of({"fields": [], **column}), wanted, path)
        if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
            return self._wire_of_time(kind, name, wanted, path)
        if name == _VARIABLE_DECIMAL and _holds_decimals(wanted):
            return Wire(pa.struct([("scale", pa.int32()), ("value", pa.string())]), _of_scaled(wanted))
        if name == _DECIMAL and _holds_decimals(wanted):
            return Wire(pa.string(), _of_unscaled(wanted, _scale(column, path)))
        return Wire(wanted)

    def _wire_of_struct(self, columns: Mapping[str, Any], wanted: pa.StructType, path: str) -> Wire:
        inner = {
            field.name: self._wire(columns.get(field.name, {}), field.type, f"{path}.{field.name}") for field in wanted
        }
        wires = {name: wire for name, wire in inner.items() if wire.convert is not None}
        return Wire(written_row(wanted, wires), _of_structs(wanted, wires)) if wires else Wire(wanted)

    def _wire_of_time(self, kind: Any, name: Any, wanted: pa.DataType, path: str) -> Wire:
        is_date = pa.types.is_date(wanted)
        if name in _DAYS and is_date:
            return Wire(pa.int32(), lambda days: days.cast(pa.date32()))
        if name in _UNITS and not is_date:
            return Wire(pa.int64(), _of_moments(wanted, *_UNITS[name]))
        if kind not in (None, "string") or name not in _TEXTS:
            raise ValueError(f"schema: {path} is written as {name or kind}, which is no {wanted}")
        return Wire(pa.string(), dates if is_date else lambda texts: moments(texts, wanted, self._time_zone))


def _fields_of(schema: Any) -> dict[str, Any]:
    return {field["field"]: field for field in schema["fields"]}


def written_row(row: pa.StructType, wires: Mapping[str, Wire]) -> pa.StructType:
    """The types as which a row's JSON is read.

    Args:
        row: the columns that are wanted.
        wires: how they are written.
    """
    return pa.struct([field.with_type(wires[field.name].type) if field.name in wires else field for field in row])


def converted(
    rows: pa.StructArray, row: pa.StructType, wires: Mapping[str, Wire], problems: dict[int, str], path: str
) -> pa.StructArray:
    """Rows as they are wanted, of rows as they were written.

    Args:
        rows: with the types of ``wires``.
        row: the columns that are wanted.
        wires: how they were written.
        problems: takes what is wrong with a row, by its number.
        path: of the rows, for problems.
    """
    if not wires:
        return rows
    children = []
    for field, child in zip(row, rows.flatten(), strict=True):
        if (wire := wires.get(field.name)) is not None and wire.convert is not None:
            became = wire.convert(child).cast(field.type)
            for row_number in np.flatnonzero(misfits(child, became)).tolist():
                where = f"{path}.{field.name}" if path else field.name
                problems.setdefault(row_number, f"{where}: a value that does not fit {field.type}")
            children.append(became)
        else:
            children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(row), mask=rows.is_null() if rows.null_count else None)


def _holds_decimals(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(wanted) or pa.types.is_floating(wanted) or pa.types.is_string(wanted))


def _scale(column: Mapping[str, Any], path: str) -> int:
    try:
        return int(column["parameters"]["scale"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"schema: the decimal {path} has no scale") from None


def _of_structs(wanted: pa.StructType, wires: Mapping[str, Wire]) -> Conversion:
    # What does not fit is found by the one who compares the struct with what it was.
    return lambda rows: converted(rows, wanted, wires, {}, "")


def _of_lists(wanted: pa.DataType, convert: Conversion) -> Conversion:
    def lists(array: pa.Array) -> pa.Array:
        elements = convert(array.values).cast(wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, elements, type=wanted, mask=array.is_null())

    return lists


def _of_moments(wanted: pa.DataType, factor: int, divisor: int) -> Conversion:
    def of_numbers(numbers: pa.Array) -> pa.Array:
        given = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
        limit = _INT64_MAX // factor
        is_none = numbers.is_null().to_numpy(zero_copy_only=False) | (given > limit) | (given < -limit)
        # Down, also before 1970: numpy's division is that.
        return pa.array(np.where(is_none, 0, given) * factor // divisor, mask=is_none).cast(wanted)

    return of_numbers


def _of_unscaled(wanted: pa.DataType, scale: int) -> Conversion:
    return lambda unscaled: _with_scale(_whole_numbers(unscaled), scale, wanted)


def _of_scaled(wanted: pa.DataType) -> Conversion:
    def decimals(pairs: pa.Array) -> pa.Array:
        scales, values = pairs.flatten()
        numbers, scaled = _whole_numbers(values), pa.nulls(len(pairs), wanted)
        for scale in pc.unique(scales.drop_null()).to_pylist():
            of_scale = pc.if_else(pc.equal(scales, scale), numbers, pa.scalar(None, numbers.type))
            scaled = pc.coalesce(scaled, _with_scale(of_scale, scale, wanted))
        return scaled

    return decimals


def _with_scale(numbers: pa.Array, scale: int, wanted: pa.DataType) -> pa.Array:
    """Decimals of their unscaled numbers, rounded as Spark does; null where they have too many digits."""
    if abs(scale) > _DIGITS_MAX:
        return pa.nulls(len(numbers), wanted)
    is_decimal = pa.types.is_decimal(wanted)
    digits = (wanted.precision - wanted.scale if is_decimal else _DIGITS_MAX) + scale
    scaled = _relabelled(_fitting(numbers, digits), pa.decimal256(_DIGITS_MAX, scale))
    if not is_decimal:
        # Numbers by way of the text: Arrow's own cast is off by a bit here and there.
        texts = scaled.cast(pa.string())
        return _in_digits(texts) if pa.types.is_string(wanted) else texts.cast(wanted)
    if scale > wanted.scale:
        rounded = pc.round(scaled, wanted.scale, "half_towards_infinity")
        scaled = _relabelled(_fitting(_relabelled(rounded, _WHOLE), digits), rounded.type)
    return scaled.cast(wanted)


def _in_digits(texts: pa.Array) -> pa.Array:
    """Numbers without an exponent, which Arrow writes where they are small."""
    if not pc.any(pc.match_substring(texts, "E"), min_count=0).as_py():
        return texts
    return pa.array([text and format(Decimal(text), "f") for text in texts.to_pylist()], pa.string())


def _fitting(numbers: pa.Array, digits: int) -> pa.Array:
    """The numbers that have so many digits at most, null in place of the others."""
    if digits >= _DIGITS_MAX:
        return numbers
    fits = pc.less(pc.abs(numbers), pa.scalar(Decimal(10) ** max(digits, 0), _WHOLE))
    return pc.if_else(fits, numbers, pa.scalar(None, _WHOLE))


def _relabelled(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same numbers with their point elsewhere."""
    return pa.Array.from_buffers(kind, len(numbers), numbers.buffers(), offset=numbers.offset)


def _whole_numbers(texts: pa.Array) -> pa.Array:
    """Numbers of the Base64 of their bytes, the highest first, in two's complement; null for more than fit."""
    raw, starts, lengths, is_valid = decode_base64(texts)
    is_one = is_valid & (lengths > 0) & (lengths <= _BYTES_MAX)
    lengths = np.where(is_one, lengths, 0)
    signs = np.zeros(len(texts), np.uint8)
    signs[is_one] = np.where(raw[starts[is_one]] > _POSITIVE_MAX, 255, 0)
    words = np.repeat(signs[:, None], _BYTES_MAX, axis=1)
    for byte_index in range(int(lengths.max(initial=0))):
        (inside,) = np.nonzero(lengths > byte_index)
        words[inside, byte_index] = raw[(starts + lengths)[inside] - 1 - byte_index]
    validity = pa.array(is_one).buffers()[1]
    numbers = pa.Array.from_buffers(_WHOLE, len(texts), [validity, pa.py_buffer(words)])
    return _fitting(numbers, _DIGITS_MAX - 1)


def misfits(before: pa.Array, after: pa.Array) -> Any:
    """Which rows have a value that has become none, or a list with such a one, as an array of bool."""
    lost = before.is_valid().to_numpy(zero_copy_only=False) & after.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_list(after.type):
        ends = np.concatenate([[0], np.cumsum(misfits(before.values, after.values))])
        places = after.offsets.to_numpy()
        lost |= ends[places[1:]] > ends[places[:-1]]
    if pa.types.is_struct(after.type) and before.type.names == after.type.names:
        for was, became in zip(before.flatten(), after.flatten(), strict=True):
            lost |= misfits(was, became)
    return lost
