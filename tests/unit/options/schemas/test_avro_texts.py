"""A schema's text is read as the same schema."""

from __future__ import annotations

import json

import pytest
from tests.avro_records import Changes, Schemas

from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.avro_texts import schema_text


@pytest.mark.parametrize("seed", range(100))
def test_a_text_is_read_as_the_same_schema(seed: int) -> None:
    for schema in (Schemas(seed).record(), Changes(seed).of(Schemas(seed).record())):
        parsed_schema = parse_schema(json.dumps(schema))
        assert parse_schema(schema_text(parsed_schema)) == parsed_schema


def test_what_is_referred_to_stands_where_it_is_named_first() -> None:
    inner = parse_schema('{"type": "enum", "name": "a.E", "symbols": ["A", "B"], "default": "A", "aliases": ["a.Old"]}')
    fields = [{"name": "one", "type": "a.E"}, {"name": "two", "type": ["null", "a.E", "R"]}]
    outer = parse_schema(json.dumps({"type": "record", "name": "R", "fields": fields}), inner.names)
    parsed_schema = parse_schema(schema_text(outer))
    assert sorted(parsed_schema.names) == sorted(outer.names) == ["R", "a.E"]
    assert parsed_schema.definition(parsed_schema.type.fields[0].type) == inner.type
    assert json.loads(schema_text(outer))["fields"][1]["type"] == ["null", "a.E", "R"]


def test_a_primitive_type_is_its_name() -> None:
    assert schema_text(parse_schema("string")) == '"string"'
