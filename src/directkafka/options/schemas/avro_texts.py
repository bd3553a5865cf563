"""The JSON of Avro schemas that were read: one text, whatever other schemas they referred to."""

from __future__ import annotations

import json
from typing import Any

from directkafka.options.schemas.avro import REFERENCE, AvroField, AvroSchema, AvroType


def schema_text(schema: AvroSchema) -> str:
    """The schema as JSON, with each named type where it is named first, under its full name.

    Args:
        schema: any.
    """
    return json.dumps(_type(schema, schema.type, set()), separators=(",", ":"))


def _type(schema: AvroSchema, found: AvroType, defined: set[str]) -> Any:
    if found.kind == REFERENCE:
        return found.name if found.name in defined else _type(schema, schema.names[found.name], defined)
    if found.kind == "union":
        return [_type(schema, alternative, defined) for alternative in found.inner]
    text: dict[str, Any] = {"type": found.kind}
    if found.name:
        defined.add(found.name)
        text |= {"name": found.name, "namespace": found.name.rpartition(".")[0], "aliases": found.aliases}
    match found.kind:
        case "record":
            text["fields"] = [_field(schema, field, defined) for field in found.fields]
        case "enum":
            text |= {"symbols": found.symbols} | ({} if found.default is None else {"default": found.default})
        case "fixed":
            text["size"] = found.size
        case "array" | "map":
            text["items" if found.kind == "array" else "values"] = _type(schema, found.inner[0], defined)
    if found.logical:
        text["logicalType"] = found.logical
    if found.logical == "decimal":
        text |= {"precision": found.precision, "scale": found.scale}
    return text if len(text) > 1 else found.kind


def _field(schema: AvroSchema, found: AvroField, defined: set[str]) -> dict[str, Any]:
    text: dict[str, Any] = {"name": found.name, "type": _type(schema, found.type, defined)}
    if found.aliases:
        text["aliases"] = found.aliases
    if found.default is not None:
        text["default"] = json.loads(found.default)
    return text
