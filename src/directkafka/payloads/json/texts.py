"""Arrow columns as JSON texts, without a Python object per value: every step is one of Arrow's own kernels.

Written as Spark's ``to_json`` does: a null in a list or map is ``null``, NaN and the infinities are strings, bytes are
base64, dates and timestamps are ISO 8601 (instants in UTC). Two ways of writing differ in small things, see
:class:`JsonStyle`.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from directkafka.payloads.arrow_types import is_bytes, is_text, mended_texts

#: Control characters that JSON has a short form for; the others become \\u00XX.
_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CONTROLS: Final = tuple((chr(code), _SHORT.get(chr(code), f"\\u{code:04X}")) for code in range(32))
_NOT_FINITE: Final = {
    "nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"',
    "NaN": '"NaN"', "Infinity": '"Infinity"', "-Infinity": '"-Infinity"',
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStyle:
    """What may be written in more than one way.

    Attributes:
        keeps_nulls: whether a null member of an object is ``null``, and not left out.
        utc: what stands behind an instant.
        is_java: whether floating numbers are written as Java's ``Double.toString`` does, and not in fewer characters.
    """

    keeps_nulls: bool
    utc: str
    is_java: bool


#: Lines of a file, as Spark writes them into files.
OF_LINES: Final = JsonStyle(keeps_nulls=False, utc="Z", is_java=False)

#: Nested columns of a table, which show their nulls.
OF_COLUMNS: Final = JsonStyle(keeps_nulls=True, utc="+00:00", is_java=True)


def can_be_json(kind: pa.DataType) -> bool:
    """Whether values of this type, nested ones included, have a JSON form in files; binary has none there."""
    if pa.types.is_struct(kind):
        return all(can_be_json(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _is_plain(kind.key_type) and can_be_json(kind.item_type)
    if _is_list(kind):
        return can_be_json(kind.value_type)
    return _is_plain(kind)


def json_objects(batch: pa.RecordBatch) -> pa.Array:
    """One JSON object for each row, as a line of a file; never null."""
    return _objects(batch.schema.names, batch.columns, batch.num_rows, OF_LINES)


def json_records(array: pa.Array) -> pa.Array:
    """The JSON of each value of a nested column, as a record: without members that are null; null where it is null."""
    return _encoded(array, OF_LINES)


def json_texts(array: pa.Array) -> pa.Array:
    """The JSON of each value of a nested column, as a database keeps it; null where the value is null."""
    return _encoded(array, OF_COLUMNS)


def _objects(names: list[str], columns: list[pa.Array], count: int, style: JsonStyle) -> pa.Array:
    encoded = [_encoded(column, style) for column in columns]
    if style.keeps_nulls:
        encoded = [pc.fill_null(texts, "null") for texts in encoded]
    members = [
        pc.binary_join_element_wise(json.dumps(name, ensure_ascii=False) + ":", texts, "")
        for name, texts in zip(names, encoded, strict=True)
    ]
    # A null member is null as a text, too, and "skip" leaves it out with its comma. The empty text at the end is there
    # because Arrow (26) also leaves out the rows in which everything is null; no member ends with a comma.
    joined = pc.binary_join_element_wise(*members, pa.repeat("", count), ",", null_handling="skip")
    joined = pc.ascii_rtrim(joined, characters=",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _encoded(array: pa.Array, style: JsonStyle) -> pa.Array:
    """The JSON text of each value; null where it is null."""
    kind = array.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return _with_nulls_of(array, _objects(names, array.flatten(), len(array), style))
    if pa.types.is_map(kind):
        return _map(array, style)
    if _is_list(kind):
        return _list(array, pc.fill_null(_encoded(array.flatten(), style), "null"), "[", "]")
    return _scalar(array, style)


#: From the first day of the year -32,767 to the last one of 32,767, in days since 1970: Arrow keeps 16 bits of a year.
_DAYS: Final = (-12_687_428, 11_248_737)
_UNITS_OF_A_DAY: Final = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def _scalar(array: pa.Array, style: JsonStyle) -> pa.Array:
    kind = array.type
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    if is_bytes(kind):
        return _quoted(base64_texts(array))
    text = _plain(array, style)
    if is_text(kind):
        return _quoted(_escaped(text))
    if pa.types.is_floating(kind):
        return reduce(_replaced, _NOT_FINITE.items(), text)
    if pa.types.is_timestamp(kind):
        text = pc.replace_substring(text, " ", "T")
        return _quoted(pc.replace_substring(text, "Z", style.utc) if kind.tz else text)
    return _quoted(text) if pa.types.is_date(kind) else text


def _checked_time(array: pa.Array) -> pa.Array:
    """Dates or timestamps whose years have a text.

    Raises:
        pyarrow.ArrowInvalid: one has none.
    """
    kind = array.type
    unit = 1 if pa.types.is_date32(kind) else _UNITS_OF_A_DAY[kind.unit]
    numbers = array.cast(pa.int32() if unit == 1 else pa.int64()).cast(pa.int64())
    first, last = (max(-(2**63), min(days * unit, 2**63 - 1)) for days in _DAYS)
    if pc.any(pc.or_(pc.less(numbers, first), pc.greater(numbers, last))).as_py():
        raise pa.ArrowInvalid(f"a {kind} is of a year that no text has; microseconds may have been taken for others")
    return array


def _plain(array: pa.Array, style: JsonStyle) -> pa.Array:
    """Values as texts without quotes.

    Raises:
        pyarrow.ArrowInvalid: a date or a time has none.
    """
    if pa.types.is_timestamp(array.type) or pa.types.is_date32(array.type):
        array = _checked_time(array)
    text = pc.cast(array, pa.string())
    return _as_java(array, text) if style.is_java and pa.types.is_floating(array.type) else text


def _as_java(array: pa.Array, text: pa.Array) -> pa.Array:
    """Floating numbers as Java writes them, given their shortest texts: 1.0, 1.0E7, 1.5E-4, NaN, Infinity."""
    text = pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
    text = pc.replace_substring_regex(pc.replace_substring(text, "nan", "NaN"), r"^(-?)inf$", r"\1Infinity")
    size = pc.abs(array)
    is_long = pc.and_(pc.or_(pc.less(size, 1e-3), pc.greater_equal(size, 1e7)), pc.is_finite(array))
    is_long = pc.fill_null(pc.and_(is_long, pc.not_equal(size, 0)), False)
    if not pc.any(is_long).as_py():
        return text
    return pc.replace_with_mask(text, is_long, _with_exponents(text.filter(is_long)))


def _with_exponents(text: pa.Array) -> pa.Array:
    """Decimal numbers with one digit before the point, and an exponent."""
    parts = pc.extract_regex(text, r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<power>[+-]?\d+))?$")
    sign, whole, part, power = (parts.field(name) for name in ("sign", "whole", "part", "power"))
    digits = pc.binary_join_element_wise(whole, part, "")
    significant = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    given = pc.cast(pc.utf8_ltrim(pc.if_else(pc.equal(power, ""), "0", power), "+"), pa.int32())
    exponent = pc.add(given, pc.subtract(pc.subtract(pc.utf8_length(whole), zeros), 1))
    shown = pc.utf8_rtrim(significant, "0")
    first, others = pc.utf8_slice_codeunits(shown, 0, 1), pc.utf8_slice_codeunits(shown, 1)
    others = pc.if_else(pc.equal(others, ""), "0", others)
    mantissa = pc.binary_join_element_wise(pc.binary_join_element_wise(sign, first, ""), others, ".")
    return pc.binary_join_element_wise(mantissa, pc.cast(exponent, pa.string()), "E")


def _map(array: pa.Array, style: JsonStyle) -> pa.Array:
    """A map is an object; its keys become strings."""
    kind = array.type
    pairs = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    key, value = pairs.flatten().flatten()
    name = _quoted(_escaped(_plain(key, style)))
    members = pc.binary_join_element_wise(name, pc.fill_null(_encoded(value, style), "null"), ":")
    return _list(pairs, members, "{", "}")


def _list(array: pa.Array, values: pa.Array, opening: str, closing: str) -> pa.Array:
    """The encoded values put together again as the lists they came from."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values), ",")
    return _with_nulls_of(array, pc.binary_join_element_wise(opening, joined, closing, ""))


