"""Random ``.proto`` files and records of their messages, written and read by Google's own library.

Also records that are changed: cut off, with other bytes, with parts of others, or with fields that nobody knows.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from grpc_tools import protoc

SCALARS: Final = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
_KEYS: Final = tuple(kind for kind in SCALARS if kind not in ("double", "float", "bytes"))
TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPED: Final = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_BITS: Final = {"int32": 32, "sint32": 32, "sfixed32": 32, "int64": 64, "sint64": 64, "sfixed64": 64}
_UNSIGNED: Final = {"uint32": 32, "fixed32": 32, "uint64": 64, "fixed64": 64}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Writer:
    """Writes a file; a message has only messages in it that are written already, or that are in itself."""

    def __init__(self, rng: random.Random, syntax: str) -> None:
        self.rng = rng
        self.syntax = syntax
        self.known = [TIMESTAMP, *(f"google.protobuf.{name}Value" for name in _WRAPPED)]
        self.enums: list[str] = []
        self.lines: list[str] = []

    def file(self) -> str:
        syntax = "2023" if self.syntax == "edition" else self.syntax
        word = "edition" if self.syntax == "edition" else "syntax"
        self.lines += [f'{word} = "{syntax}"; // of all', "package a.b_c;"]
        if self.syntax == "edition" and self.rng.random() < 0.5:
            self.lines.append("option features.field_presence = IMPLICIT;")
        for number in range(self.rng.randint(1, 3)):
            self.message(f"M{number}", "a.b_c", 0)
        # The first message is the one that records are: the last one, which may have all others in it.
        self.message("Record", "a.b_c", 0)
        used = {"timestamp": TIMESTAMP, "wrappers": "google.protobuf.[A-Z][A-Za-z0-9]*Value"}
        body = "\n".join(self.lines)
        self.lines[2:2] = [
            f'import "google/protobuf/{name}.proto";' for name, types in used.items() if re.search(types, body)
        ]
        return "\n".join(self.lines)

    def message(self, name: str, scope: str, depth: int) -> None:
        self.lines.append(f"message {name} {{")
        full = f"{scope}.{name}"
        if self.rng.random() < 0.4:
            self.enum(f"E{self.rng.randint(0, 9)}", full)
        if depth < 2 and self.rng.random() < 0.4:
            self.message(f"N{self.rng.randint(0, 9)}", full, depth + 1)
        numbers = iter(self.rng.sample([*range(1, 20), 31, 300, 2048, 536870911], 20))
        count = self.rng.choice((0, 1, 2, 4, 8)) if name != "Record" else self.rng.randint(1, 10)
        for position in range(count):
            self.field(f"f{position}", next(numbers))
        if self.rng.random() < 0.5:
            self.lines.append("oneof one_of {")
            for position in range(self.rng.randint(1, 4)):
                self.lines.append(f"{self.kind()} o{position} = {next(numbers)};")
            self.lines.append("}")
        self.lines.append("}")
        self.known.append(full)

    def enum(self, name: str, scope: str) -> None:
        values = [0, *self.rng.sample([-(2**31), -7, 1, 2, 3, 5, 1000, 2**31 - 1], self.rng.randint(0, 5))]
        self.lines.append(f"enum {name} {{")
        self.lines += [f"{name}_{str(number).replace('-', 'M')} = {number};" for number in values]
        self.lines.append("}")
        self.enums.append(f"{scope}.{name}")

    def kind(self) -> str:
        chance = self.rng.random()
        if chance < 0.2:
            return f".{self.rng.choice(self.known)}"
        return f".{self.rng.choice(self.enums)}" if chance < 0.3 and self.enums else self.rng.choice(SCALARS)

    def field(self, name: str, number: int) -> None:
        chance, options = self.rng.random(), ""
        if chance < 0.12:
            self.lines.append(f"map<{self.rng.choice(_KEYS)}, {self.kind()}> {name} = {number};")
            return
        kind = self.kind()
        label = "repeated " if chance < 0.35 else ""
        if self.syntax == "proto2" and not label:
            label = "optional "
            if self.rng.random() < 0.15:
                self.lines.append(f"{label}group G{name} = {number} {{ optional {self.rng.choice(SCALARS)} x = 1; }}")
                return
        if self.syntax == "proto3" and not label and chance < 0.5:
            label = "optional "
        if self.syntax == "edition" and kind in SCALARS and not label:
            options = f" [features.field_presence = {self.rng.choice(('EXPLICIT', 'IMPLICIT'))}]"
        if self.syntax == "edition" and kind.startswith(".a.") and kind[1:] not in self.enums:
            options = " [features.message_encoding = DELIMITED]"
        if label == "repeated " and kind in _BITS and self.syntax != "edition":
            options = f" [packed = {self.rng.choice(('true', 'false'))}]"
        self.lines.append(f"{label}{kind} {name} = {number}{options};")


def random_file(rng: random.Random) -> str:
    """The text of a ``.proto`` file with a message ``Record``, which is not its first one."""
    return _Writer(rng, rng.choice(("proto2", "proto3", "proto3", "edition"))).file()


@cache
def _well_known() -> str:
    import grpc_tools

    return str(Path(grpc_tools.__file__).parent / "_proto")


def compiled(text: str) -> bytes:
    """The FileDescriptorSet that protoc makes of a file, with all that it imports."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "records.proto").write_text(text)
        into = Path(folder) / "set"
        arguments = ["protoc", f"-I{folder}", f"-I{_well_known()}", "--include_imports", f"--descriptor_set_out={into}"]
        assert protoc.main([*arguments, "records.proto"]) == 0, text
        return into.read_bytes()


