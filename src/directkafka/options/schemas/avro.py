"""Avro schemas: read from JSON, checked, and held as values.

What is accepted is what the specification (Avro 1.12) says. Logical types that it does not know, or that do not suit
their type, are left out of account, as it wants.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
#: In place of a type: a named type that stands elsewhere, or around here.
REFERENCE: Final = "reference"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
#: Logical types by the types that they suit; those of decimal, duration and uuid ask for more.
_LOGICAL_TYPES: Final = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    ),
    "string": ("uuid",),
    "bytes": ("decimal",),
    "fixed": ("decimal", "duration", "uuid"),
}
_FIXED_SIZES: Final = {"duration": 12, "uuid": 16}
#: Of a schema: so many types in all, and so many in one another.
TYPES_MAX: Final = 20_000
DEPTH_MAX: Final = 50
_SIZE_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type of a schema.

    Attributes:
        kind: one of :data:`PRIMITIVES`, ``record``, ``enum``, ``fixed``, ``array``, ``map``, ``union``, or
            :data:`REFERENCE`.
        name: the full name of a record, an enum, a fixed, or of what is referred to.
        aliases: full names that a named type had before.
        logical: the logical type, if it is one that suits the type.
        fields: of a record.
        inner: of an array its elements' type, of a map its values', of a union its alternatives.
        symbols: of an enum.
        default: of an enum, the symbol that stands for those that it does not have.
        size: of a fixed, in bytes.
        precision, scale: of a decimal.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    fields: tuple[AvroField, ...] = ()
    inner: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """How messages name it."""
        if self.kind == "union":
            return f"union of {', '.join(map(str, self.inner))}"
        name = f"{self.kind} {self.name}" if self.name else self.kind
        if self.logical == "decimal":
            return f"{name} (decimal({self.precision},{self.scale}))"
        return f"{name} ({self.logical})" if self.logical else name


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record.

    Attributes:
        name: of the field.
        type: of its values.
        aliases: names that it had before.
        default: the default as JSON text; None where there is none.
    """

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema.

    Attributes:
        type: what a record's bytes are.
        names: the named types in it, by full name.
    """

    type: AvroType
    names: Mapping[str, AvroType] = field(default_factory=dict)

    def definition(self, avro_type: AvroType) -> AvroType:
        """The type itself, or what a reference stands for."""
        return self.names[avro_type.name] if avro_type.kind == REFERENCE else avro_type


def parse_schema(text: str, references: Mapping[str, AvroType] | None = None) -> AvroSchema:
    """Read a schema.

    Args:
        text: JSON, or the bare name of a primitive type.
        references: named types of other schemas that this one may refer to.

    Raises:
        ValueError: it is none; the message says where, and why.
    """
    try:
        parsed = text if text.strip() in PRIMITIVES else json.loads(text)
    except RecursionError:
        raise ValueError("the schema has too many types in one another") from None
    except ValueError as error:
        raise ValueError(f"the schema is no JSON: {error}") from None
    parser = _Parser(dict(references or {}))
    avro_type = parser.type(parsed.strip() if isinstance(parsed, str) else parsed, "", ())
    return AvroSchema(avro_type, parser.names)


class _Parser:
    def __init__(self, names: dict[str, AvroType]) -> None:
        self.names = names
        self._open: set[str] = set()
        self._count = 0

    def type(self, schema: Any, namespace: str, path: tuple[str, ...]) -> AvroType:
        self._count += 1
        if self._count > TYPES_MAX:
            raise ValueError(f"the schema has more than {TYPES_MAX} types")
        if len(path) > DEPTH_MAX:
            raise _wrong(path[:3], f"more than {DEPTH_MAX} types stand in one another below it")
        if isinstance(schema, str):
            return self._named(schema, namespace, path)
        if isinstance(schema, list):
            return self._union(schema, namespace, path)
        if not isinstance(schema, dict):
            raise _wrong(path, f"expected a type, found {_shown(schema)}")
        kind = schema.get("type")
        match kind:
            case "record" | "error" | "enum" | "fixed":
                return self._definition(schema, "record" if kind == "error" else kind, namespace, path)
            case "array" | "map":
                item = "items" if kind == "array" else "values"
                return AvroType(kind, inner=(self.type(_of(schema, item, path), namespace, (*path, item)),))
            case str() if kind in PRIMITIVES:
                return _logical(AvroType(kind), schema)
        # A type in braces of its own, as some writers have it.
        return self.type(_of(schema, "type", path), namespace, (*path, "type"))

    def _named(self, name: str, namespace: str, path: tuple[str, ...]) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full, name):
            if candidate in self.names or candidate in self._open:
                return AvroType(REFERENCE, name=candidate)
        raise _wrong(path, f"there is no type {_shown(name)}")

    def _union(self, alternatives: list[Any], namespace: str, path: tuple[str, ...]) -> AvroType:
        inner = tuple(
            self.type(alternative, namespace, (*path, str(number))) for number, alternative in enumerate(alternatives)
        )
        names = [alternative.name or alternative.kind for alternative in inner]
        if not inner or "union" in names or len(set(names)) < len(names):
            raise _wrong(path, f"a union has alternatives of different types, and no unions: found {', '.join(names)}")
        return AvroType("union", inner=inner)

    def _definition(self, schema: dict[str, Any], kind: str, namespace: str, path: tuple[str, ...]) -> AvroType:
        name, namespace = _full_name(schema, namespace, path)
        if name in self._open or name in self.names:
            raise _wrong(path, f"the type {name} is defined twice")
        aliases = tuple(
            alias if "." in alias or not namespace else f"{namespace}.{alias}"
            for alias in _texts(schema, "aliases", path)
        )
        self._open.add(name)
        match kind:
            case "record":
                made = AvroType(kind, name, aliases, fields=self._fields(schema, namespace, path))
            case "enum":
                made = AvroType(kind, name, aliases, symbols=_symbols(schema, path), default=schema.get("default"))
                if made.default is not None and made.default not in made.symbols:
                    raise _wrong(path, f"the default {_shown(made.default)} is none of the symbols")
            case _:
                size = schema.get("size")
                if not _is_number(size, 0, _SIZE_MAX):
                    raise _wrong(path, f"expected a size in bytes, found {_shown(size)}")
                made = _logical(AvroType(kind, name, aliases, size=size), schema)
        self._open.discard(name)
        self.names[name] = made
        return made

    def _fields(self, schema: dict[str, Any], namespace: str, path: tuple[str, ...]) -> tuple[AvroField, ...]:
        listed = _of(schema, "fields", path)
        if not isinstance(listed, list):
            raise _wrong(path, f"expected a list of fields, found {_shown(listed)}")
        fields = [self._field(field, namespace, path) for field in listed]
        names = [field.name for field in fields]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise _wrong(path, f"two fields have the name {twice}")
        return tuple(fields)

    def _field(self, declared_field: Any, namespace: str, path: tuple[str, ...]) -> AvroField:
        name = declared_field.get("name") if isinstance(declared_field, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _wrong(
                path, f"expected a field with a name of letters, digits and underscores, found {_shown(declared_field)}"
            )
        below = (*path, name)
        default = json.dumps(declared_field["default"]) if "default" in declared_field else None
        return AvroField(
            name,
            self.type(_of(declared_field, "type", below), namespace, below),
            _texts(declared_field, "aliases", below),
            default,
        )


def _logical(avro_type: AvroType, given: dict[str, Any]) -> AvroType:
    logical = given.get("logicalType")
    if logical not in _LOGICAL_TYPES.get(avro_type.kind, ()):
        return avro_type
    precision, scale = given.get("precision"), given.get("scale", 0)
    if logical != "decimal":
        suits = avro_type.kind != "fixed" or avro_type.size == _FIXED_SIZES[logical]
        return (
            AvroType(avro_type.kind, avro_type.name, avro_type.aliases, logical, size=avro_type.size)
            if suits
            else avro_type
        )
    # More digits than its bytes hold make the logical type invalid; so they have no effect (Avro 1.12, "Decimal").
    digits_max = _digits_of(avro_type.size) if avro_type.kind == "fixed" else 1 << 20
    if not _is_number(precision, 1, digits_max) or not _is_number(scale, 0, precision):
        return avro_type
    return AvroType(
        avro_type.kind,
        avro_type.name,
        avro_type.aliases,
        logical,
        size=avro_type.size,
        precision=precision,
        scale=scale,
    )


def _digits_of(size: int) -> int:
    """How many decimal digits all numbers of so many bytes have room for."""
    return int((8 * size - 1) * math.log10(2)) if size else 0


def _full_name(schema: dict[str, Any], namespace: str, path: tuple[str, ...]) -> tuple[str, str]:
    """The full name of a type that is defined here, and the namespace of what is in it."""
    name, own = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
        raise _wrong(path, f"expected a name of letters, digits and underscores, found {_shown(name)}")
    if name in PRIMITIVES:
        raise _wrong(path, f"no type may have the name {name}")
    if own and (not isinstance(own, str) or not _FULL_NAME.fullmatch(own)):
        raise _wrong(path, f"expected a namespace of names with dots between them, found {_shown(own)}")
    if "." in name:
        return name, name.rpartition(".")[0]
    return (f"{own}.{name}", own) if own else (name, "")


def _symbols(schema: dict[str, Any], path: tuple[str, ...]) -> tuple[str, ...]:
    symbols = _texts(schema, "symbols", path)
    if not symbols or len(set(symbols)) < len(symbols) or not all(map(_NAME.fullmatch, symbols)):
        raise _wrong(path, "an enum has symbols of letters, digits and underscores, each once")
    return symbols


def _texts(attributes: dict[str, Any], name: str, path: tuple[str, ...]) -> tuple[str, ...]:
    texts = attributes.get(name) or ()
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise _wrong(path, f"expected a list of names as {name}, found {_shown(texts)}")
    return tuple(texts)


def _of(attributes: dict[str, Any], name: str, path: tuple[str, ...]) -> Any:
    if name not in attributes:
        raise _wrong(path, f"{name} is missing in {_shown(attributes)}")
    return attributes[name]


def _is_number(value: Any, least: int, most: int) -> TypeGuard[int]:
    return type(value) is int and least <= value <= most


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _wrong(path: tuple[str, ...], reason: str) -> ValueError:
    return ValueError(f"the schema, at {'.'.join(path)}: {reason}" if path else f"the schema: {reason}")
