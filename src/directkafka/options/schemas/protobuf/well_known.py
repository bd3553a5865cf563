"""Google's well-known messages that files import and nobody sends along (google/protobuf/*.proto)."""

from __future__ import annotations

from typing import Final

from directkafka.options.schemas.protobuf.schema import ENUM, MESSAGE, ProtobufEnum, ProtobufField, ProtobufMessage

TIMESTAMP: Final = "google.protobuf.Timestamp"
#: A message with one value, so that a record tells that it is absent; and the value's type.
WRAPPERS: Final = {
    "google.protobuf.DoubleValue": "double",
    "google.protobuf.FloatValue": "float",
    "google.protobuf.Int64Value": "int64",
    "google.protobuf.UInt64Value": "uint64",
    "google.protobuf.Int32Value": "int32",
    "google.protobuf.UInt32Value": "uint32",
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "bytes",
}
_SECONDS: Final = (ProtobufField("seconds", 1, "int64"), ProtobufField("nanos", 2, "int32"))
_STRUCT: Final = "google.protobuf.Struct"
_ENTRY: Final = "google.protobuf.Struct.FieldsEntry"
_VALUE: Final = "google.protobuf.Value"
_LIST: Final = "google.protobuf.ListValue"
_NULL: Final = "google.protobuf.NullValue"


def _kinds() -> tuple[ProtobufField, ...]:
    fields = (
        ("null_value", ENUM, _NULL),
        ("number_value", "double", ""),
        ("string_value", "string", ""),
        ("bool_value", "bool", ""),
        ("struct_value", MESSAGE, _STRUCT),
        ("list_value", MESSAGE, _LIST),
    )
    return tuple(
        ProtobufField(name, number, kind, type_name, has_presence=True, oneof="kind")
        for number, (name, kind, type_name) in enumerate(fields, 1)
    )


_MESSAGES: Final = (
    ProtobufMessage(TIMESTAMP, _SECONDS),
    ProtobufMessage("google.protobuf.Duration", _SECONDS),
    ProtobufMessage("google.protobuf.Empty"),
    ProtobufMessage(
        "google.protobuf.Any", (ProtobufField("type_url", 1, "string"), ProtobufField("value", 2, "bytes"))
    ),
    ProtobufMessage("google.protobuf.FieldMask", (ProtobufField("paths", 1, "string", is_repeated=True),)),
    ProtobufMessage(_STRUCT, (ProtobufField("fields", 1, MESSAGE, _ENTRY, is_repeated=True),), (_ENTRY,)),
    ProtobufMessage(
        _ENTRY,
        (ProtobufField("key", 1, "string"), ProtobufField("value", 2, MESSAGE, _VALUE, has_presence=True)),
        is_map_entry=True,
    ),
    ProtobufMessage(_VALUE, _kinds()),
    ProtobufMessage(_LIST, (ProtobufField("values", 1, MESSAGE, _VALUE, is_repeated=True),)),
    *(ProtobufMessage(name, (ProtobufField("value", 1, kind),)) for name, kind in WRAPPERS.items()),
)
#: Messages and enums by full name.
WELL_KNOWN: Final = {message.name: message for message in _MESSAGES}
WELL_KNOWN_ENUMS: Final = {_NULL: ProtobufEnum(_NULL, ((0, "NULL_VALUE"),))}