def message_class(descriptors: bytes, name: str) -> Any:
    """The class of a message of a FileDescriptorSet."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def fill(message: Any, rng: random.Random, depth: int = 0) -> Any:
    """Give a message random values; each field is there as often as not."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < (0.4 if depth < 4 else 0.9):
            continue
        if _is_map(field):
            _fill_map(message, field, rng, depth)
        elif field.is_repeated:
            values = getattr(message, field.name)
            for _ in range(rng.choice((1, 2, 5))):
                if field.message_type is not None:
                    _fill_inner(values.add(), rng, depth)
                else:
                    values.append(_scalar(field, rng))
        elif field.message_type is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill_inner(inner, rng, depth)
        else:
            setattr(message, field.name, _scalar(field, rng))
    return message


def _fill_map(message: Any, field: FieldDescriptor, rng: random.Random, depth: int) -> None:
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    entries = getattr(message, field.name)
    for _ in range(rng.choice((1, 2, 4))):
        if value.message_type is not None:
            _fill_inner(entries[_scalar(key, rng)], rng, depth)
        else:
            entries[_scalar(key, rng)] = _scalar(value, rng)


def _fill_inner(message: Any, rng: random.Random, depth: int) -> None:
    if message.DESCRIPTOR.full_name == TIMESTAMP:
        message.seconds = rng.choice((0, 1, -1, 1_700_000_000, -62_135_596_800, 253_402_300_799))
        message.nanos = rng.choice((0, 1, 999, 1000, 123_456_789, 999_999_999))
    else:
        fill(message, rng, depth + 1)


def _scalar(field: FieldDescriptor, rng: random.Random) -> Any:
    kind = _KIND_NAMES[field.type]
    if kind in _BITS:
        bits = _BITS[kind]
        return rng.choice((0, 1, -1, 127, 128, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, rng.getrandbits(bits - 1)))
    if kind in _UNSIGNED:
        return rng.choice((0, 1, 127, 128, (1 << _UNSIGNED[kind]) - 1, rng.getrandbits(_UNSIGNED[kind])))
    if kind == "enum":
        return rng.choice(field.enum_type.values).number
    return rng.choice(_SAMPLES.get(kind, (0.0, -0.0, 1.5, -2.25, float("inf"), 1e10)))


_SAMPLES: Final[Mapping[str, tuple[Any, ...]]] = {
    "bool": (False, True),
    "string": ("", "a", "äöü", "𝄞 clef", "x" * 200),
    "bytes": (b"", b"\0", b"\xff\xfe", b"y" * 100),
}
_KIND_NAMES: Final[Mapping[int, str]] = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name for name in (*SCALARS, "enum", "message", "group")
}


