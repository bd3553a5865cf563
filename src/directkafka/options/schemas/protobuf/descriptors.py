"""Reads serialized descriptors of ``.proto`` files, as protoc writes them and some registries keep them.

The messages are those of google/protobuf/descriptor.proto. What does not matter for the bytes of records is passed
over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from directkafka.options.schemas.protobuf.schema import (
    ENUM,
    GROUP,
    MESSAGE,
    NAME_CHARACTERS_MAX,
    SCALARS,
    Declarations,
    Features,
    ProtobufEnum,
    ProtobufField,
    ProtobufMessage,
)

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: By number of FieldDescriptorProto.Type.
_KINDS: Final = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", GROUP, MESSAGE, "bytes",
    "uint32", ENUM, "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
_REQUIRED: Final = 2
_REPEATED: Final = 3
#: FeatureSet's IMPLICIT and LEGACY_REQUIRED, and DELIMITED.
_IMPLICIT: Final = 2
_LEGACY_REQUIRED: Final = 3
_DELIMITED: Final = 2
_DEPTH_MAX: Final = 32
_NO_DESCRIPTOR: Final = "the schema: it is no descriptor of .proto files"


def read_descriptors(raw: bytes) -> list[Declarations]:
    """What files declare, each behind those that it imports.

    Args:
        raw: a FileDescriptorSet or a FileDescriptorProto.

    Raises:
        ValueError: it is neither.
    """
    fields = _fields(raw)
    files = [_fields(file) for file in _messages(fields, 1)] if set(fields) == {1} else [fields]
    return [_file(file) for file in files]


def _file(file: dict[int, list[Any]]) -> Declarations:
    package = _text(file, 2)
    presence = Features(_text(file, 12) != "proto3")
    for options in _messages(file, 8):
        for features in _messages(_fields(options), 50):
            presence = _with_features(presence, _fields(features))
    collected = _Collected(presence)
    for message in _messages(file, 4):
        collected.add_message(_fields(message), package, 1)
    for enum in _messages(file, 5):
        collected.add_enum(_fields(enum), package)
    imports = tuple(map(_decoded, file.get(3, ())))
    return Declarations(package, tuple(collected.messages), tuple(collected.enums), imports)


class _Collected:
    """What a file declares, as it is found."""

    def __init__(self, presence: Features) -> None:
        self._presence = presence
        self.messages: list[ProtobufMessage] = []
        self.enums: list[ProtobufEnum] = []

    def add_message(self, descriptor: dict[int, list[Any]], scope: str, depth: int) -> None:
        name = _full(scope, _text(descriptor, 1))
        if depth > _DEPTH_MAX:
            raise ValueError(f"the schema, at {name}: more than {_DEPTH_MAX} messages in one another")
        oneofs = [_text(_fields(oneof), 1) for oneof in _messages(descriptor, 8)]
        fields = tuple(_field(_fields(field), self._presence, oneofs) for field in _messages(descriptor, 2))
        below = [_fields(message) for message in _messages(descriptor, 3)]
        is_map_entry = any(_fields(options).get(7, [0])[-1] for options in _messages(descriptor, 7))
        nested = tuple(_full(name, _text(message, 1)) for message in below)
        self.messages.append(ProtobufMessage(name, fields, nested, is_map_entry=is_map_entry))
        for message in below:
            self.add_message(message, name, depth + 1)
        for enum in _messages(descriptor, 4):
            self.add_enum(_fields(enum), name)

    def add_enum(self, descriptor: dict[int, list[Any]], scope: str) -> None:
        values = [(_signed(_number(value, 2)), _text(value, 1)) for value in map(_fields, _messages(descriptor, 2))]
        self.enums.append(ProtobufEnum(_full(scope, _text(descriptor, 1)), tuple(values)))


def _field(descriptor: dict[int, list[Any]], presence: Features, oneofs: list[str]) -> ProtobufField:
    for options in _messages(descriptor, 8):
        for features in _messages(_fields(options), 21):
            presence = _with_features(presence, _fields(features))
    number = _number(descriptor, 5)
    if not 0 < number < len(_KINDS):
        raise ValueError(f"the schema: no field is of type {number}")
    kind, is_repeated = _KINDS[number], _number(descriptor, 4) == _REPEATED
    if not (name := _text(descriptor, 1)):
        raise ValueError("the schema: a field has no name")
    # A field that is optional in proto3 has a oneof of its own, which stands in no file.
    is_optional = bool(_number(descriptor, 17))
    index = _number(descriptor, 9) if 9 in descriptor and not is_optional else -1
    if index >= len(oneofs):
        raise ValueError(f"the schema: there is no oneof {index}")
    oneof = oneofs[index] if index >= 0 else ""
    if kind == MESSAGE and presence.is_delimited:
        kind = GROUP
    return ProtobufField(
        name,
        _number(descriptor, 3),
        kind,
        "" if kind in SCALARS else _text(descriptor, 6),
        is_repeated=is_repeated,
        has_presence=not is_repeated and (presence.has_presence or is_optional or bool(oneof)),
        oneof=oneof,
        is_required=_number(descriptor, 4) == _REQUIRED or (presence.is_required and not (is_repeated or oneof)),
    )


def _with_features(presence: Features, features: dict[int, list[Any]]) -> Features:
    return Features(
        features[1][-1] != _IMPLICIT if 1 in features else presence.has_presence,
        features[5][-1] == _DELIMITED if 5 in features else presence.is_delimited,
        features[1][-1] == _LEGACY_REQUIRED if 1 in features else presence.is_required,
    )


def _full(scope: str, name: str) -> str:
    full = f"{scope}.{name}" if scope else name
    if not name or len(full) > NAME_CHARACTERS_MAX:
        raise ValueError(f"the schema: the name of a message or an enum has 1 to {NAME_CHARACTERS_MAX} characters")
    return full


def _fields(raw: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number: whole numbers, and bytes.

    Raises:
        ValueError: it is no message.
    """
    fields: dict[int, list[Any]] = {}
    for number, value in _wire(raw):
        fields.setdefault(number, []).append(value)
    return fields


def _wire(raw: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(raw):
        at, tag = _varint(raw, at)
        kind = tag & 7
        if kind == _VARINT:
            at, value = _varint(raw, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            at, size = _varint(raw, at)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind, len(raw) + 1)
        if size > len(raw) - at:
            raise ValueError(_NO_DESCRIPTOR)
        yield tag >> 3, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw) and shift < 70:
        value |= (raw[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if raw[at - 1] < 0x80:
            return at, value & ((1 << 64) - 1)
    raise ValueError(_NO_DESCRIPTOR)


def _messages(fields: dict[int, list[Any]], number: int) -> list[bytes]:
    values = fields.get(number, [])
    if not all(isinstance(value, bytes) for value in values):
        raise ValueError(_NO_DESCRIPTOR)
    return values


def _number(fields: dict[int, list[Any]], number: int) -> int:
    value = fields.get(number, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(_NO_DESCRIPTOR)
    return value


def _text(fields: dict[int, list[Any]], number: int) -> str:
    return _decoded(_messages(fields, number)[-1]) if number in fields else ""


def _decoded(raw: Any) -> str:
    if not isinstance(raw, bytes):
        raise ValueError(_NO_DESCRIPTOR)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueError(_NO_DESCRIPTOR) from None


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
