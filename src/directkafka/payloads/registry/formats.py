"""The formats whose records name schemas of a registry."""

from __future__ import annotations

from directkafka.options.payloads import Payload
from directkafka.options.schemas.avro import parse_schema
from directkafka.options.schemas.ddl import FieldType
from directkafka.options.schemas.protobuf.schema import schema_of_text
from directkafka.payloads.registry.client import RegisteredSchema
from directkafka.payloads.registry.decoder import RecordColumns


def columns_of(payload: Payload) -> RecordColumns:
    """The columns that records of a payload become.

    Args:
        payload: with the schema that they are read with.
    """
    # Not above: a process loads the kernels of the formats that it reads.
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
    if payload.format == "protobuf":
        from directkafka.payloads.registry.protobuf import reader_schema_of as of_format
    else:
        from directkafka.payloads.registry.avro import reader_schema_of as of_format
    return of_format(registered, payload.message)
