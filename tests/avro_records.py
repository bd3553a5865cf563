"""Avro schemas and records at random, and what fastavro, another implementation, makes of them."""

from __future__ import annotations

import datetime
import io
import json
import math
import random
import struct
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np

#: A schema as JSON has it.
Json = Any
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 5},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0},
    {"type": "string", "logicalType": "uuid"},
)
_INT, _LONG = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1)
#: Alternatives of one union are of different groups: a value read by fastavro says which it is, and none resolves to
#: another one. (fastavro takes the first that a value resolves to, others the one of the same type.)
_GROUPS = (
    ("boolean",),
    ("int", "long", "float", "double"),
    ("bytes", "fixed", "string", "enum"),
    ("array",),
    ("record", "map"),
)


class Schemas:
    """Makes schemas, each with names of its own."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names = 0

    def record(self, depth: int = 0) -> Json:
        """A record of some fields."""
        fields = [{"name": f"f{number}", "type": self.type(depth + 1)} for number in range(self.random.randrange(1, 7))]
        return {"type": "record", "name": self._name(), "fields": fields}

    def type(self, depth: int) -> Json:
        """A type of any kind, not too deep."""
        rest = self.random.random()
        if rest < 0.4 or depth > 4:
            return self.random.choice(_PRIMITIVES)
        if rest < 0.55:
            return dict(self.random.choice(_LOGICAL))
        if rest < 0.7:
            return self._union(depth)
        return self._complex(self.random.choice(("enum", "fixed", "array", "map", "record", "decimal")), depth)

    def _complex(self, kind: str, depth: int) -> Json:
        match kind:
            case "enum":
                return {
                    "type": "enum",
                    "name": self._name(),
                    "symbols": [f"S{number}" for number in range(self.random.randrange(1, 5))],
                }
            case "fixed":
                return {"type": "fixed", "name": self._name(), "size": self.random.choice((1, 5, 12))}
            case "decimal":
                return {
                    "type": "fixed",
                    "name": self._name(),
                    "size": 9,
                    "logicalType": "decimal",
                    "precision": 20,
                    "scale": 2,
                }
            case "array":
                return {"type": "array", "items": self.type(depth + 1)}
            case "map":
                return {"type": "map", "values": self.type(depth + 1)}
        return self.record(depth)

    def _union(self, depth: int) -> Json:
        if self.random.random() < 0.6:
            inner = self.type(depth + 1)
            inner = "long" if isinstance(inner, list) else inner
            return self.random.choice((["null", inner], [inner, "null"]))
        if self.random.random() < 0.3:
            return self.random.choice((["int", "long"], ["null", "float", "double"], ["long", "null", "int"]))
        groups = self.random.sample(_GROUPS, self.random.randrange(1, 4))
        kinds = [self.random.choice(group) for group in groups]
        inner = [kind if kind in _PRIMITIVES else self._complex(kind, depth + 1) for kind in kinds]
        return [*inner[:1], "null", *inner[1:]] if self.random.random() < 0.7 else inner

    def _name(self) -> str:
        self._names += 1
        return f"T{self._names}"

    def value(self, schema: Json) -> Any:  # noqa: PLR0911 - a type a line
        """A value of a type, as fastavro takes it."""
        rng = self.random
        if isinstance(schema, list):
            chosen = rng.choice(schema)
            value = self.value(chosen)
            return value if chosen == "null" else (_name_of(chosen), value)
        if isinstance(schema, dict):
            return self._value_of(schema)
        match schema:
            case "null":
                return None
            case "boolean":
                return rng.random() < 0.5
            case "int":
                return _number(rng, *_INT)
            case "long":
                return _number(rng, *_LONG)
            case "float":
                return (
                    struct.unpack("<f", struct.pack("<I", rng.getrandbits(32)))[0]
                    if rng.random() < 0.5
                    else rng.randrange(9) / 4
                )
            case "double":
                return (
                    struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
                    if rng.random() < 0.5
                    else rng.random()
                )
            case "bytes":
                return rng.randbytes(rng.randrange(20))
        return "".join(rng.choice("abcXYZ \0\x7fäß€語🎈") for _ in range(rng.choice((0, 1, 3, 9, 40))))

    def _value_of(self, schema: dict[str, Any]) -> Any:  # noqa: PLR0911 - a type a line
        rng, logical = self.random, schema.get("logicalType")
        match schema["type"]:
            case "record":
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
            case "array":
                return [self.value(schema["items"]) for _ in range(rng.choice((0, 1, 2, 5)))]
            case "map":
                return {f"k{number}": self.value(schema["values"]) for number in range(rng.choice((0, 1, 3)))}
            case "enum":
                return rng.choice(schema["symbols"])
        if logical == "decimal":
            bound = 10 ** schema["precision"] - 1
            return Decimal(
                (_number(rng, -bound, bound) < 0, tuple(map(int, str(rng.randrange(bound + 1)))), -schema["scale"])
            )
        if logical == "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128)))
        if logical:
            return _number(rng, 0, 86_399_999 if "time-m" in logical else 20_000) * (
                1 if schema["type"] == "int" else 1000
            )
        return rng.randbytes(schema["size"])


def _number(rng: random.Random, least: int, most: int) -> int:
    return rng.choice((least, most, 0, -1 if least < 0 else 1, rng.randint(least, most), min(most, rng.randrange(300))))


def _name_of(schema: Json) -> str:
    return schema if isinstance(schema, str) else str(schema.get("name") or schema["type"])


def written(schema: Json, values: list[Any]) -> list[bytes]:
    """Records as fastavro writes them."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    records = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        records.append(out.getvalue())
    return records


