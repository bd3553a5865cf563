"""Spark types of JSON Schemas (drafts 4 to 2020-12), for records that are JSON under a registry.

What Kafka Connect's converter writes into a schema beside its types (``connect.type``) says how wide a number is. A
value that no column is for, since it may be of several types or of any, is its JSON as a text, as ``from_json`` gives
it for a field of type STRING.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from directkafka.options.schemas.ddl import DEPTH_MAX, FieldType, SchemaField

_STRING: Final = FieldType("string")
_INTEGERS: Final = {"int8": "tinyint", "int16": "smallint", "int32": "int"}
_FORMATS: Final = {"date": "date", "date-time": "timestamp"}
_TYPES_MAX: Final = 20_000


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
    found = _Types(documents).of(documents[names[-1]], _Place(names[-1], (), ()))
    if found.name != "struct":
        raise ValueError("the schema: its records are no objects with fields that it names")
    return found


class _Place:
    """Where a schema stands.

    Attributes:
        document: the name of the text that references in it are of.
        path: of the field.
        references: that led to it.
    """

    def __init__(self, document: str, path: tuple[str, ...], references: tuple[tuple[str, str], ...]) -> None:
        self.document, self.path, self.references = document, path, references

    def below(self, name: str) -> _Place:
        return _Place(self.document, (*self.path, name), self.references)


class _Types:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._count = 0

    def of(self, schema: Any, place: _Place) -> FieldType:
        self._count += 1
        if self._count > _TYPES_MAX or len(place.path) > DEPTH_MAX:
            raise ValueError(f"the schema has more than {_TYPES_MAX} columns, or {DEPTH_MAX} of them in one another")
        schema, place = self._resolved(schema, place)
        if not isinstance(schema, dict):
            return _STRING
        match kind := _kind_of(schema):
            case "object":
                return self._object(schema, place)
            case "array":
                items = schema.get("items")
                element = self.of(items, place.below("items")) if isinstance(items, dict) else _STRING
                return FieldType("array", (SchemaField("element", element),))
            case _:
                return _scalar(kind, schema)

    def _object(self, schema: dict[str, Any], place: _Place) -> FieldType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            fields = tuple(SchemaField(name, self.of(below, place.below(name))) for name, below in properties.items())
            return FieldType("struct", fields)
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values:
            value = SchemaField("value", self.of(values, place.below("value")))
            return FieldType("map", (SchemaField("key", _STRING), value))
        return _STRING

    def _resolved(self, schema: Any, place: _Place) -> tuple[Any, _Place]:
        """The schema behind references, and behind a choice of one that is not null."""
        while isinstance(schema, dict):
            if isinstance(schema.get("$ref"), str):
                schema, place = self._referred(schema["$ref"], place)
            elif (choices := schema.get("oneOf") or schema.get("anyOf")) and isinstance(choices, list):
                others = [choice for choice in choices if choice != {"type": "null"} and choice is not None]
                if len(others) != 1:
                    return None, place
                schema = others[0]
            elif isinstance(schema.get("allOf"), list):
                schema = self._together(schema, place)
            else:
                break
        return schema, place

    def _together(self, schema: dict[str, Any], place: _Place) -> dict[str, Any]:
        """What holds all at once: the properties of all, and what else each says."""
        merged = {name: value for name, value in schema.items() if name != "allOf"}
        properties = dict(merged.get("properties") or {})
        for part in schema["allOf"]:
            found, _ = self._resolved(part, place)
            if isinstance(found, dict):
                merged = {**found, **merged}
                properties |= found.get("properties") or {}
        return merged | ({"properties": properties} if properties else {})

    def _referred(self, reference: str, place: _Place) -> tuple[Any, _Place]:
        document, _, pointer = reference.partition("#")
        document = document or place.document
        if (document, pointer) in place.references:
            raise _wrong(place.path, f"{reference} contains itself, and a column has an end")
        if document not in self._documents:
            raise _wrong(place.path, f"nothing is called {document}")
        found = self._documents[document]
        for step in filter(None, pointer.split("/")):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise _wrong(place.path, f"there is no {reference}")
        return found, _Place(document, place.path, (*place.references, (document, pointer)))


def _kind_of(schema: dict[str, Any]) -> str | None:
    """The one type that values have beside null; None if they may have several, or nothing is said."""
    kinds = schema.get("type")
    if kinds is None:
        if "properties" in schema:
            return "object"
        choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
        return "string" if choices and all(isinstance(choice, str | None) for choice in choices) else None
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
