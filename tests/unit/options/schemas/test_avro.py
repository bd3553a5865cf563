"""Schemas are read as the specification says, and what is none is told with its path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from directkafka.options.schemas.avro import DEPTH_MAX, TYPES_MAX, AvroType, parse_schema


def record(*fields: Any, **more: Any) -> str:
    listed = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(fields)]
    return json.dumps({"type": "record", "name": "R", "fields": listed} | more)


def kinds(text: str) -> list[str]:
    return [str(field.type) for field in parse_schema(text).type.fields]


def test_a_primitive_type_is_a_schema_with_quotes_and_without() -> None:
    assert parse_schema("string").type == parse_schema(' "string" ').type == AvroType("string")


def test_names_are_those_of_the_namespace_around_them() -> None:
    inner = {"type": "enum", "name": "E", "symbols": ["A"], "aliases": ["Old", "other.Old"]}
    other = {"type": "fixed", "name": "F", "namespace": "elsewhere", "size": 3}
    schema = parse_schema(record(inner, other, "E", "elsewhere.F", name="a.b.R"))
    assert sorted(schema.names) == ["a.b.E", "a.b.R", "elsewhere.F"]
    first, second, third, fourth = (field.type for field in schema.type.fields)
    assert first.aliases == ("a.b.Old", "other.Old")
    assert (schema.definition(third), schema.definition(fourth)) == (first, second)


def test_a_name_without_a_namespace_is_found_from_within_one() -> None:
    references = parse_schema(record("int")).names
    assert parse_schema(record("R", name="a.S"), references).type.fields[0].type.name == "R"


def test_logical_types_that_do_not_suit_are_left_out_of_account() -> None:
    def logical(kind: Any, name: str, **more: Any) -> Any:
        return (kind if isinstance(kind, dict) else {"type": kind}) | {"logicalType": name} | more

    # Two bytes hold numbers of four digits, and not all of five.
    two = {"type": "fixed", "name": "D", "size": 2}
    assert kinds(
        record(logical(two, "decimal", precision=4), logical({**two, "name": "E"}, "decimal", precision=5))
    ) == [
        "fixed D (decimal(4,0))",
        "fixed E",
    ]
    fixed = {"type": "fixed", "name": "F", "size": 12}
    assert kinds(record(logical("int", "date"), logical("long", "date"), logical("string", "uuid"))) == [
        "int (date)",
        "long",
        "string (uuid)",
    ]
    assert kinds(
        record(logical("bytes", "decimal", precision=4, scale=2), logical("bytes", "decimal", precision=1, scale=2))
    ) == [
        "bytes (decimal(4,2))",
        "bytes",
    ]
    assert kinds(record(logical(fixed, "duration"), logical({**fixed, "name": "G"}, "uuid"))) == [
        "fixed F (duration)",
        "fixed G",
    ]


@pytest.mark.parametrize(
    ("text", "error_message"),
    [
        ("{", "the schema is no JSON"),
        ("5", "the schema: expected a type, found 5"),
        (record("text"), 'the schema, at f0: there is no type "text"'),
        (record({"type": "array"}), "the schema, at f0: items is missing"),
        (record(["int", "int"]), "the schema, at f0: a union has alternatives of different types"),
        (record(["int", ["null"]]), "a union has alternatives of different types"),
        (record([]), "a union has alternatives of different types"),
        (
            record({"type": "enum", "name": "E", "symbols": ["A", "A"]}),
            "an enum has symbols of letters, digits and underscores, each once",
        ),
        (
            record({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}),
            'the default "B" is none of the symbols',
        ),
        (record({"type": "fixed", "name": "F", "size": -1}), "expected a size in bytes, found -1"),
        (
            record({"type": "fixed", "name": "1", "size": 1}),
            'expected a name of letters, digits and underscores, found "1"',
        ),
        (record({"type": "fixed", "name": "R", "size": 1}), "the type R is defined twice"),
        (record("int", fields=[{"name": "a b", "type": "int"}]), "expected a field with a name"),
        (record("int", fields=[{"name": "a", "type": "int"}] * 2), "two fields have the name a"),
        (record("int", fields=5), "expected a list of fields, found 5"),
        (record("int", namespace="a..b"), "expected a namespace of names"),
        (record("int", name="int"), "no type may have the name int"),
        (record("int", aliases=[5]), "expected a list of names as aliases"),
    ],
)
def test_what_is_no_schema_is_told_with_its_place(text: str, error_message: str) -> None:
    with pytest.raises(ValueError, match="the schema") as caught:
        parse_schema(text)
    assert error_message in str(caught.value)


def test_hostile_schemas_are_refused_in_time() -> None:
    nested: Any = "int"
    for _ in range(DEPTH_MAX + 1):
        nested = {"type": "array", "items": nested}
    with pytest.raises(ValueError, match=f"more than {DEPTH_MAX} types stand in one another"):
        parse_schema(json.dumps(nested))
    with pytest.raises(ValueError, match="too many types in one another"):
        parse_schema('{"type":"array","items":' * 100_000)
    with pytest.raises(ValueError, match=f"more than {TYPES_MAX} types"):
        parse_schema(record(*["int"] * (TYPES_MAX + 1)))
