"""The table of numbers by which the kernel reads a message, made once for a schema.

It has blocks for messages, fields, what a row has before its first field is read, the names of enums' numbers, and the
members of oneofs. A block says where others are by their position in the table. Each place in the columns has blocks of
its own, also where two are of one message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from directkafka.options.schemas.protobuf.schema import ENUM, GROUP, MESSAGE, ProtobufField, ProtobufSchema
from directkafka.options.schemas.protobuf.well_known import TIMESTAMP, WRAPPERS

# A message: where its fields are, by their numbers, and how many; where what a row has at first is, and how much; in
# how many columns that is.
FIELDS: Final = 0
FIELD_COUNT: Final = 1
STARTS: Final = 2
START_COUNT: Final = 3
START_COLUMNS: Final = 4
MESSAGE_SIZE: Final = 5

# A field: its number, what is done, the column, and the list or map that the column is below, or -1.
NUMBER: Final = 0
OPERATION: Final = 1
NODE: Final = 2
LIST: Final = 3
#: Of a message where its block is; of an enum where its names are.
FIRST: Final = 4
#: Of an enum how many names there are.
SECOND: Final = 5
#: Where the columns of all members of its oneof are, and how many.
OTHERS: Final = 6
OTHER_COUNT: Final = 7
FIELD_SIZE: Final = 8

# What a row has at first: what is done, the column, and of a text its place among the constants and its length.
START_SIZE: Final = 4
#: A null; the row itself, where it is a struct; true; an empty list; a zero; an empty text, or one of the constants.
START_NULL: Final = 0
START_STRUCT: Final = 1
START_TRUE: Final = 2
START_LIST: Final = 3
START_ZERO: Final = 4
START_TEXT: Final = 5

#: A name of an enum: its number, its place among the constants, its length.
NAME_SIZE: Final = 3

# Operations. Numbers of variable length:
INT32: Final = 1
INT64: Final = 2
UINT32: Final = 3
UINT64: Final = 4
SINT32: Final = 5
SINT64: Final = 6
BOOL: Final = 7
ENUM_NAME: Final = 8
#: A timestamp's.
SECONDS: Final = 9
NANOS: Final = 10
# Of four bytes:
FIXED32: Final = 11
SFIXED32: Final = 12
FLOAT: Final = 13
# Of eight:
FIXED64: Final = 14
SFIXED64: Final = 15
DOUBLE: Final = 16
# Behind their length:
STRING: Final = 17
BYTES: Final = 18
INNER: Final = 19
#: Between two tags.
INNER_GROUP: Final = 20

_OPERATIONS: Final = {
    "int32": INT32,
    "int64": INT64,
    "uint32": UINT32,
    "uint64": UINT64,
    "sint32": SINT32,
    "sint64": SINT64,
    "bool": BOOL,
    ENUM: ENUM_NAME,
    "fixed32": FIXED32,
    "sfixed32": SFIXED32,
    "float": FLOAT,
    "fixed64": FIXED64,
    "sfixed64": SFIXED64,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    MESSAGE: INNER,
    GROUP: INNER_GROUP,
}
_TEXTS: Final = ("string", "bytes", ENUM)


class Program:
    """The table for the columns of one schema.

    Args:
        behind: of each node of the columns, the first that is not below it.

    Attributes:
        table: int64, as the kernel takes it.
        constants: the bytes that the table refers to.
        paths: the field that a position in the table is of.
    """

    _schema: ProtobufSchema

    def __init__(self, behind: Sequence[int]) -> None:
        self._behind = behind
        self._numbers: list[int] = []
        self._constants = bytearray()
        self._names: dict[str, tuple[int, int]] = {}
        #: Of the columns of messages, with those in them that are not below a list.
        self._column_counts: dict[int, int] = {}
        self.paths: dict[int, str] = {}
        self.table: Any = np.zeros(0, np.int64)
        self.constants: Any = np.zeros(1, np.uint8)

    def add(self, schema: ProtobufSchema) -> int:
        """Add the blocks of a schema's message; where that of the message is.

        Args:
            schema: of the columns; whether a field tells that it is absent may differ.
        """
        self._schema = schema
        root, _ = self._message(schema.message, 0, "")
        self.table = np.array(self._numbers, np.int64)
        self.constants = np.frombuffer(bytes(self._constants) or b"\0", np.uint8)
        return root

    def _message(self, name: str, node: int, path: str) -> tuple[int, list[list[int]]]:
        """The block of a message in its column, and what a row of it has at first."""
        if name == TIMESTAMP:
            fields = [self._field_line(number, kind, node) for number, kind in ((1, SECONDS), (2, NANOS))]
            return self._block(fields, [path, path], [[START_ZERO, node, 0, 0]])
        if name in WRAPPERS:
            kind = WRAPPERS[name]
            start = self._start(ProtobufField("value", 1, kind), node)
            return self._block([self._field_line(1, _OPERATIONS[kind], node)], [path], [start])
        message = self._schema.messages[name]
        if not message.fields:
            return self._block([], [], [[START_TRUE, node, 0, 0]])
        fields, paths, starts, child = [], [], [[START_STRUCT, node, 0, 0]], node + 1
        children: dict[str, list[int]] = {}
        for field in message.fields:
            below = f"{path}.{field.name}" if path else field.name
            fields.append(self._field(field, child, below))
            paths.append(below)
            starts.append([START_LIST, child, 0, 0] if field.is_repeated else self._start(field, child))
            if field.oneof:
                children.setdefault(field.oneof, []).append(child)
            child = self._behind[child]
        places = {oneof: self._placed(members) for oneof, members in children.items()}
        for field, line in zip(message.fields, fields, strict=True):
            line[OTHERS], line[OTHER_COUNT] = places.get(field.oneof, 0), len(children.get(field.oneof, ()))
        self._column_counts[node] = sum(map(self._column_count, starts))
        return self._block(fields, paths, starts)

    def _field(self, field: ProtobufField, node: int, path: str) -> list[int]:
        """A field's line; ``node`` is its column, which may be a list or a map."""
        if not field.is_repeated:
            return self._value(field, node, -1, path)
        entry = self._schema.messages.get(field.type_name)
        if entry is None or not entry.is_map_entry:
            return self._value(field, node + 1, node, path)
        columns = (node + 1, self._behind[node + 1])
        fields, starts = [], []
        for part, column in zip(entry.fields, columns, strict=True):
            line = self._value(part, column, -1, f"{path}.{part.name}")
            # Without it the value is not null: it is a message in which nothing is told.
            first = self._starts_at(line[FIRST]) if part.kind in (MESSAGE, GROUP) else [self._start(part, column)]
            fields.append(line)
            starts += first
        block, _ = self._block(fields, [f"{path}.{part.name}" for part in entry.fields], starts)
        line = self._field_line(field.number, INNER, node + 1, list_node=node)
        line[FIRST] = block
        return line

    def _value(self, field: ProtobufField, node: int, list_node: int, path: str) -> list[int]:
        line = self._field_line(field.number, _OPERATIONS[field.kind], node, list_node=list_node)
        if field.kind in (MESSAGE, GROUP):
            line[FIRST], _ = self._message(field.type_name, node, path)
        elif field.kind == ENUM:
            line[FIRST], line[SECOND] = self._enum(field.type_name)
        return line

    def _enum(self, name: str) -> tuple[int, int]:
        """Where an enum's names are, sorted by their numbers, and how many."""
        if name not in self._names:
            values = sorted(self._schema.enums[name].name_by_number().items())
            self._names[name] = (
                self._placed([each for number, text in values for each in (number, *self._constant(text))]),
                len(values),
            )
        return self._names[name]

    def _start(self, field: ProtobufField, node: int) -> list[int]:
        if field.has_presence or field.kind in (MESSAGE, GROUP):
            return [START_NULL, node, 0, 0]
        if field.kind == ENUM:
            names = self._schema.enums[field.type_name].name_by_number()
            return [START_TEXT, node, *self._constant(names.get(0, "0"))]
        return [START_TEXT if field.kind in _TEXTS else START_ZERO, node, 0, 0]

    def _block(self, fields: list[list[int]], paths: list[str], starts: list[list[int]]) -> tuple[int, list[list[int]]]:
        order = sorted(range(len(fields)), key=lambda number: fields[number][NUMBER])
        first = self._placed([each for number in order for each in fields[number]])
        for index, number in enumerate(order):
            self.paths[first + index * FIELD_SIZE] = paths[number]
        block = self._placed(
            [
                first, len(fields), self._placed([each for start in starts for each in start]), len(starts),
                sum(map(self._column_count, starts)),
            ]
        )  # fmt: skip
        return block, starts

    def _column_count(self, start: Sequence[int]) -> int:
        """In how many columns a start puts a value: a null of a message has one in each that is not below a list."""
        return self._column_counts.get(start[1], 1) if start[0] == START_NULL else 1

    def _starts_at(self, block: int) -> list[list[int]]:
        """What a row of a message has at first."""
        first, count = self._numbers[block + STARTS], self._numbers[block + START_COUNT]
        return [self._numbers[first + START_SIZE * line :][:START_SIZE] for line in range(count)]

    @staticmethod
    def _field_line(number: int, operation: int, node: int, *, list_node: int = -1) -> list[int]:
        return [number, operation, node, list_node, 0, 0, 0, 0]

    def _placed(self, numbers: Sequence[int]) -> int:
        self._numbers += numbers
        return len(self._numbers) - len(numbers)

    def _constant(self, text: str) -> tuple[int, int]:
        raw = text.encode()
        self._constants += raw
        return len(self._constants) - len(raw), len(raw)
