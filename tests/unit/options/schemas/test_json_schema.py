"""Columns of JSON Schemas: what has one type has its column, what has several is its JSON as a text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from directkafka.options.schemas.json_schema import json_schema_type


def of(schema: Any, **others: Any) -> str:
    texts = [*map(json.dumps, others.values()), json.dumps(schema)]
    return json_schema_type(texts, [*others, ""]).simple_string()


def field(schema: Any, **definitions: Any) -> str:
    type_text = of({"type": "object", "properties": {"f": schema}, "definitions": definitions})
    return type_text.removeprefix("struct<f:").removesuffix(">")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "integer", "connect.type": "int16"}, "smallint"),
        ({"type": "number"}, "double"),
        ({"type": "number", "connect.type": "float32"}, "float"),
        ({"type": ["null", "boolean"]}, "boolean"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "bigint"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"enum": ["A", "B", None]}, "string"),
        ({"const": "A"}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "array", "items": [{"type": "integer"}]}, "array<string>"),
        ({"properties": {"x": {"type": "integer"}}}, "struct<x:bigint>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        # Of several types, or of any: the JSON itself.
        ({"type": ["integer", "string"]}, "string"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"type": "object"}, "string"),
        ({}, "string"),
        (True, "string"),
        ({"enum": [1, "A"]}, "string"),
    ],
)
def test_types(schema: Any, kind: str) -> None:
    assert field(schema) == kind


def test_references_are_followed_here_and_elsewhere() -> None:
    assert field({"$ref": "#/definitions/P"}, P={"type": "object", "properties": {"x": {"$ref": "#/definitions/I"}}},
                 I={"type": "integer"}) == "struct<x:bigint>"  # fmt: skip
    place_schema = {"$defs": {"a/b": {"type": "boolean"}}, "properties": {"inner": {"$ref": "#/$defs/a~1b"}}}
    own = {"properties": {"at": {"$ref": "place.json"}, "b": {"$ref": "place.json#/$defs/a~1b"}}}
    assert of(own, **{"place.json": place_schema}) == "struct<at:struct<inner:boolean>,b:boolean>"
    both = {"allOf": [{"$ref": "#/definitions/A"}, {"properties": {"y": {"type": "string"}}}]}
    assert field(both, A={"type": "object", "properties": {"x": {"type": "integer"}}}) == "struct<x:bigint,y:string>"


@pytest.mark.parametrize(
    ("schema", "error_message"),
    [
        ({"type": "string"}, "its records are no objects with fields"),
        ({"properties": {"a": {"$ref": "#"}}}, "at a.a: # contains itself"),
        ({"properties": {"a": {"$ref": "#/definitions/no"}}}, "at a: there is no #/definitions/no"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "at a: nothing is called other.json"),
        ({"properties": {str(number): {} for number in range(50_001)}}, "more than 50000 steps"),
    ],
)
def test_what_no_column_is_for_is_told(schema: Any, error_message: str) -> None:
    with pytest.raises(ValueError, match=error_message):
        of(schema)


def test_a_part_is_read_where_it_stands() -> None:
    other = {"definitions": {"x": {"type": "integer"}}, "properties": {"a": {"$ref": "#/definitions/x"}}}
    own = {"allOf": [{"$ref": "other.json"}], "definitions": {"x": {"type": "string"}}}
    assert of(own, **{"other.json": other}) == "struct<a:bigint>"
    node = {"allOf": [{"properties": {"next": {"allOf": [{"$ref": "#/definitions/N"}]}}}]}
    with pytest.raises(ValueError, match=r"at f\.next: #/definitions/N contains itself"):
        field({"$ref": "#/definitions/N"}, N=node)


def test_what_only_restricts_an_object_leaves_its_fields() -> None:
    both = {"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert of({"type": "object", **both}) == "struct<a:bigint>"
    schema = {"properties": {"x": {"type": "integer"}}, "oneOf": [{"properties": {"y": {}}}]}
    assert of(schema) == "struct<x:bigint>"
    assert of({"type": "object", "oneOf": [{"properties": {"y": {"type": "boolean"}}}]}) == "struct<y:boolean>"


def test_a_small_schema_takes_little_time_whatever_it_says() -> None:
    doubled: dict[str, Any] = {
        f"d{at}": {"allOf": [{"$ref": f"#/definitions/d{at + 1}"}, {"$ref": f"#/definitions/d{at + 1}"}]}
        for at in range(40)
    }
    with pytest.raises(ValueError, match="more than 50000 steps"):
        field({"$ref": "#/definitions/d0"}, **doubled, d40={"type": "integer"})
    chain: dict[str, Any] = {f"d{at}": {"$ref": f"#/definitions/d{at + 1}"} for at in range(5_000)}
    with pytest.raises(ValueError, match="leads too far"):
        field({"$ref": "#/definitions/d0"}, **chain)


@pytest.mark.parametrize("schema", [{"allOf": [{"properties": [1]}]}, {"enum": 5}, {"oneOf": 3}, {"items": 1}])
def test_what_makes_no_sense_is_a_text(schema: Any) -> None:
    assert field(schema) == "string"


def test_what_is_no_json_is_told() -> None:
    for text in ("{", "[" * 100_000):
        with pytest.raises(ValueError, match="it is no JSON"):
            json_schema_type([text], [""])
    deep: Any = {"type": "integer"}
    for _ in range(60):
        deep = {"properties": {"a": deep}}
    with pytest.raises(ValueError, match="more than 50 fields in one another"):
        of(deep)
