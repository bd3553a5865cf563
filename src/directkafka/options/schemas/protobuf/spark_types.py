"""The Spark types of Protocol Buffers' messages, which are those of Spark's ``from_protobuf``, with some differences.

Unsigned numbers have types that hold them all. What is well known has the type that it stands for: a timestamp, or the
value of a wrapper. A message without fields is true where it is there.
"""

from __future__ import annotations

from typing import Final

from directkafka.options.schemas.ddl import FieldType, SchemaField
from directkafka.options.schemas.protobuf.schema import ENUM, ProtobufField, ProtobufSchema
from directkafka.options.schemas.protobuf.well_known import TIMESTAMP, WRAPPERS

_PLAIN: Final = {
    "int32": "int",
    "sint32": "int",
    "sfixed32": "int",
    "uint32": "bigint",
    "fixed32": "bigint",
    "int64": "bigint",
    "sint64": "bigint",
    "sfixed64": "bigint",
    "bool": "boolean",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    ENUM: "string",
}
_UNSIGNED: Final = FieldType("decimal", (), 20, 0)
_TYPES_MAX: Final = 20_000
#: Messages in one another; the limit of Google's own readers.
DEPTH_MAX: Final = 100


def spark_type(schema: ProtobufSchema) -> FieldType:
    """The type of the column that records of a schema are decoded into.

    Raises:
        ValueError: there is none, since a message contains itself, or has too much in it; the message has the path.
    """
    return _Types(schema).of_message(schema.message, (), ())


class _Types:
    def __init__(self, schema: ProtobufSchema) -> None:
        self._schema = schema
        self._count = 0

    def of_message(self, name: str, path: tuple[str, ...], around: tuple[str, ...]) -> FieldType:
        self._count += 1
        if self._count > _TYPES_MAX:
            raise ValueError(f"the schema has more than {_TYPES_MAX} columns, counted in all levels")
        if name == TIMESTAMP:
            return FieldType("timestamp")
        if name in WRAPPERS:
            return _scalar(WRAPPERS[name])
        if name in around:
            reason = f"{name} contains itself, and a column has an end; give a schema without it"
            raise ValueError(f"the schema, at {'.'.join(path)}: {reason}")
        if len(around) == DEPTH_MAX:
            raise ValueError(f"the schema, at {'.'.join(path)}: more than {DEPTH_MAX} messages in one another")
        fields = self._schema.messages[name].fields
        if not fields:
            return FieldType("boolean")
        around = (*around, name)
        return FieldType(
            "struct",
            tuple(SchemaField(field.name, self._field(field, (*path, field.name), around)) for field in fields),
        )

    def _field(self, protobuf_field: ProtobufField, path: tuple[str, ...], around: tuple[str, ...]) -> FieldType:
        self._count += 1
        if not protobuf_field.is_repeated:
            return self._value(protobuf_field, path, around)
        entry = self._schema.messages.get(protobuf_field.type_name)
        if entry is not None and entry.is_map_entry:
            key, value = (
                SchemaField(field.name, self._value(field, (*path, field.name), around)) for field in entry.fields
            )
            return FieldType("map", (key, value))
        return FieldType("array", (SchemaField("element", self._value(protobuf_field, path, around)),))

    def _value(self, protobuf_field: ProtobufField, path: tuple[str, ...], around: tuple[str, ...]) -> FieldType:
        if protobuf_field.kind in _PLAIN or not protobuf_field.type_name:
            return _scalar(protobuf_field.kind)
        return self.of_message(protobuf_field.type_name, path, around)


def _scalar(kind: str) -> FieldType:
    return FieldType(_PLAIN[kind]) if kind in _PLAIN else _UNSIGNED
