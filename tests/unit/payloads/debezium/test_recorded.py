"""Events that a real connector has written: Debezium 3.2 for Postgres, with schemas in front and without.

One row is read by the snapshot, changed, given another key and deleted; then one is made, the table is truncated, and
one more is made. ``tests/debezium_worker.py`` runs the connector; the slow tests and a soak have it at work.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import directkafka as dk

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[3] / "recorded" / "debezium.json").read_text())
DDL = (
    "id INT, price DECIMAL(10,2), free DOUBLE, note STRING, doc STRING, tags ARRAY<STRING>, "
    "prices ARRAY<DECIMAL(8,2)>, at TIMESTAMP, "
    "local TIMESTAMP_NTZ, day DATE, flag BOOLEAN, raw BINARY, u STRING, r FLOAT"
)
#: What plain JSON says by itself at the connector's defaults: neither decimals nor times, but the one with a zone.
PLAIN = "id INT, note STRING, doc STRING, tags ARRAY<STRING>, at TIMESTAMP, flag BOOLEAN, raw BINARY, u STRING, r FLOAT"
MOMENT = datetime(2024, 1, 2, 3, 4, 5, 123456)
ROW = {
    "id": 1, "price": Decimal("1.50"), "free": 3.14159, "note": "é", "doc": '{"a": 1}', "tags": ["x", None],
    "prices": [Decimal("1.50"), Decimal("2.25")], "at": MOMENT.replace(tzinfo=UTC), "local": MOMENT,
    "day": date(1969, 12, 31), "flag": True, "raw": b"\0\xff", "u": "00000000-0000-0000-0000-000000000001", "r": 0.5,
}  # fmt: skip


def changes(which: str, ddl: str) -> list[dict[str, Any]]:
    keys, values = zip(*RECORDED[which], strict=True)
    records = pa.RecordBatch.from_pydict(
        {
            name: pa.array([None if text is None else text.encode() for text in texts], pa.binary())
            for name, texts in (("key", keys), ("value", values))
        }
    )
    rows: list[dict[str, Any]] = dk.decode(records, format="debezium-json", schema=ddl).to_pylist()
    return rows


@pytest.mark.parametrize(("which", "ddl"), [("with schemas", DDL), ("without schemas", PLAIN)])
def test_each_event_is_the_row_that_it_was(which: str, ddl: str) -> None:
    found = changes(which, ddl)
    row = {name: value for name, value in ROW.items() if f"{name} " in f"{ddl} "}
    row = {name: row[name] for name in found[0]["value"]}
    nothing = dict.fromkeys(row)
    changed = row | ({"price": Decimal("-2.00")} if "price" in row else {})
    assert [change["value"] for change in found] == [
        row, changed, nothing | {"id": 1}, nothing | {"id": 1}, changed | {"id": 2}, nothing | {"id": 2},
        nothing | {"id": 2}, nothing | {"id": 3}, None, nothing | {"id": 4},
    ]  # fmt: skip
    assert [change["op"] for change in found] == ["r", "u", "d", None, "c", "d", None, "c", "t", "c"]
    assert [change["deleted"] for change in found] == [
        False, False, True, True, False, True, True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("which", ["with schemas", "without schemas"])
def test_positions_and_times_of_one_session_grow(which: str) -> None:
    found = [change for change in changes(which, "id INT") if change["op"] is not None]
    positions, times = ([change[name] for change in found] for name in ("position", "source_ts"))
    assert positions == sorted(positions)
    assert times == sorted(times)
    assert len(set(positions)) == len(positions) - 1, "a row whose key is changed is deleted and made at one place"
