"""Compatibility of messages: whether records of one can be read as another, by the rules for changed files.

https://protobuf.dev/programming-guides/proto3/#updating says which types may take each other's place. Not allowed here
is what would give other values: numbers with a sign for numbers without one, one value for a list, a number for a
truth, and several fields for a oneof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from directkafka.options.schemas.protobuf.schema import (
    ENUM,
    GROUP,
    MESSAGE,
    ProtobufField,
    ProtobufMessage,
    ProtobufSchema,
)

_VARINTS: Final = ("int32", "int64", "uint32", "bool", ENUM)
#: By type of the reader, which types of writers it takes. That a number is too large for it is told of each record.
_TAKEN: Final = {
    **dict.fromkeys(("int32", "int64", ENUM), frozenset(_VARINTS)),
    "uint32": frozenset({"uint32", "uint64", "bool"}),
    "uint64": frozenset({"uint32", "uint64", "bool"}),
    **dict.fromkeys(("sint32", "sint64"), frozenset({"sint32", "sint64"})),
    "bytes": frozenset({"bytes", "string", MESSAGE}),
    "string": frozenset({"string", "bytes"}),
}


def check_readable(writer: ProtobufSchema, message: str, reader: ProtobufSchema) -> None:
    """See that records of a message can be read as the reader's.

    Args:
        writer: the schema that records were written with.
        message: the full name of the message in it that they are.
        reader: the schema of the columns.

    Raises:
        ValueError: they cannot; the message has the path.
    """
    if message.rpartition(".")[2] != reader.message.rpartition(".")[2]:
        raise ValueError(f"it is a {message}, and the columns are those of {reader.message}")
    seen: set[tuple[str, str]] = set()
    waiting = [(message, reader.message, "")]
    while waiting:
        theirs, ours, path = waiting.pop()
        if (theirs, ours) in seen:
            continue
        seen.add((theirs, ours))
        by_number = {field.number: field for field in writer.messages[theirs].fields}
        _check_oneofs(by_number, reader.messages[ours], path)
        for field in reader.messages[ours].fields:
            writer_field = by_number.get(field.number)
            if writer_field is None:
                continue
            below = f"{path}.{field.name}" if path else field.name
            if reason := _difference(writer_field, field):
                raise ValueError(f"{below}: {reason}")
            if field.kind in (MESSAGE, GROUP):
                waiting.append((writer_field.type_name, field.type_name, below))


def as_written(writer: ProtobufSchema, message: str, reader: ProtobufSchema) -> ProtobufSchema:
    """The reader's schema for records in which an absent field is a zero, since its writer does not tell.

    Args:
        writer, message, reader: which :func:`check_readable` has found to fit.
    """
    messages, seen, waiting = dict(reader.messages), set[str](), [(message, reader.message)]
    while waiting:
        theirs, ours = waiting.pop()
        if ours in seen:
            continue
        seen.add(ours)
        by_number = {field.number: field for field in writer.messages[theirs].fields}
        fields = []
        for field in reader.messages[ours].fields:
            writer_field = by_number.get(field.number)
            is_told = writer_field is None or writer_field.has_presence or writer_field.is_repeated or bool(field.oneof)
            fields.append(field if is_told or not field.has_presence else replace(field, has_presence=False))
            if writer_field is not None and field.kind in (MESSAGE, GROUP) and writer_field.type_name:
                waiting.append((writer_field.type_name, field.type_name))
        messages[ours] = replace(messages[ours], fields=tuple(fields))
    return replace(reader, messages=messages)


def _check_oneofs(by_number: Mapping[int, ProtobufField], reader: ProtobufMessage, path: str) -> None:
    """Of fields that a record may have at once, a oneof would keep the last one alone."""
    oneofs: dict[str, set[str]] = {}
    for field in reader.fields:
        writer_field = by_number.get(field.number)
        if field.oneof and writer_field is not None:
            oneofs.setdefault(field.oneof, set()).add(writer_field.oneof or f"field {writer_field.number}")
    for name, theirs in oneofs.items():
        if len(theirs) > 1:
            where = f"{path}.{name}" if path else name
            raise ValueError(f"{where}: it is one of several fields here, and there all of them may be set")


def _difference(writer: ProtobufField, reader: ProtobufField) -> str:
    taken = _TAKEN.get(reader.kind, frozenset({reader.kind}))
    if writer.kind not in taken:
        return f"it is {writer.kind} there, and {reader.kind} here"
    return "it is a list there, and one value here" if writer.is_repeated and not reader.is_repeated else ""
