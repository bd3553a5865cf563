"""Avro under a registry: what each record was written with is resolved with the schema of the columns."""

from __future__ import annotations

from directkafka.options.schemas.avro import AvroSchema, AvroType, parse_schema
from directkafka.options.schemas.avro_texts import schema_text
from directkafka.options.schemas.avro_types import spark_type
from directkafka.options.schemas.ddl import FieldType
from directkafka.payloads.avro.decoder import AvroDecoder
from directkafka.payloads.registry.client import RegisteredSchema


class AvroRecords(AvroDecoder):
    """Columns of an Avro schema, for records of any schema that resolves to it."""

    names_messages = False

    def program(self, registered: RegisteredSchema, indexes: tuple[int, ...]) -> int:
        """What reads records of a schema.

        Args:
            registered: the schema.
            indexes: nothing: a schema is one type.

        Raises:
            ValueError: it does not resolve to the columns.
        """
        return self.programs.add(avro_of(registered))


def reader_schema_of(registered: RegisteredSchema, message: str) -> tuple[FieldType, str]:
    """The column that is for a schema, and the schema as one text, whatever it refers to.

    Raises:
        ValueError: it is not Avro's, is no schema, or no column is for it.
    """
    # As the tasks read it: one text may have more types in one another than its parts.
    schema = parse_schema(schema_text(avro_of(registered)))
    return spark_type(schema), schema_text(schema)


def parse_registered(texts: tuple[str, ...]) -> AvroSchema:
    """A schema and those that it refers to, each behind those that it refers to itself; its own is the last.

    Raises:
        ValueError: one of them is no schema.
    """
    names: dict[str, AvroType] = {}
    for text in texts[:-1]:
        names |= parse_schema(text, names).names
    return parse_schema(texts[-1], names)


def avro_of(registered: RegisteredSchema) -> AvroSchema:
    """A registered schema that is Avro's.

    Raises:
        ValueError: it is not, or is no schema.
    """
    if registered.type != "AVRO":
        raise ValueError(f"it is of type {registered.type}, not AVRO")
    return parse_registered(registered.texts)
