"""Change events of Debezium, as its connectors for three databases write them."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: ``source`` as connectors write it (Debezium 3.2), without what it says about itself.
POSTGRES = {
    "version": "3.2.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1_700_000_000_123,
    "snapshot": "false", "db": "shop", "sequence": '["24023119","24023128"]', "ts_us": 1_700_000_000_123_456,
    "ts_ns": 1_700_000_000_123_456_000, "schema": "public", "table": "orders", "txId": 556, "lsn": 24_023_128,
    "xmin": None,
}  # fmt: skip
MYSQL = {
    "version": "3.2.0.Final", "connector": "mysql", "name": "shop", "ts_ms": 1_700_000_000_000, "snapshot": "false",
    "db": "shop", "sequence": None, "ts_us": 1_700_000_000_000_000, "table": "orders", "server_id": 223_344,
    "gtid": None, "file": "mysql-bin.000003", "pos": 484, "row": 0, "thread": 7, "query": None,
}  # fmt: skip
SQL_SERVER = {
    "version": "3.2.0.Final", "connector": "sqlserver", "name": "shop", "ts_ms": 1_700_000_000_000,
    "snapshot": "false", "db": "shop", "sequence": None, "schema": "dbo", "table": "orders",
    "change_lsn": "00000027:00000758:0003", "commit_lsn": "00000027:00000758:0005", "event_serial_no": 1,
}  # fmt: skip

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def event(op: str, before: Any = None, after: Any = None, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A change, without a schema."""
    change = {"before": before, "after": after, "source": POSTGRES if source is None else source, "op": op}
    return change | {"ts_ms": 1_700_000_000_900, "transaction": None}


def text(value: Any, columns: list[dict[str, Any]] | None = None) -> bytes:
    """The JSON of an event; behind its schema where columns are given."""
    return json.dumps(value if columns is None else {"schema": schema(columns), "payload": value}).encode()


def key(value: Any, columns: list[dict[str, Any]] | None = None) -> bytes:
    """The JSON of a key."""
    if columns is None:
        return json.dumps(value).encode()
    return json.dumps({"schema": {"type": "struct", "fields": columns}, "payload": value}).encode()


def schema(columns: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of an event, as Kafka Connect's JSON converter writes it."""
    rows = [{"type": "struct", "fields": columns, "optional": True, "field": name} for name in ("before", "after")]
    fields = [*rows, {"type": "struct", "fields": [], "field": "source"}, {"type": "string", "field": "op"}]
    return {"type": "struct", "fields": fields, "optional": False, "name": "shop.public.orders.Envelope"}


def column(field: str, type: str, **more: Any) -> dict[str, Any]:
    """The schema of a column."""
    return {"type": type, "optional": True, "field": field} | more


def unscaled(number: int) -> str:
    """A decimal's number as Kafka Connect writes it: its bytes, in Base64."""
    length = max(1, (number.bit_length() + 8) // 8)
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


@dataclass(frozen=True, slots=True)
class Change:
    """A record of a table of ids and names.

    Attributes:
        id: of the row, which the key has.
        event: the value; None: a tombstone.
        table: as it is behind the change.
    """

    id: int
    event: dict[str, Any] | None
    table: dict[int, str]

    @property
    def key(self) -> bytes:
        """The key, as JSON."""
        return key({"id": self.id})

    @property
    def value(self) -> bytes | None:
        """The value, as JSON."""
        return None if self.event is None else text(self.event)


def random_changes(count: int, keys: int, seed: int) -> list[Change]:
    """Changes of a table of ids and names.

    A row that is deleted has its event, a tombstone behind it, and comes back now and then. A row whose key is changed
    is deleted and created, at one place in the log.
    """
    chance, table, changes = random.Random(seed), dict[int, str](), list[Change]()

    def add(number: int, value: dict[str, Any] | None) -> None:
        changes.append(Change(number, value, dict(table)))

    for lsn in range(1, count + 1):
        source = {**POSTGRES, "lsn": lsn}
        number = chance.randrange(keys)
        old = None if number not in table else {"id": number, "name": table[number]}
        name = f"name {lsn}"
        if old is None or chance.random() < 0.5:
            table[number] = name
            add(number, event("c" if old is None else "u", None, {"id": number, "name": name}, source))
            continue
        other = chance.randrange(keys)
        is_moved = other not in table and chance.random() < 0.4
        del table[number]
        add(number, event("d", {"id": number, "name": None}, None, source))
        if is_moved:
            table[other] = name
            add(other, event("c", None, {"id": other, "name": name}, source))
        add(number, None)
    return changes
