"""Schemas of Protocol Buffers: messages and enums, with the names in them resolved.

:mod:`.files` makes them of files. What decides how bytes are read is kept, and nothing else: proto2, proto3 and
editions differ in whether a field tells that it is absent (https://protobuf.dev/programming-guides/field_presence/).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

#: The types of numbers, texts and bytes.
SCALARS: Final = frozenset(
    {
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
        "sfixed64", "bool", "string", "bytes",
    }
)  # fmt: skip
MESSAGE: Final = "message"
#: A message between two tags, and not behind its length.
GROUP: Final = "group"
ENUM: Final = "enum"
NUMBER_MAX: Final = (1 << 29) - 1
#: Of a name with those of what is around it.
NAME_CHARACTERS_MAX: Final = 1_000
_WELL_KNOWN: Final = "google.protobuf."
#: Messages that Confluent's serializers know, and leave out of a schema's references (``ProtobufSchema.java``).
NOT_REFERRED_TO: Final = frozenset(
    {"confluent.type.Decimal", "google.type.Date", "google.type.TimeOfDay", "google.type.Money"}
)


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """A field of a message.

    Attributes:
        name: its name.
        number: which records have in its place.
        kind: a scalar type, ``message``, ``group`` or ``enum``.
        type_name: of a message or an enum, its full name; in a declaration as it is written there.
        is_repeated: whether it is a list, or a map.
        has_presence: whether a record tells that it is absent; else an absent one is zero or empty.
        oneof: the name of the oneof that it is in; empty if in none.
        is_required: whether a message without it is none.
    """

    name: str
    number: int
    kind: str
    type_name: str = ""
    is_repeated: bool = False
    has_presence: bool = False
    oneof: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class ProtobufMessage:
    """A message: its full name, its fields, and the full names of the messages in it, as they are written.

    Attributes:
        is_map_entry: whether it is key and value of a map, and stands in no file.
    """

    name: str
    fields: tuple[ProtobufField, ...] = ()
    nested: tuple[str, ...] = ()
    is_map_entry: bool = False


@dataclass(frozen=True, slots=True)
class ProtobufEnum:
    """An enum: its full name, and its numbers with their names, in the file's order; a number may have several."""

    name: str
    values: tuple[tuple[int, str], ...] = ()

    def name_by_number(self) -> dict[int, str]:
        """Of several names the first."""
        return dict(reversed(self.values))


@dataclass(frozen=True, slots=True)
class Features:
    """What syntax, file and field say of how a field is written.

    Attributes:
        has_presence: whether a record tells that a field of it is absent.
        is_delimited: whether messages stand between two tags.
        is_required: whether a message without the field is none.
    """

    has_presence: bool
    is_delimited: bool = False
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Declarations:
    """What a file declares, with names of types as they are written in it.

    Attributes:
        package: of the file; empty if it has none.
        messages, enums: of the file and of its messages, by full name, as they are written.
        imports: the names of other files.
    """

    package: str = ""
    messages: tuple[ProtobufMessage, ...] = ()
    enums: tuple[ProtobufEnum, ...] = ()
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """The message that records are, and all that it needs.

    Attributes:
        message: its full name.
        messages, enums: by full name.
        outer: the full names of the messages that stand in no other message, of the schema's own file.
    """

    message: str
    messages: Mapping[str, ProtobufMessage]
    enums: Mapping[str, ProtobufEnum]
    outer: tuple[str, ...] = ()

    @property
    def root(self) -> ProtobufMessage:
        """The message that records are."""
        return self.messages[self.message]

    def of_message(self, name: str) -> ProtobufSchema:
        """The same files with another message; its full name, or what is behind the last dots of just one.

        Raises:
            ValueError: there is none, or several are called so.
        """
        own = [known for known in self.messages if not known.startswith(_WELL_KNOWN) and known not in NOT_REFERRED_TO]
        matching_names = [known for known in own if known == name or known.endswith(f".{name}")]
        chosen = [name] if name in self.messages else matching_names
        if len(chosen) != 1:
            what = "several are" if chosen else "no message is"
            known = ", ".join(sorted(known for known in own if not self.messages[known].is_map_entry))
            raise ValueError(f"the schema: {what} called {name}; it has {_cut(known)}")
        return replace(self, message=chosen[0])

    def at(self, indexes: Sequence[int], *, counts_entries: bool) -> str | None:
        """The full name of the message that a record names by its place in the file; None if there is none there.

        Args:
            indexes: of a message among those of the file, of one among those in it, and so on.
            counts_entries: whether the entries of maps are counted, as in descriptors.
        """
        names, name = self.outer, None
        for index in indexes:
            counted = [known for known in names if counts_entries or not self.messages[known].is_map_entry]
            if not 0 <= index < len(counted):
                return None
            name = counted[index]
            names = self.messages[name].nested
        return name

    def indexes(self) -> tuple[int, ...]:
        """The place of the message in the file; the reverse of :meth:`at`, without the entries of maps.

        Raises:
            ValueError: it is of another file.
        """
        indexes: list[int] = []
        names, name = self.outer, ""
        while name != self.message:
            counted = [known for known in names if not self.messages[known].is_map_entry]
            name = next((known for known in counted if f"{self.message}.".startswith(f"{known}.")), "")
            if not name:
                raise ValueError(f"records can name messages of the schema's own file, and {self.message} is none")
            indexes.append(counted.index(name))
            names = self.messages[name].nested
        return tuple(indexes)

    def text(self) -> str:
        """The schema as one text, which :func:`schema_of_text` reads: the message, and what it needs."""
        needed = list(_needed(self))
        document = {
            "message": self.message,
            "messages": [_written(self.messages[name]) for name in needed if name in self.messages],
            "enums": [_written(self.enums[name]) for name in needed if name in self.enums],
        }
        return json.dumps(document, separators=(",", ":"))


def schema_of_text(text: str) -> ProtobufSchema:
    """A schema from its own text; see :meth:`ProtobufSchema.text`."""
    document = json.loads(text)
    messages = [
        ProtobufMessage(
            message["name"],
            tuple(ProtobufField(**field) for field in message.get("fields", ())),
            tuple(message.get("nested", ())),
            is_map_entry=message.get("is_map_entry", False),
        )
        for message in document["messages"]
    ]
    enums = [ProtobufEnum(enum["name"], tuple(map(tuple, enum["values"]))) for enum in document["enums"]]
    return ProtobufSchema(
        document["message"], {message.name: message for message in messages}, {enum.name: enum for enum in enums}
    )


def _needed(schema: ProtobufSchema) -> Iterator[str]:
    """The names of all that a message's fields need, it and theirs."""
    seen, waiting = {schema.message}, [schema.message]
    while waiting:
        name = waiting.pop()
        yield name
        if name in schema.enums:
            continue
        for field in schema.messages[name].fields:
            if field.type_name and field.type_name not in seen:
                seen.add(field.type_name)
                waiting.append(field.type_name)


def _written(definition: ProtobufMessage | ProtobufEnum) -> dict[str, Any]:
    """Without what is as it is by default."""
    document = {name: value for name, value in asdict(definition).items() if value or name == "values"}
    if "fields" in document:
        document["fields"] = [{name: value for name, value in field.items() if value} for field in document["fields"]]
    document.pop("nested", None)
    return document


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}..."
