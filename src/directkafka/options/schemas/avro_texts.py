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


def _type(schema: AvroSchema, avro_type: AvroType, defined: set[str]) -> Any:
    if avro_type.kind == REFERENCE:
        return avro_type.name if avro_type.name in defined else _type(schema, schema.names[avro_type.name], defined)
    if avro_type.kind == "union":
        return [_type(schema, alternative, defined) for alternative in avro_type.inner]
    text: dict[str, Any] = {"type": avro_type.kind}
    if avro_type.name:
        defined.add(avro_type.name)
        text |= {"name": avro_type.name, "namespace": avro_type.name.rpartition(".")[0], "aliases": avro_type.aliases}
    match avro_type.kind:
        case "record":
            text["fields"] = [_field(schema, field, defined) for field in avro_type.fields]
        case "enum":
            text |= {"symbols": avro_type.symbols} | (
                {} if avro_type.default is None else {"default": avro_type.default}
            )
        case "fixed":
            text["size"] = avro_type.size
        case "array" | "map":
            text["items" if avro_type.kind == "array" else "values"] = _type(schema, avro_type.inner[0], defined)
    if avro_type.logical:
        text["logicalType"] = avro_type.logical
    if avro_type.logical == "decimal":
        text |= {"precision": avro_type.precision, "scale": avro_type.scale}
    return text if len(text) > 1 else avro_type.kind


def _field(schema: AvroSchema, field: AvroField, defined: set[str]) -> dict[str, Any]:
    text: dict[str, Any] = {"name": field.name, "type": _type(schema, field.type, defined)}
    if field.aliases:
        text["aliases"] = field.aliases
    if field.default is not None:
        text["default"] = json.loads(field.default)
    return text
