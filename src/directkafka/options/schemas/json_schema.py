"""Spark types of JSON Schemas (drafts 4 to 2020-12), for records that are JSON under a registry.

What Kafka Connect's converter writes into a schema beside its types (``connect.type``) says how wide a number is. A
value that no column is for, since it may be of several types or of any, is its JSON as a text, as ``from_json`` gives
it for a field of type STRING.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from directkafka.options.schemas.ddl import DEPTH_MAX, FieldType, SchemaField

_STRING: Final = FieldType("string")
_INTEGERS: Final = {"int8": "tinyint", "int16": "smallint", "int32": "int"}
_FORMATS: Final = {"date": "date", "date-time": "timestamp"}
#: Schemas that are looked at, columns and references.
_STEPS_MAX: Final = 50_000
#: References that lead from one to the next.
_REFERENCES_MAX: Final = 200
_CHOICES: Final = ("oneOf", "anyOf")


def json_schema_type(texts: Sequence[str], names: Sequence[str]) -> FieldType:
    """The type of the column that records of a schema are decoded into.

    Args:
        texts: of the schemas that it refers to, and its own as the last.
        names: by which it refers to them; its own is empty.

    Raises:
        ValueError: a text is no JSON Schema, records are no objects with known fields, or a field contains itself; the
            message has the path.
    """
    documents = {}
    for name, text in zip(names, texts, strict=True):
        try:
            documents[name] = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("the schema: it is no JSON") from None
    column_type = _Types(documents).of(documents[names[-1]], _Location(names[-1], (), ()))
    if column_type.name != "struct":
        raise ValueError("the schema: its records are no objects with fields that it names")
    return column_type


class _Location:
    """Where a schema stands.

    Attributes:
        document: the name of the text that references in it are of.
        path: of the field.
        references: that led to it.
    """

    def __init__(self, document: str, path: tuple[str, ...], references: tuple[tuple[str, str], ...]) -> None:
        self.document, self.path, self.references = document, path, references

    def below(self, name: str) -> _Location:
        return _Location(self.document, (*self.path, name), self.references)


class _Placed(NamedTuple):
    """A part of a schema that stands elsewhere than the schema that it was brought into."""

    schema: Any
    location: _Location


class _Types:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._steps = 0

    def of(self, schema: Any, location: _Location) -> FieldType:
        if len(location.path) > DEPTH_MAX:
            raise _wrong(location.path[:3], f"more than {DEPTH_MAX} fields in one another")
        schema, location = self._resolved(schema, location)
        if not isinstance(schema, dict):
            return _STRING
        match kind := _kind_of(schema):
            case "object":
                return self._object(schema, location)
            case "array":
                items = schema.get("items")
                is_one = isinstance(items, dict | _Placed)
                element = self.of(items, location.below("items")) if is_one else _STRING
                return FieldType("array", (SchemaField("element", element),))
            case _:
                return _scalar(kind, schema)

    def _object(self, schema: dict[str, Any], location: _Location) -> FieldType:
        if properties := _properties(schema):
            fields = tuple(
                SchemaField(name, self.of(below, location.below(name))) for name, below in properties.items()
            )
            return FieldType("struct", fields)
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values:
            value = SchemaField("value", self.of(values, location.below("value")))
            return FieldType("map", (SchemaField("key", _STRING), value))
        return _STRING

    def _resolved(self, schema: Any, location: _Location) -> tuple[Any, _Location]:
        """The schema behind references, and behind a choice of one that is not null."""
        while True:
            self._steps += 1
            if self._steps > _STEPS_MAX:
                raise ValueError(f"the schema: it takes more than {_STEPS_MAX} steps to read it")
            if isinstance(schema, _Placed):
                # The path is that of the field; the references are those that led to the part.
                schema, location = (
                    schema.schema,
                    _Location(schema.location.document, location.path, schema.location.references),
                )
            elif not isinstance(schema, dict):
                return schema, location
            elif isinstance(schema.get("$ref"), str):
                schema, location = self._referred(schema["$ref"], location)
            elif isinstance(schema.get("allOf"), list):
                schema = self._together(schema, schema["allOf"], location)
            elif not _properties(schema) and (choices := _choices(schema)):
                if len(choices) != 1:
                    return None, location
                schema = self._together(schema, choices, location)
            else:
                return schema, location

    def _together(self, schema: dict[str, Any], parts: list[Any], location: _Location) -> dict[str, Any]:
        """What holds all at once: the properties of all, and what else each says."""
        merged = {name: value for name, value in schema.items() if name not in ("allOf", *_CHOICES)}
        properties = dict(_properties(schema))
        for part in parts:
            subschema, there = self._resolved(part, location)
            if isinstance(subschema, dict):
                for name, below in _properties(subschema).items():
                    properties.setdefault(name, _Placed(below, there))
                placed = (
                    {"items": _Placed(subschema["items"], there)} if isinstance(subschema.get("items"), dict) else {}
                )
                merged = {**subschema, **placed, **merged}
        return merged | ({"properties": properties} if properties else {})

    def _referred(self, reference: str, location: _Location) -> tuple[Any, _Location]:
        document, _, pointer = reference.partition("#")
        document = document or location.document
        if (document, pointer) in location.references or len(location.references) == _REFERENCES_MAX:
            raise _wrong(location.path, f"{reference} contains itself, or leads too far, and a column has an end")
        if document not in self._documents:
            raise _wrong(location.path, f"nothing is called {document}")
        value = self._documents[document]
        for step in filter(None, pointer.split("/")):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            elif isinstance(value, dict) and name in value:
                value = value[name]
            else:
                raise _wrong(location.path, f"there is no {reference}")
        return value, _Location(document, location.path, (*location.references, (document, pointer)))


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _choices(schema: dict[str, Any]) -> list[Any]:
    """Of what a value may be, all but null."""
    choices: list[Any] = next((schema[name] for name in _CHOICES if isinstance(schema.get(name), list)), [])
    return [choice for choice in choices if choice not in ({"type": "null"}, None)]


def _kind_of(schema: dict[str, Any]) -> str | None:
    """The one type that values have beside null; None if they may have several, or nothing is said."""
    kinds = schema.get("type")
    if kinds is None:
        if _properties(schema):
            return "object"
        choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
        are_texts = isinstance(choices, list) and all(isinstance(choice, str | None) for choice in choices)
        return "string" if choices and are_texts else None
    listed = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    return str(listed[0]) if len(listed) == 1 else None


def _scalar(kind: str | None, schema: dict[str, Any]) -> FieldType:
    width = str(schema.get("connect.type"))
    if kind == "string" and (schema.get("contentEncoding") == "base64" or width == "bytes"):
        return FieldType("binary")
    names = {
        "integer": _INTEGERS.get(width, "bigint"),
        "number": "float" if width == "float32" else "double",
        "boolean": "boolean",
        "string": _FORMATS.get(str(schema.get("format")), "string"),
    }
    return FieldType(names.get(kind or "", "string"))


def _wrong(path: tuple[str, ...], reason: str) -> ValueError:
    return ValueError(f"the schema, at {'.'.join(path)}: {reason}" if path else f"the schema: {reason}")
