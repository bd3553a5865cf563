"""Defaults of fields: from the JSON of a schema to Avro's binary encoding, which the kernel reads like a record's."""

from __future__ import annotations

import json
import struct
from typing import Any, Final

from directkafka.options.schemas.avro import AvroField, AvroSchema, AvroType

_BOUNDS: Final = {"int": 1 << 31, "long": 1 << 63}


def encode_default(schema: AvroSchema, field: AvroField) -> bytes:
    """The default of a field, encoded.

    Args:
        schema: that the field is in.
        field: with a default.

    Raises:
        ValueError: the default is no value of the field's type.
    """
    try:
        return _encode(schema, field.type, json.loads(field.default or "null"))
    except RecursionError:
        raise ValueError("its default has no end") from None
    except OverflowError:
        raise ValueError(f"its default is too large for a number: {field.default}") from None


def encode_long(value: int) -> bytes:
    """A number as Avro has int and long: zig-zag, then seven bits a byte, the lowest first."""
    rest, groups = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        groups.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*groups, rest])


def _encode(schema: AvroSchema, avro_type: AvroType, value: Any) -> bytes:
    avro_type = schema.definition(avro_type)
    match avro_type.kind:
        case "union":
            return _union(schema, avro_type, value)
        case "record" if isinstance(value, dict):
            return b"".join(_field(schema, field, value) for field in avro_type.fields)
        case "array" if isinstance(value, list):
            return (
                _block(len(value))
                + b"".join(_encode(schema, avro_type.inner[0], item) for item in value)
                + b"\0" * bool(value)
            )
        case "map" if isinstance(value, dict):
            entries = (_text(key) + _encode(schema, avro_type.inner[0], item) for key, item in value.items())
            return _block(len(value)) + b"".join(entries) + b"\0" * bool(value)
        case "enum" if value in avro_type.symbols:
            return encode_long(avro_type.symbols.index(value))
    return _scalar(avro_type, value)


def _union(schema: AvroSchema, union: AvroType, value: Any) -> bytes:
    for number, alternative in enumerate(union.inner):
        try:
            return encode_long(number) + _encode(schema, alternative, value)
        except (ValueError, OverflowError):
            continue
    raise _no_value(union, value)


def _field(schema: AvroSchema, field: AvroField, values: dict[str, Any]) -> bytes:
    if field.name in values:
        return _encode(schema, field.type, values[field.name])
    if field.default is None:
        raise ValueError(f"its default has no {field.name}")
    return encode_default(schema, field)


def _scalar(avro_type: AvroType, value: Any) -> bytes:  # noqa: PLR0911 - a type a line
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match avro_type.kind:
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return b"\1" if value else b"\0"
        case "int" | "long" if (
            is_number and value == int(value) and -_BOUNDS[avro_type.kind] <= value < _BOUNDS[avro_type.kind]
        ):
            return encode_long(int(value))
        case "float" if is_number:
            return struct.pack("<f", value)
        case "double" if is_number:
            return struct.pack("<d", value)
        case "string" if isinstance(value, str):
            return _text(value)
        case "bytes" | "fixed" if isinstance(value, str):
            return _bytes(avro_type, value)
    raise _no_value(avro_type, value)


def _bytes(avro_type: AvroType, value: str) -> bytes:
    """Bytes, each written as the character of its number."""
    try:
        raw = value.encode("latin-1")
    except UnicodeEncodeError:
        raise _no_value(avro_type, value) from None
    if avro_type.kind == "bytes":
        return encode_long(len(raw)) + raw
    if len(raw) != avro_type.size:
        raise _no_value(avro_type, value)
    return raw


def _text(value: str) -> bytes:
    raw = value.encode(errors="replace")
    return encode_long(len(raw)) + raw


def _block(count: int) -> bytes:
    return encode_long(count)


def _no_value(avro_type: AvroType, value: Any) -> ValueError:
    return ValueError(f"its default is no {avro_type}: {json.dumps(value)[:100]}")
