"""The formats whose records name schemas of a registry."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from directkafka.options.payloads import Payload
from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.ddl import FieldType
from directkafka.options.schemas.protobuf.schema import schema_of_text
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.registry.client import RegisteredSchema
from directkafka.payloads.registry.decoder import RecordColumns

_UTC: Final = "UTC"


def columns_of(payload: Payload, *, explains: bool = True) -> RecordColumns:
    """The columns that records of a payload become.

    Args:
        payload: with the schema that they are read with.
        explains: whether somebody reads what is wrong with each record.
    """
    # Not above: a process loads the kernels of the formats that it reads.
    if payload.format == "json":
        from directkafka.payloads.registry.json import JsonRecords

        assert payload.schema is not None, "it was looked up"
        return JsonRecords(arrow_type(payload.schema), payload.time_zone or _UTC, explains=explains)
    if payload.format == "protobuf":
        from directkafka.payloads.registry.protobuf import ProtobufRecords

        return ProtobufRecords(schema_of_text(payload.reader_schema))
    from directkafka.payloads.registry.avro import AvroRecords

    return AvroRecords(parse_schema(payload.reader_schema))


def reader_schema_of(payload: Payload, registered: RegisteredSchema) -> tuple[FieldType, str]:
    """The column that is for a registered schema, and the schema as one text.

    Args:
        payload: says what its format is, and which message of a file is meant.
        registered: the schema.

    Raises:
        ValueError: it is of another format, is no schema, or no column is for it.
    """
    of_events = payload.format == "debezium-avro"
    name = "debezium.avro_events" if of_events else f"registry.{payload.format}"
    module = import_module(f"directkafka.payloads.{name}")
    reader_schema: tuple[FieldType, str] = module.reader_schema_of(registered, payload.message)
    return reader_schema
