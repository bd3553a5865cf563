"""Schemas of flights in three formats, as they are registered, and one flight."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

AVRO = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "carrier", "type": ["null", "string"], "default": None},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "legs", "type": {"type": "array", "items": "string"}},
    ],
}
WIDER = {**AVRO, "fields": [*AVRO["fields"], {"name": "gate", "type": "string", "default": "?"}]}  # type: ignore[misc]
FLIGHT = {
    "id": 1,
    "carrier": "UA",
    "fare": Decimal("12.50"),
    "on": date(2026, 3, 1),
    "at": datetime(2026, 3, 1, 12, tzinfo=UTC),
    "legs": ["JFK", "LAX"],
}
PROTO = """
syntax = "proto3"; package air;
message Refund { int64 id = 1; }
message Flight { int64 id = 1; optional string carrier = 2; repeated string legs = 3; map<string, uint64> miles = 4; }
"""
JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Flight",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "carrier": {"type": ["null", "string"]}, "legs": {"type": "array",
                   "items": {"type": "string"}}},
}  # fmt: skip
