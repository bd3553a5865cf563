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

    def value(self, found: Json) -> Any:  # noqa: PLR0911 - a type a line
        """A value of a type, as fastavro takes it."""
        rng = self.random
        if isinstance(found, list):
            chosen = rng.choice(found)
            value = self.value(chosen)
            return value if chosen == "null" else (_name_of(chosen), value)
        if isinstance(found, dict):
            return self._value_of(found)
        match found:
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

    def _value_of(self, found: dict[str, Any]) -> Any:  # noqa: PLR0911 - a type a line
        rng, logical = self.random, found.get("logicalType")
        match found["type"]:
            case "record":
                return {one["name"]: self.value(one["type"]) for one in found["fields"]}
            case "array":
                return [self.value(found["items"]) for _ in range(rng.choice((0, 1, 2, 5)))]
            case "map":
                return {f"k{number}": self.value(found["values"]) for number in range(rng.choice((0, 1, 3)))}
            case "enum":
                return rng.choice(found["symbols"])
        if logical == "decimal":
            bound = 10 ** found["precision"] - 1
            return Decimal(
                (_number(rng, -bound, bound) < 0, tuple(map(int, str(rng.randrange(bound + 1)))), -found["scale"])
            )
        if logical == "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128)))
        if logical:
            return _number(rng, 0, 86_399_999 if "time-m" in logical else 20_000) * (
                1 if found["type"] == "int" else 1000
            )
        return rng.randbytes(found["size"])


def _number(rng: random.Random, least: int, most: int) -> int:
    return rng.choice((least, most, 0, -1 if least < 0 else 1, rng.randint(least, most), min(most, rng.randrange(300))))


def _name_of(found: Json) -> str:
    return found if isinstance(found, str) else str(found.get("name") or found["type"])


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
    found = io.BytesIO(record)
    value = fastavro.schemaless_reader(found, fastavro.parse_schema(writer), fastavro.parse_schema(reader))  # type: ignore[call-overload]
    return expected(reader, value), found.tell()


def expected(found: Json, value: Any) -> Any:
    """A value of fastavro's as it stands in a column."""
    if isinstance(found, list):
        return _of_union([one for one in found if one != "null"], value)
    if isinstance(found, str):
        return _of_primitive(found, value)
    match found["type"]:
        case "record":
            return {one["name"]: expected(one["type"], value[one["name"]]) for one in found["fields"]}
        case "array":
            return [expected(found["items"], one) for one in value]
        case "map":
            return [(key, expected(found["values"], one)) for key, one in value.items()]
    return _of_logical(found, value)


def _of_primitive(kind: str, value: Any) -> Any:
    """fastavro leaves an int that is read as a float what it is."""
    if kind == "float":
        return float(np.float32(value))
    return float(value) if kind == "double" else value


def _of_logical(found: dict[str, Any], value: Any) -> Any:
    logical = found.get("logicalType", "")
    if logical.startswith("time-"):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return micros // 1000 if logical == "time-millis" else micros
    if logical == "uuid":
        return str(value)
    return value


def _of_union(alternatives: list[Json], value: Any) -> Any:
    if value is None or len(alternatives) == 1:
        return None if value is None else expected(alternatives[0], value)
    if all(one in ("int", "long") for one in alternatives) or all(one in ("float", "double") for one in alternatives):
        return float(value) if "double" in alternatives else value
    chosen = next(number for number, one in enumerate(alternatives) if _is_of(one, value))
    return {
        f"member{number}": expected(one, value) if number == chosen else None for number, one in enumerate(alternatives)
    }


def _is_of(found: Json, value: Any) -> bool:
    kind = found if isinstance(found, str) else found["type"]
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


def plain(found: Json) -> Json:
    """A schema without its logical types, whose values fastavro checks and makes others of."""
    if isinstance(found, list):
        return [plain(one) for one in found]
    if isinstance(found, dict):
        return {key: plain(one) if key != "default" else one for key, one in found.items() if key != "logicalType"}
    return found


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


def same(found: Any, wanted: Any) -> bool:
    """Whether two values are the same; NaN is itself, and of a map's equal keys fastavro keeps the last one."""
    if isinstance(found, list) and isinstance(wanted, list) and found and isinstance(found[0], tuple):
        found, wanted = dict(found), dict(wanted)
    if isinstance(found, float) and isinstance(wanted, int | float):
        return found == wanted or (math.isnan(found) and math.isnan(wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in found)
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return type(found) is type(wanted) and bool(found == wanted)


class Changes:
    """Makes readers' schemas out of writers': what a schema becomes over the years."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, found: Json) -> Json:
        """A schema that records written with this one may be read with."""
        rng = self.random
        if isinstance(found, list):
            return self._of_union(found)
        if isinstance(found, str):
            return self._of_primitive(found)
        match found["type"]:
            case "record":
                return self._of_record(found)
            case "array" | "map" as kind:
                inner = "items" if kind == "array" else "values"
                return {**found, inner: self.of(found[inner])}
            case "enum" if rng.random() < 0.5:
                kept = found["symbols"][: rng.randrange(1, len(found["symbols"]) + 1)]
                return {**found, "symbols": ["OTHER", *kept], "default": "OTHER"}
        return found

    def _of_record(self, found: dict[str, Any]) -> Json:
        rng, fields = self.random, []
        for one in found["fields"]:
            if rng.random() < 0.15:
                continue
            changed = {**one, "type": self.of(one["type"])}
            if rng.random() < 0.2:
                changed |= {"name": f"new_{one['name']}", "aliases": [one["name"]]}
            fields.append(changed)
        for number in range(rng.randrange(3)):
            fields.append({"name": f"added{number}", **rng.choice(_ADDED)})
        if not fields:
            fields.append({"name": "only", **rng.choice(_ADDED)})
        rng.shuffle(fields)
        return {**found, "fields": fields}

    def _of_union(self, found: list[Json]) -> Json:
        if len(found) == 2 and "null" in found:
            changed = self.of(next(one for one in found if one != "null"))
            return changed if isinstance(changed, list) else ["null", changed]
        return found

    def _of_primitive(self, found: str) -> Json:
        wider = {
            "int": ("long", "float", "double"),
            "long": ("float", "double"),
            "float": ("double",),
            "string": ("bytes",),
        }
        if found in wider and self.random.random() < 0.3:
            found = self.random.choice(wider[found])
        return ["null", found] if self.random.random() < 0.2 else found


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
