"""Avro schemas of Debezium's change events: which parts of them are read, and what their columns stand for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from directkafka.options.schemas.avro import AvroField, AvroSchema, AvroType, parse_schema
from directkafka.options.schemas.avro_types import spark_type
from directkafka.options.schemas.ddl import FieldType

#: The fields of ``source`` that say when a change was made, and where it stands in the database's log.
SOURCE_NAMES: Final = ("ts_ms", "ts_us", "lsn", "file", "pos", "commit_lsn", "change_lsn")
_EVENT_FIELDS: Final = ("before", "after", "source", "op")
_NEEDED: Final = ("after", "op")
#: The name of the record type that keys are read as.
_KEY: Final = "Key"
#: Debezium's types of times (``io.debezium.time``), which Avro has under other names. Kafka Connect's own, of the mode
#: ``connect``, has an instant's name in Avro, and is a time without a zone: those with one are texts.
_LOGICAL_TYPES: Final = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
    "org.apache.kafka.connect.data.Timestamp": "local-timestamp-millis",
}


def with_logical_types(text: str) -> str:
    """A schema with Avro's logical types in place of Debezium's.

    Args:
        text: the schema, as JSON; what is none stays as it is.
    """
    try:
        return json.dumps(_with_logical_types(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _with_logical_types(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_logical_types(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: item if name == "default" else _with_logical_types(item) for name, item in value.items()}
    logical = _LOGICAL_TYPES.get(str(value.get("connect.name")))
    return made if logical is None else {**made, "logicalType": logical}


def parse_event(text: str) -> AvroSchema:
    """The parts of an event's schema that are read: before and after a change, source and op.

    Args:
        text: the schema, as JSON.

    Raises:
        ValueError: it is no schema, or not that of an event.
    """
    return event_of(parse_schema(with_logical_types(text)))


def event_of(schema: AvroSchema) -> AvroSchema:
    """The parts of an event's schema that are read; see :func:`parse_event`.

    Raises:
        ValueError: it is not that of an event.
    """
    event = schema.definition(schema.type)
    fields = {field.name: field for field in event.fields}
    if missing := [name for name in _NEEDED if name not in fields]:
        raise ValueError(
            f"the schema is not that of a change event of Debezium: {event} has no field {missing[0]} (one that its "
            "ExtractNewRecordState has flattened is read with the format avro)"
        )
    kept = tuple(
        replace(field, type=_source(schema, field.type)) if field.name == "source" else field
        for field in event.fields
        if field.name in _EVENT_FIELDS
    )
    _row(schema, fields["after"].type)
    return AvroSchema(replace(event, fields=kept), schema.names)


def row_type(event: AvroSchema) -> FieldType:
    """The type of an event's rows.

    Args:
        event: as :func:`event_of` makes it.

    Raises:
        ValueError: Spark has no type for them.
    """
    return next(field.type for field in spark_type(event).fields if field.name == "after")


def key_schema(event: AvroSchema) -> AvroSchema:
    """The schema that keys are read with: any of the row's columns, and null for those that a key does not have.

    Args:
        event: as :func:`event_of` makes it.
    """
    row = _row(event, next(field.type for field in event.type.fields if field.name == "after"))
    fields = tuple(AvroField(field.name, _nullable(event, field.type), field.aliases, "null") for field in row.fields)
    return AvroSchema(AvroType("record", _KEY, fields=fields), event.names)


def _row(schema: AvroSchema, avro_type: AvroType) -> AvroType:
    """The record of a nullable row."""
    avro_type = schema.definition(avro_type)
    inner = (
        [schema.definition(alternative) for alternative in avro_type.inner]
        if avro_type.kind == "union"
        else [avro_type]
    )
    rows = [alternative for alternative in inner if alternative.kind != "null"]
    if len(rows) != 1 or rows[0].kind != "record":
        raise ValueError(f"the schema, at after: expected a record or null, found {avro_type}")
    return rows[0]


def _source(schema: AvroSchema, avro_type: AvroType) -> AvroType:
    source = schema.definition(avro_type)
    if source.kind != "record":
        raise ValueError(f"the schema, at source: expected a record, found {source}")
    fields = tuple(
        replace(field, type=_nullable(schema, field.type), default="null")
        for field in source.fields
        if field.name in SOURCE_NAMES
    )
    if not fields:
        raise ValueError(f"the schema, at source: expected one of {', '.join(SOURCE_NAMES)}, found {source}")
    return replace(source, fields=fields)


def _nullable(schema: AvroSchema, avro_type: AvroType) -> AvroType:
    plain = schema.definition(avro_type)
    inner = plain.inner if plain.kind == "union" else (avro_type,)
    others = tuple(alternative for alternative in inner if schema.definition(alternative).kind != "null")
    return AvroType("union", inner=(AvroType("null"), *others))