def read(record: bytes, writer: Json, reader: Json) -> tuple[Any, int]:
    """What fastavro reads, as Arrow's ``to_pylist`` gives it, and how many bytes it took."""
    stream = io.BytesIO(record)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(writer), fastavro.parse_schema(reader))  # type: ignore[call-overload]
    return expected(reader, value), stream.tell()


def expected(schema: Json, value: Any) -> Any:
    """A value of fastavro's as it stands in a column."""
    if isinstance(schema, list):
        return _of_union([alternative for alternative in schema if alternative != "null"], value)
    if isinstance(schema, str):
        return _of_primitive(schema, value)
    match schema["type"]:
        case "record":
            return {field["name"]: expected(field["type"], value[field["name"]]) for field in schema["fields"]}
        case "array":
            return [expected(schema["items"], element) for element in value]
        case "map":
            return [(key, expected(schema["values"], element)) for key, element in value.items()]
    return _of_logical(schema, value)


def _of_primitive(kind: str, value: Any) -> Any:
    """fastavro leaves an int that is read as a float what it is."""
    if kind == "float":
        return float(np.float32(value))
    return float(value) if kind == "double" else value


def _of_logical(schema: dict[str, Any], value: Any) -> Any:
    logical = schema.get("logicalType", "")
    if logical.startswith("time-"):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return micros // 1000 if logical == "time-millis" else micros
    if logical == "uuid":
        return str(value)
    return value


def _of_union(alternatives: list[Json], value: Any) -> Any:
    if value is None or len(alternatives) == 1:
        return None if value is None else expected(alternatives[0], value)
    if all(alternative in ("int", "long") for alternative in alternatives) or all(
        alternative in ("float", "double") for alternative in alternatives
    ):
        return float(value) if "double" in alternatives else value
    chosen = next(number for number, alternative in enumerate(alternatives) if _is_of(alternative, value))
    return {
        f"member{number}": expected(alternative, value) if number == chosen else None
        for number, alternative in enumerate(alternatives)
    }


def _is_of(schema: Json, value: Any) -> bool:
    kind = schema if isinstance(schema, str) else schema["type"]
    kinds = {
        bool: ("boolean",),
        int: ("int", "long"),
        float: ("float", "double"),
        bytes: ("bytes", "fixed"),
        str: ("string", "enum"),
        list: ("array",),
        dict: ("record", "map"),
    }
    return kind in kinds[type(value)]


def plain(schema: Json) -> Json:
    """A schema without its logical types, whose values fastavro checks and makes others of."""
    if isinstance(schema, list):
        return [plain(alternative) for alternative in schema]
    if isinstance(schema, dict):
        return {
            key: plain(attribute) if key != "default" else attribute
            for key, attribute in schema.items()
            if key != "logicalType"
        }
    return schema