def _with_nulls_of(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(array), texts, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _escaped(texts: pa.Array) -> pa.Array:
    texts = mended_texts(texts)
    texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if not pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]")).as_py():
        return texts
    return reduce(lambda done, control: pc.replace_substring(done, *control), _CONTROLS, texts)


def _replaced(texts: pa.Array, pair: tuple[str, str]) -> pa.Array:
    original, replacement = pair
    return pc.if_else(pc.equal(texts, original), replacement, texts)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_plain(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, is_text,
        pa.types.is_date, pa.types.is_timestamp,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def base64_texts(array: pa.Array) -> pa.Array:
    """The base64 (RFC 4648, with padding) of each value; null where it is null.

    Args:
        array: bytes, in whatever layout.

    Raises:
        pyarrow.ArrowInvalid: the texts have more than 2 GiB together.
    """
    values = array.cast(pa.large_binary())
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    # Each value is filled up with zeros to whole groups of three bytes; then all of them can be encoded at once.
    groups = -(-lengths // 3)
    ends = np.concatenate(([0], np.cumsum(groups)))
    filled = np.zeros(3 * ends[-1], np.uint8)
    filled[np.arange(len(data)) + np.repeat(3 * ends[:-1] - (offsets[:-1] - offsets[0]), lengths)] = data
    texts = np.frombuffer(bytearray(base64.b64encode(filled.data)), np.uint8)
    missing, last = 3 * groups - lengths, 4 * ends[1:]
    texts[last[missing > 0] - 1] = ord("=")
    texts[last[missing > 1] - 2] = ord("=")
    buffers = [None, pa.py_buffer(4 * ends), pa.py_buffer(texts)]
    encoded = pa.Array.from_buffers(pa.large_string(), len(values), buffers).cast(pa.string())
    return encoded if array.null_count == 0 else pc.if_else(pc.is_valid(array), encoded, pa.scalar(None, pa.string()))
