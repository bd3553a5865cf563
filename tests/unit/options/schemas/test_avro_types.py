"""Avro's types are those of Spark's ``from_avro``, but for three."""

from __future__ import annotations

import json
from typing import Any

import pytest

from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.avro_types import spark_type


def column(kind: Any) -> str:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    return spark_type(parse_schema(json.dumps(schema))).fields[0].type.simple_string()


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "array", "items": "int"}, "array<int>"),
        ({"type": "map", "values": ["null", "long"]}, "map<string,bigint>"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-nanos"), "timestamp"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("bytes", "decimal", precision=38, scale=3), "decimal(38,3)"),
        (logical("string", "uuid"), "string"),
        (logical("fixed", "uuid", name="U", size=16), "string"),
        (logical("fixed", "duration", name="D", size=12), "struct<months:bigint,days:bigint,milliseconds:bigint>"),
        (["null", "string"], "string"),
        (["string"], "string"),
        (["long", "null", "int"], "bigint"),
        (["float", "double"], "double"),
        (["null", "string", "int"], "struct<member0:string,member1:int>"),
        ([logical("int", "date"), "long"], "struct<member0:date,member1:bigint>"),
    ],
)
def test_a_type_has_a_column(kind: Any, expected: str) -> None:
    assert column(kind) == expected


@pytest.mark.parametrize(
    ("kind", "error_message"),
    [
        ("null", "the schema, at f: is always null"),
        (["null"], "the schema, at f: is always null"),
        (["null", "R"], "the schema, at f: R contains itself"),
        (
            {"type": "array", "items": {"type": "record", "name": "S", "fields": [{"name": "up", "type": "R"}]}},
            "at f.items.up: R contains",
        ),
        (logical("bytes", "decimal", precision=39), "has 39 digits, and a decimal of Spark has 38 at most"),
        ({"type": "record", "name": "S", "fields": []}, "record S has no field"),
    ],
)
def test_what_no_column_is_for_is_told_with_its_path(kind: Any, error_message: str) -> None:
    with pytest.raises(ValueError, match="the schema") as caught:
        column(kind)
    assert error_message in str(caught.value)


def test_a_schema_that_grows_with_each_level_is_refused() -> None:
    schema: Any = "int"
    for level in range(20):
        inner = {"type": "record", "name": f"L{level}", "fields": [{"name": "a", "type": schema}]}
        schema = {
            **inner,
            "fields": [*inner["fields"], {"name": "b", "type": schema if isinstance(schema, str) else schema["name"]}],
        }
    with pytest.raises(ValueError, match="more than 20000 columns"):
        spark_type(parse_schema(json.dumps(schema)))
