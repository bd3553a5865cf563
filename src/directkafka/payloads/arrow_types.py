"""The Arrow types of declared fields, which are those that PySpark makes of Spark's; and what kind a type is."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from directkafka.options.schemas.ddl import FieldType

_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(declared: FieldType) -> pa.DataType:
    """The Arrow type of a field, equal to that of PySpark's ``to_arrow_type`` with UTC for its zone."""
    inner = [arrow_type(field.type) for field in declared.fields]
    match declared.name:
        case "struct":
            return pa.struct([pa.field(field.name, kind) for field, kind in zip(declared.fields, inner, strict=True)])
        case "array":
            return pa.list_(pa.field("element", inner[0]))
        case "map":
            return pa.map_(*inner)
        case "decimal":
            return pa.decimal128(declared.precision, declared.scale)
        case name:
            return _TYPES[name]


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts, in whatever layout."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def checked_texts(texts: pa.Array, *, path: str) -> pa.Array:
    """Texts that are UTF-8. What Spark has cast from bytes need not be, and neither it nor Arrow looks.

    Raises:
        ValueError: one is none; ``path`` is the field's in the message.
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raise ValueError(f"{path or 'the value'}: a text is no UTF-8") from None
    return texts


def mended_texts(texts: pa.Array) -> pa.Array:
    """Texts in which U+FFFD is in place of what is no UTF-8, as Spark writes it."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.cast(pa.large_binary()).to_pylist()
        return pa.array([None if text is None else text.decode(errors="replace") for text in raw], pa.string())
    return texts


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes, in whatever layout."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