def mutated(rng: random.Random, record: bytes) -> bytes:
    """A record with some bytes changed, cut off or put in."""
    changed = bytearray(record)
    for _ in range(rng.randrange(1, 4)):
        match rng.randrange(3):
            case 0 if changed:
                changed[rng.randrange(len(changed))] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
            case 1:
                del changed[rng.randrange(len(changed) + 1) :]
            case _:
                changed.insert(rng.randrange(len(changed) + 1), rng.randrange(256))
    return bytes(changed)


def same(actual: Any, wanted: Any) -> bool:
    """Whether two values are the same; NaN is itself, and of a map's equal keys fastavro keeps the last one."""
    if isinstance(actual, list) and isinstance(wanted, list) and actual and isinstance(actual[0], tuple):
        actual, wanted = dict(actual), dict(wanted)
    if isinstance(actual, float) and isinstance(wanted, int | float):
        return actual == wanted or (math.isnan(actual) and math.isnan(wanted))
    if isinstance(actual, dict) and isinstance(wanted, dict):
        return actual.keys() == wanted.keys() and all(same(actual[key], wanted[key]) for key in actual)
    if isinstance(actual, list | tuple) and isinstance(wanted, list | tuple):
        return len(actual) == len(wanted) and all(map(same, actual, wanted))
    return type(actual) is type(wanted) and bool(actual == wanted)


class Changes:
    """Makes readers' schemas out of writers': what a schema becomes over the years."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, schema: Json) -> Json:
        """A schema that records written with this one may be read with."""
        rng = self.random
        if isinstance(schema, list):
            return self._of_union(schema)
        if isinstance(schema, str):
            return self._of_primitive(schema)
        match schema["type"]:
            case "record":
                return self._of_record(schema)
            case "array" | "map" as kind:
                inner = "items" if kind == "array" else "values"
                return {**schema, inner: self.of(schema[inner])}
            case "enum" if rng.random() < 0.5:
                kept = schema["symbols"][: rng.randrange(1, len(schema["symbols"]) + 1)]
                return {**schema, "symbols": ["OTHER", *kept], "default": "OTHER"}
        return schema

    def _of_record(self, schema: dict[str, Any]) -> Json:
        rng, fields = self.random, []
        for field in schema["fields"]:
            if rng.random() < 0.15:
                continue
            changed = {**field, "type": self.of(field["type"])}
            if rng.random() < 0.2:
                changed |= {"name": f"new_{field['name']}", "aliases": [field["name"]]}
            fields.append(changed)
        for number in range(rng.randrange(3)):
            fields.append({"name": f"added{number}", **rng.choice(_ADDED)})
        if not fields:
            fields.append({"name": "only", **rng.choice(_ADDED)})
        rng.shuffle(fields)
        return {**schema, "fields": fields}

    def _of_union(self, alternatives: list[Json]) -> Json:
        if len(alternatives) == 2 and "null" in alternatives:
            changed = self.of(next(alternative for alternative in alternatives if alternative != "null"))
            return changed if isinstance(changed, list) else ["null", changed]
        return alternatives

    def _of_primitive(self, kind: str) -> Json:
        wider = {
            "int": ("long", "float", "double"),
            "long": ("float", "double"),
            "float": ("double",),
            "string": ("bytes",),
        }
        if kind in wider and self.random.random() < 0.3:
            kind = self.random.choice(wider[kind])
        return ["null", kind] if self.random.random() < 0.2 else kind


_ADDED: tuple[dict[str, Any], ...] = (
    {"type": ["null", "string"], "default": None},
    {"type": "long", "default": -12345678901},
    {"type": "double", "default": 1.5},
    {"type": "string", "default": "ä text"},
    {"type": "boolean", "default": True},
    {"type": {"type": "array", "items": "int"}, "default": [1, -2, 300]},
    {"type": {"type": "map", "values": "string"}, "default": {"a": "b"}},
    {"type": {"type": "array", "items": "string"}, "default": []},
)
