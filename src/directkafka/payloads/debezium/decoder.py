"""The decoder of a database's changes, for the payload that they are."""

from __future__ import annotations

from directkafka.options.payloads import Payload
from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.debezium import key_schema, parse_event, with_logical_types
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.avro.decoder import AvroDecoder
from directkafka.payloads.debezium.avro_events import AvroEvents, DebeziumAvroDecoder
from directkafka.payloads.debezium.json_events import DebeziumJsonDecoder
from directkafka.payloads.registry.client import client_of
from directkafka.payloads.registry.decoder import RegisteredDecoder
from directkafka.payloads.registry.frames import SCHEMA_HEADERS

_UTC = "UTC"


def decoder_of_changes(payload: Payload) -> DebeziumJsonDecoder | DebeziumAvroDecoder:
    """What decodes a database's changes.

    Args:
        payload: with the schema of their rows.
    """
    assert payload.schema is not None, "it was given or looked up"
    row = arrow_type(payload.schema)
    if payload.format == "debezium-json":
        return DebeziumJsonDecoder(row, payload.time_zone or _UTC)
    event = parse_event(payload.reader_schema)
    if payload.registry is None:
        writer = parse_schema(with_logical_types(payload.reader_schema))
        return DebeziumAvroDecoder(row, AvroDecoder(event, writer))
    client, is_strict = client_of(payload.registry), payload.on_error != "null"
    events = RegisteredDecoder(AvroEvents(event), client, SCHEMA_HEADERS["value"], is_strict=is_strict)
    keys = RegisteredDecoder(AvroEvents(key_schema(event)), client, SCHEMA_HEADERS["key"], is_strict=is_strict)
    return DebeziumAvroDecoder(row, events, keys)
