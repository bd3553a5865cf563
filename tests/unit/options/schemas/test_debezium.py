"""The parts of an event's Avro schema that are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.debezium_avro import EVENT, ROW_FIELDS, SOURCE, event_schema

from directkafka.options.schemas.avro_texts import schema_text
from directkafka.options.schemas.avro_types import spark_type
from directkafka.options.schemas.debezium import key_schema, parse_event, row_type, with_logical_types


def test_the_row_is_the_column_and_the_rest_is_read_in_part() -> None:
    event = parse_event(json.dumps(EVENT))
    assert row_type(event).simple_string() == "struct<id:int,price:decimal(10,2),made:timestamp_ntz>"
    assert spark_type(event).simple_string() == (
        "struct<before:struct<id:int,price:decimal(10,2),made:timestamp_ntz>,"
        "after:struct<id:int,price:decimal(10,2),made:timestamp_ntz>,source:struct<ts_ms:bigint,lsn:bigint>,op:string>"
    )
    again = parse_event(schema_text(event))
    assert (again.type, row_type(again)) == (event.type, row_type(event))


def test_keys_are_read_into_the_row_s_columns() -> None:
    key = key_schema(parse_event(json.dumps(EVENT)))
    assert spark_type(key).simple_string() == "struct<id:int,price:decimal(10,2),made:timestamp_ntz>"
    assert all(field.default == "null" for field in key.type.fields)


def without(name: str) -> dict[str, Any]:
    return {**EVENT, "fields": [field for field in EVENT["fields"] if field["name"] != name]}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "record", "name": "Flat", "fields": ROW_FIELDS}, "record Flat has no field after"),
        (without("op"), "has no field op"),
        ("long", "long has no field after"),
        (event_schema(after={"type": "int"}), "at after: expected a record or null, found int"),
        (event_schema(after=["null", "int", "string"]), "at after: expected a record or null"),
        (event_schema(source="string"), "at source: expected a record, found string"),
        (
            event_schema(source={"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}),
            "at source: expected one of ts_ms, ts_us, lsn",
        ),
    ],
)
def test_what_is_no_event_s_schema_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="the schema") as raised:
        parse_event(json.dumps(schema))
    assert reason in str(raised.value)


def test_times_of_debezium_are_avro_s_times() -> None:
    def long(name: str) -> dict[str, Any]:
        return {"type": "long", "connect.name": f"io.debezium.time.{name}"}

    given = [long("MicroTimestamp"), {"type": "map", "values": long("Timestamp")}, long("Year"), "null"]
    text = with_logical_types(json.dumps(given))
    assert [json.loads(text)[0]["logicalType"], json.loads(text)[1]["values"]["logicalType"]] == [
        "local-timestamp-micros",
        "local-timestamp-millis",
    ]
    assert "logicalType" not in json.loads(text)[2]
    assert with_logical_types("no JSON") == "no JSON"
    default = json.dumps({"type": "record", "default": {"connect.name": "io.debezium.time.Date"}})
    assert "logicalType" not in with_logical_types(default)


def test_an_event_without_before_or_source_is_read() -> None:
    row = {"type": "record", "name": "Value", "fields": ROW_FIELDS}
    fields = [{"name": "after", "type": ["null", row], "default": None}, {"name": "op", "type": "string"}]
    event = parse_event(json.dumps({"type": "record", "name": "Envelope", "fields": fields}))
    assert [field.name for field in event.type.fields] == ["after", "op"]
    assert SOURCE["name"] not in schema_text(event)


def test_kafka_connect_s_own_timestamp_has_no_zone() -> None:
    """Of the mode ``connect``; a column with a zone is a text in every mode."""
    kind = {
        "type": "long", "connect.version": 1, "connect.name": "org.apache.kafka.connect.data.Timestamp",
        "logicalType": "timestamp-millis",
    }  # fmt: skip
    row = {"type": "record", "name": "Value", "fields": [{"name": "at", "type": kind}]}
    fields = [{"name": "after", "type": ["null", row]}, {"name": "op", "type": "string"}]
    event = {"type": "record", "name": "Envelope", "fields": fields}
    assert row_type(parse_event(json.dumps(event))).simple_string() == "struct<at:timestamp_ntz>"