def _is_map(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry


def expected(message: Any) -> Any:
    """What the decoder makes of a message, as Arrow shows it in Python."""
    descriptor: Descriptor = message.DESCRIPTOR
    if descriptor.full_name == TIMESTAMP:
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if descriptor.full_name.startswith("google.protobuf."):
        return _value(descriptor.fields_by_name["value"], message.value)
    if not descriptor.fields:
        return True
    return {field.name: _of_field(message, field) for field in descriptor.fields}


def _of_field(message: Any, field: FieldDescriptor) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    content = getattr(message, field.name)
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        key = field.message_type.fields_by_name["key"]
        return {_value(key, map_key): _value(value, content[map_key]) for map_key in content}
    return [_value(field, element) for element in content] if field.is_repeated else _value(field, content)


def _value(field: FieldDescriptor, content: Any) -> Any:
    match _KIND_NAMES[field.type]:
        case "message" | "group":
            return expected(content)
        case "enum":
            names = field.enum_type.values_by_number
            return names[content].name if content in names else str(content)
        case "uint64" | "fixed64":
            return Decimal(content)
        case _:
            return content


#: Fields of number 101 and more: a number, a group with one in it, bytes, four bytes.
_UNKNOWN: Final = (b"\xa8\x06\x01", b"\xab\x06\xb0\x06\x07\xac\x06", b"\xaa\x06\x02ab", b"\xad\x06abcd")


def mutated(record: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A record that is changed here and there."""
    changed = bytearray(record)
    for _ in range(rng.randint(1, 3)):
        match rng.randint(0, 5):
            case 0:
                del changed[rng.randint(0, len(changed)) :]
            case 1 if changed:
                changed[rng.randrange(len(changed))] = rng.getrandbits(8)
            case 2:
                at = rng.randint(0, len(changed))
                changed[at:at] = rng.randbytes(rng.randint(1, 4))
            case 3:
                changed += rng.choice(others)
            case 4 if changed:
                at = rng.randrange(len(changed))
                del changed[at : at + rng.randint(1, 4)]
            case _:
                changed = bytearray(rng.choice(_UNKNOWN)) + changed
    return bytes(changed)


#: What the decoder does not take and Google's library does: a number too large for its type, a value of another type, a
#: text in proto2 that is no UTF-8, nanoseconds that are no part of a second, a field of number 0 in a group.
STRICTER: Final = (
    "what follows is no field",
    "the number is too large",
    "it was written with another schema",
    "the text is no UTF-8",
    "a timestamp has 0 to 999999999 nanoseconds",
)


def differences(text: str, kind: Any, records: list[bytes], rows: pa.Array, problems: Mapping[int, str]) -> list[str]:
    """Where a decoder and Google's library read records differently.

    Values are not compared of files whose enums are closed (proto2), of which that library leaves unknown numbers out,
    and of files with maps, of which it leaves out entries with fields that it does not know.

    Args:
        text: the ``.proto`` file.
        kind: the class of the message.
        records: of it, whole or broken.
        rows, problems: what the decoder made of them.
    """
    has_same_values = "map<" not in text and not ("proto2" in text and "enum" in text)
    descriptions = []
    for number, record in enumerate(records):
        try:
            message = kind.FromString(record)
        except DecodeError:
            message = None
        if number in problems:
            if message is not None and not problems[number].endswith(STRICTER):
                descriptions.append(f"{record!r} is refused: {problems[number]}")
        elif message is None:
            descriptions.append(f"{record!r} is read")
        elif has_same_values and not _is_same(rows[number], message):
            descriptions.append(f"{record!r} is {rows[number]}")
    return descriptions


def _is_same(row: pa.Scalar, message: Any) -> bool:
    try:
        value, other = row.as_py(maps_as_pydicts="strict"), expected(message)
    except OverflowError:  # of a time that Python's datetime does not reach
        return True
    # As texts, for what is not a number equals nothing.
    return value == other or repr(value).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(other)
