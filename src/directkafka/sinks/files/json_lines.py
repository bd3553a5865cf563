"""Arrow columns as JSON texts, without a Python object per value: every step is one of Arrow's own kernels.

Written as Spark's ``to_json`` does: a null member of an object is left out, a null in a list or map is ``null``,
NaN and the infinities are strings, dates and timestamps are ISO 8601 (instants in UTC, with a ``Z``).
"""

from __future__ import annotations

import json
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

#: Control characters that JSON has a short form for; the others become \\u00XX.
_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CONTROLS: Final = tuple((chr(code), _SHORT.get(chr(code), f"\\u{code:04x}")) for code in range(32))
_NOT_FINITE: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def can_be_json(kind: pa.DataType) -> bool:
    """Whether values of this type, nested ones included, have a JSON form here; binary has none."""
    if pa.types.is_struct(kind):
        return all(can_be_json(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _is_plain(kind.key_type) and can_be_json(kind.item_type)
    if _is_list(kind):
        return can_be_json(kind.value_type)
    return _is_plain(kind)


def json_objects(batch: pa.RecordBatch) -> pa.Array:
    """One JSON object for each row; never null."""
    return _objects(batch.schema.names, batch.columns, batch.num_rows)


def _objects(names: list[str], columns: list[pa.Array], count: int) -> pa.Array:
    members = [
        pc.binary_join_element_wise(json.dumps(name, ensure_ascii=False) + ":", _encoded(column), "")
        for name, column in zip(names, columns, strict=True)
    ]
    # A null member is null as a text, too, and "skip" leaves it out with its comma. The empty text at the end is there
    # because Arrow (26) also leaves out the rows in which everything is null; no member ends with a comma.
    joined = pc.binary_join_element_wise(*members, pa.repeat("", count), ",", null_handling="skip")
    joined = pc.ascii_rtrim(joined, characters=",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _encoded(array: pa.Array) -> pa.Array:
    """The JSON text of each value; null where it is null."""
    kind = array.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return _with_nulls_of(array, _objects(names, array.flatten(), len(array)))
    if pa.types.is_map(kind):
        return _map(array)
    if _is_list(kind):
        return _list(array, pc.fill_null(_encoded(array.flatten()), "null"), "[", "]")
    return _scalar(array)


def _scalar(array: pa.Array) -> pa.Array:
    kind, text = array.type, pc.cast(array, pa.string())
    if _is_text(kind):
        return _quoted(_escaped(text))
    if pa.types.is_floating(kind):
        return reduce(_replaced, _NOT_FINITE.items(), text)
    if pa.types.is_timestamp(kind):
        return _quoted(pc.replace_substring(text, " ", "T"))
    return _quoted(text) if pa.types.is_date(kind) else text


def _map(array: pa.Array) -> pa.Array:
    """A map is an object; its keys become strings."""
    kind = array.type
    pairs = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    key, value = pairs.flatten().flatten()
    name = _quoted(_escaped(pc.cast(key, pa.string())))
    members = pc.binary_join_element_wise(name, pc.fill_null(_encoded(value), "null"), ":")
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
    texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if not pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]")).as_py():
        return texts
    return reduce(lambda done, control: pc.replace_substring(done, *control), _CONTROLS, texts)


def _replaced(texts: pa.Array, pair: tuple[str, str]) -> pa.Array:
    found, replacement = pair
    return pc.if_else(pc.equal(texts, found), replacement, texts)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_plain(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, _is_text,
        pa.types.is_date, pa.types.is_timestamp,
    )  # fmt: skip
    return any(test(kind) for test in tests)
