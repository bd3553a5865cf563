"""Defaults are encoded as fastavro encodes the same value."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from directkafka.options.schemas.avro import parse_schema
from directkafka.payloads.avro.defaults import encode_default, encode_long

INNER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "a", "type": "int", "default": 7}, {"name": "b", "type": "string"}],
}


def encoded(kind: Any, default: Any) -> bytes:
    schema = parse_schema(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, "default": default}]})
    )
    return encode_default(schema, schema.type.fields[0])


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("int", -5, -5),
        ("long", 1 << 62, 1 << 62),
        ("float", 2, 2.0),
        ("double", 0.1, 0.1),
        ("boolean", True, True),
        ("string", "ä", "ä"),
        ("bytes", "\u00ff\u0000", b"\xff\0"),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "array", "items": "int"}, [], []),
        ({"type": "map", "values": "long"}, {"a": 1}, {"a": 1}),
        (["null", "int"], None, None),
        (["int", "null"], 3, 3),
        (["null", "int"], 3, 3),
        (INNER, {"b": "x"}, {"a": 7, "b": "x"}),
    ],
)
def test_a_default_is_encoded_like_its_value(kind: Any, default: Any, value: Any) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(kind), value)
    assert encoded(kind, default) == out.getvalue()


@pytest.mark.parametrize(
    ("kind", "default", "error_message"),
    [
        ("int", 1 << 31, "no int: 2147483648"),
        ("int", 1.5, "no int: 1.5"),
        ("int", True, "no int: true"),
        ("boolean", 1, "no boolean: 1"),
        ("bytes", "€", "no bytes"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "no fixed F"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "C", "no enum E"),
        (["null", "int"], "x", "no union of null, int"),
        (INNER, {}, "its default has no b"),
        ({"type": "array", "items": "int"}, {}, "no array"),
    ],
)
def test_a_default_that_is_no_value_is_told(kind: Any, default: Any, error_message: str) -> None:
    with pytest.raises(ValueError, match="default") as caught:
        encoded(kind, default)
    assert error_message in str(caught.value)


@pytest.mark.parametrize("number", [0, -1, 1, 63, 64, -65, (1 << 63) - 1, -(1 << 63)])
def test_numbers_are_zig_zag(number: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    assert encode_long(number) == out.getvalue()
