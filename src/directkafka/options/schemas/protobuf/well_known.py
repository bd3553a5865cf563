"""Messages that files import and nobody sends along: Google's (google/protobuf/*.proto), and those that Confluent's
serializers know and leave out of a schema's references (``ProtobufSchema.java``).
"""

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


def _fields(**kinds: str) -> tuple[ProtobufField, ...]:
    return tuple(ProtobufField(name, number, kind) for number, (name, kind) in enumerate(kinds.items(), 1))


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
    ProtobufMessage("confluent.type.Decimal", _fields(value="bytes", precision="uint32", scale="int32")),
    ProtobufMessage("google.type.Date", _fields(year="int32", month="int32", day="int32")),
    ProtobufMessage("google.type.TimeOfDay", _fields(hours="int32", minutes="int32", seconds="int32", nanos="int32")),
    ProtobufMessage("google.type.Money", _fields(currency_code="string", units="int64", nanos="int32")),
)
#: Messages and enums by full name.
WELL_KNOWN: Final = {message.name: message for message in _MESSAGES}
WELL_KNOWN_ENUMS: Final = {_NULL: ProtobufEnum(_NULL, ((0, "NULL_VALUE"),))}
