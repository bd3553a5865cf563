"""The Spark types of Avro's, which are those of Spark's ``from_avro`` (``SchemaConverters``), with three differences.

A timestamp in nanoseconds is a timestamp of Spark, which has microseconds. A duration is a struct of its three numbers.
A UUID in 16 bytes is its text.
"""

from __future__ import annotations

from typing import Final

from directkafka.options.schemas.avro import AvroSchema, AvroType, parse_schema
from directkafka.options.schemas.ddl import FieldType, SchemaField

_PLAIN: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "timestamp-nanos": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-nanos": "timestamp_ntz",
    "uuid": "string",
}
DURATION: Final = ("months", "days", "milliseconds")
_PRECISION_MAX: Final = 38
_TYPES_MAX: Final = 20_000
#: Alternatives that are one type, which holds them all.
_WIDENED: Final = {frozenset({"int", "long"}): "bigint", frozenset({"float", "double"}): "double"}


def alternatives_of(schema: AvroSchema, union: AvroType) -> list[AvroType]:
    """The alternatives of a union that are not null."""
    return [alternative for alternative in map(schema.definition, union.inner) if alternative.kind != "null"]


def widened(alternatives: list[AvroType]) -> str | None:
    """The Spark type of alternatives that one column holds: ``int`` and ``long``, ``float`` and ``double``."""
    return (
        None
        if any(alternative.logical for alternative in alternatives)
        else _WIDENED.get(frozenset(alternative.kind for alternative in alternatives))
    )


def avro_column(text: str) -> FieldType:
    """The type of the column that records of a schema are decoded into.

    Args:
        text: the schema, as JSON.

    Raises:
        ValueError: it is none, or no column is for it.
    """
    return spark_type(parse_schema(text))


def spark_type(schema: AvroSchema) -> FieldType:
    """The type of the column that records of a schema are decoded into.

    Raises:
        ValueError: a type has none: it contains itself, is always null, or has too many digits; the message has the
            path.
    """
    return _Types(schema).of(schema.type, (), ())


class _Types:
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._count = 0

    def of(self, avro_type: AvroType, path: tuple[str, ...], around: tuple[str, ...]) -> FieldType:
        self._count += 1
        if self._count > _TYPES_MAX:
            raise ValueError(f"the schema has more than {_TYPES_MAX} columns, counted in all levels")
        avro_type = self._schema.definition(avro_type)
        if avro_type.name and avro_type.name in around:
            raise _wrong(
                path, f"{avro_type.name} contains itself, and a column has an end; read it with a schema without it"
            )
        if avro_type.kind == "record":
            around = (*around, avro_type.name)
            if not avro_type.fields:
                raise _wrong(path, f"{avro_type} has no field, and a struct has one at least")
            return FieldType(
                "struct",
                tuple(
                    SchemaField(field.name, self.of(field.type, (*path, field.name), around))
                    for field in avro_type.fields
                ),
            )
        if avro_type.kind == "array":
            return FieldType("array", (SchemaField("element", self.of(avro_type.inner[0], (*path, "items"), around)),))
        if avro_type.kind == "map":
            value = SchemaField("value", self.of(avro_type.inner[0], (*path, "values"), around))
            return FieldType("map", (SchemaField("key", FieldType("string")), value))
        if avro_type.kind == "union":
            return self._union(avro_type, path, around)
        return _scalar(avro_type, path)

    def _union(self, union: AvroType, path: tuple[str, ...], around: tuple[str, ...]) -> FieldType:
        alternatives = alternatives_of(self._schema, union)
        if len(alternatives) == 1:
            return self.of(alternatives[0], path, around)
        if name := widened(alternatives):
            return FieldType(name)
        members = [
            SchemaField(f"member{number}", self.of(alternative, (*path, f"member{number}"), around))
            for number, alternative in enumerate(alternatives)
        ]
        if not members:
            raise _wrong(path, "is always null, which no column is for")
        return FieldType("struct", tuple(members))


def _scalar(avro_type: AvroType, path: tuple[str, ...]) -> FieldType:
    if avro_type.kind == "null":
        raise _wrong(path, "is always null, which no column is for")
    if avro_type.logical == "decimal":
        if avro_type.precision > _PRECISION_MAX:
            raise _wrong(path, f"has {avro_type.precision} digits, and a decimal of Spark has {_PRECISION_MAX} at most")
        return FieldType("decimal", (), avro_type.precision, avro_type.scale)
    if avro_type.logical == "duration":
        return FieldType("struct", tuple(SchemaField(name, FieldType("bigint")) for name in DURATION))
    return FieldType(_LOGICAL.get(avro_type.logical) or _PLAIN[avro_type.kind])


def _wrong(path: tuple[str, ...], reason: str) -> ValueError:
    return ValueError(f"the schema, at {'.'.join(path)}: {reason}" if path else f"the schema: {reason}")
