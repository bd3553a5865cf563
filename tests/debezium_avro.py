"""Change events in Avro, as Debezium writes them through Confluent's converter, and keys."""

from __future__ import annotations

import io
from typing import Any

import fastavro

ROW_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "int"},
    {
        "name": "price",
        "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
        "default": None,
    },
    {
        "name": "made",
        "type": ["null", {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}],
        "default": None,
    },
]
ROW = {"type": "record", "name": "Value", "namespace": "shop.public.orders", "fields": ROW_FIELDS}
SOURCE: dict[str, Any] = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.default": "false"}, "null"], "default": "false"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.public.orders",
    "fields": [{"name": "id", "type": "int"}],
    "connect.name": "shop.public.orders.Key",
}


def event_schema(*, row: Any = None, after: Any = None, source: Any = None) -> dict[str, Any]:
    """The schema of an event.

    Args:
        row: the record of a row.
        after, source: types of these fields, in place of those that they have.
    """
    own = ROW if row is None else row
    fields = [
        {"name": "before", "type": ["null", own], "default": None},
        {"name": "after", "type": ["null", "shop.public.orders.Value"] if after is None else after},
        {"name": "source", "type": SOURCE if source is None else source},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "shop.public.orders", "fields": fields}


EVENT = event_schema()


def written(schema: Any, value: Any) -> bytes:
    """A record, without anything in front."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return file.getvalue()


def event(op: str, before: Any = None, after: Any = None, lsn: int | None = 77) -> dict[str, Any]:
    """A change."""
    source = {"version": "3.2.0.Final", "ts_ms": 1_700_000_000_000, "lsn": lsn, "snapshot": "false"}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": None}
