"""Schemas of Protocol Buffers from files: what they declare, brought together, with the names in it resolved.

Declarations come from texts (:mod:`.proto_text`) or from serialized descriptors (:mod:`.descriptors`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from directkafka.options.schemas.protobuf.descriptors import read_descriptors
from directkafka.options.schemas.protobuf.proto_text import TEXT_CHARACTERS_MAX, read_declarations
from directkafka.options.schemas.protobuf.schema import (
    ENUM,
    GROUP,
    MESSAGE,
    NOT_REFERRED_TO,
    NUMBER_MAX,
    SCALARS,
    Declarations,
    ProtobufEnum,
    ProtobufField,
    ProtobufMessage,
    ProtobufSchema,
)
from directkafka.options.schemas.protobuf.well_known import WELL_KNOWN, WELL_KNOWN_ENUMS

#: What base64 is made of; every ``.proto`` file has something else.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}")


def parse_protobuf(texts: Sequence[str], message: str = "") -> ProtobufSchema:
    """The schema that files declare.

    Args:
        texts: of the files: each is a ``.proto`` file, or the base64 of a FileDescriptorProto or FileDescriptorSet. The
            schema's own is the last; what it imports is before it, Google's well-known files left out.
        message: that records are; the first one of the own file if empty.

    Raises:
        ValueError: a text is neither, a name is declared twice or nowhere, or there is no such message.
    """
    files = [file for text in texts for file in _declared(text)]
    schema = linked(files[-1], files[:-1])
    return schema.of_message(message) if message else schema


def _declared(text: str) -> list[Declarations]:
    text = text.strip()
    if not text:
        raise ValueError("the schema: it is empty")
    if not _BASE64.fullmatch(text):
        return [read_declarations(text)]
    if len(text) > 2 * TEXT_CHARACTERS_MAX:
        raise ValueError(f"the schema: {len(text)} characters of base64, and {2 * TEXT_CHARACTERS_MAX} are read")
    try:
        return read_descriptors(base64.b64decode("".join(text.split()), validate=True))
    except binascii.Error:
        raise ValueError("the schema: it is neither a .proto file nor base64") from None


def linked(own: Declarations, others: Iterable[Declarations] = ()) -> ProtobufSchema:
    """The schema of a file and of those that it imports: every name of a type is a full one then.

    The message is the file's first one.

    Args:
        own: what the file declares.
        others: what the files that it imports declare, Google's well-known ones left out.

    Raises:
        ValueError: it has no message, a name is declared twice or nowhere.
    """
    linker = _Linker((own, *others))
    names = [message.name for message in _not_known(own.messages)]
    outer = tuple(name for name in names if linker.is_outer(name, own.package))
    if not outer:
        raise ValueError("the schema: it has no message")
    return ProtobufSchema(outer[0], *linker.linked(), outer)


class _Linker:
    def __init__(self, files: Sequence[Declarations]) -> None:
        self._files = files
        self._messages, self._enums = dict(WELL_KNOWN), dict(WELL_KNOWN_ENUMS)
        #: Known ones that a file may declare all the same.
        self._undeclared = set(NOT_REFERRED_TO)
        for file in files:
            for message in _not_known(file.messages):
                self._check_new(message.name)
                self._messages[message.name] = message
            for enum in _not_known(file.enums):
                self._check_new(enum.name)
                if not all(_INT_MIN <= number <= _INT_MAX for number, _ in enum.values):
                    raise ValueError(f"the schema, at {enum.name}: a number of an enum has 32 bits")
                self._enums[enum.name] = enum

    def _check_new(self, name: str) -> None:
        if (name in self._messages or name in self._enums) and name not in self._undeclared:
            raise ValueError(f"the schema: {name} is declared twice")
        self._undeclared.discard(name)

    def linked(self) -> tuple[dict[str, ProtobufMessage], dict[str, ProtobufEnum]]:
        for file in self._files:
            for message in _not_known(file.messages):
                fields = tuple(self._field(message, field) for field in message.fields)
                _check(message.name, fields)
                self._messages[message.name] = replace(message, fields=fields)
        return self._messages, self._enums

    def is_outer(self, name: str, package: str) -> bool:
        return name.rpartition(".")[0] == package and not self._messages[name].is_map_entry

    def _field(self, message: ProtobufMessage, field: ProtobufField) -> ProtobufField:
        if message.is_map_entry:
            # Each entry has a key and a value, if only zero.
            field = replace(field, has_presence=False)
        if field.kind in SCALARS:
            return field
        name = self._full_name(message.name, field.type_name)
        if name is None:
            raise ValueError(f"the schema, at {message.name}.{field.name}: there is no type {field.type_name}")
        if name in self._enums:
            return replace(field, kind=ENUM, type_name=name)
        # Maps are never between tags, nor is what they have; and of a message a record always tells that it is absent.
        is_of_map = message.is_map_entry or self._messages[name].is_map_entry
        kind = GROUP if field.kind == GROUP and not is_of_map else MESSAGE
        return replace(field, kind=kind, type_name=name, has_presence=not field.is_repeated)

    def _full_name(self, scope: str, name: str) -> str | None:
        """The type that a name means: the one declared closest around, as in C++."""
        if name.startswith("."):
            return name[1:] if name[1:] in self._messages or name[1:] in self._enums else None
        while True:
            full = f"{scope}.{name}" if scope else name
            if full in self._messages or full in self._enums:
                return full
            if not scope:
                return None
            scope = scope.rpartition(".")[0]


_Named = TypeVar("_Named", ProtobufMessage, ProtobufEnum)


def _not_known(declared: Sequence[_Named]) -> list[_Named]:
    """Without what is well known, which may be among files too."""
    known = (WELL_KNOWN.keys() | WELL_KNOWN_ENUMS.keys()) - NOT_REFERRED_TO
    return [message_or_enum for message_or_enum in declared if message_or_enum.name not in known]


_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
#: Fields of one oneof: each that comes takes the place of all others.
_ONEOF_MAX: Final = 1_000


def _check(message: str, fields: Sequence[ProtobufField]) -> None:
    oneofs = Counter(field.oneof for field in fields if field.oneof)
    if oneofs and max(oneofs.values()) > _ONEOF_MAX:
        raise ValueError(f"the schema, at {message}: more than {_ONEOF_MAX} fields in a oneof")
    known: dict[str | int, str] = {}
    for field in fields:
        for what, label in (("name", field.name), ("number", field.number)):
            if label in known:
                raise ValueError(f"the schema, at {message}: two fields have the {what} {label}")
            known[label] = what
    for field in fields:
        if not 0 < field.number <= NUMBER_MAX:
            raise ValueError(
                f"the schema, at {message}.{field.name}: expected a number from 1 to {NUMBER_MAX}, found {field.number}"
            )
