"""Events that real connectors have written: Debezium 3.2 for Postgres and for MariaDB, with schemas and without.

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
from tests.debezium_events import schema

import directkafka as dk

FOLDER = Path(__file__).parents[3] / "recorded"
RECORDED: dict[str, Any] = json.loads((FOLDER / "debezium.json").read_text())
MARIADB: dict[str, Any] = json.loads((FOLDER / "debezium-mariadb.json").read_text())
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


def changes(which: str, ddl: str, recorded: dict[str, Any] = RECORDED) -> list[dict[str, Any]]:
    keys, values = zip(*recorded[which], strict=True)
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
    decoded_changes = changes(which, ddl)
    row = {name: value for name, value in ROW.items() if f"{name} " in f"{ddl} "}
    row = {name: row[name] for name in decoded_changes[0]["value"]}
    nothing = dict.fromkeys(row)
    changed = row | ({"price": Decimal("-2.00")} if "price" in row else {})
    assert [change["value"] for change in decoded_changes] == [
        row, changed, nothing | {"id": 1}, nothing | {"id": 1}, changed | {"id": 2}, nothing | {"id": 2},
        nothing | {"id": 2}, nothing | {"id": 3}, None, nothing | {"id": 4},
    ]  # fmt: skip
    assert [change["op"] for change in decoded_changes] == ["r", "u", "d", None, "c", "d", None, "c", "t", "c"]
    assert [change["deleted"] for change in decoded_changes] == [
        False, False, True, True, False, True, True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("which", ["with schemas", "without schemas"])
def test_positions_and_times_of_one_session_grow(which: str) -> None:
    decoded_changes = [change for change in changes(which, "id INT") if change["op"] is not None]
    positions, times = ([change[name] for change in decoded_changes] for name in ("position", "source_ts"))
    assert positions == sorted(positions)
    assert times == sorted(times)
    assert len(set(positions)) == len(positions) - 1, "a row whose key is changed is deleted and made at one place"


#: Of MariaDB. A BOOLEAN there is a TINYINT.
ORDER_DDL = (
    "id INT, price DECIMAL(10,2), note STRING, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, flag SMALLINT, raw BINARY, "
    "r FLOAT, big BIGINT"
)
ORDER_PLAIN = "id INT, note STRING, at TIMESTAMP, flag SMALLINT, raw BINARY, r FLOAT, big BIGINT"
#: ``bigint.unsigned.handling.mode`` is ``long`` by default, which the largest number does not fit into.
ORDER = {name: ROW[name] for name in ("id", "price", "note", "at", "local", "day", "raw", "r")} | {"flag": 1, "big": -1}


@pytest.mark.parametrize(("which", "ddl"), [("with schemas", ORDER_DDL), ("without schemas", ORDER_PLAIN)])
def test_each_event_of_mariadb_is_the_row_that_it_was(which: str, ddl: str) -> None:
    decoded_changes = changes(which, ddl, MARIADB)
    row = {name: ORDER[name] for name in decoded_changes[0]["value"]}
    nothing = dict.fromkeys(row)
    changed = row | ({"price": Decimal("-2.00")} if "price" in row else {})
    assert [change["value"] for change in decoded_changes] == [
        row, changed, changed, nothing | {"id": 1}, changed | {"id": 2}, changed | {"id": 2}, nothing | {"id": 2},
        nothing | {"id": 3}, None, nothing | {"id": 4},
    ]  # fmt: skip
    assert [change["op"] for change in decoded_changes] == ["r", "u", "d", None, "c", "d", None, "c", "t", "c"]
    assert [change["deleted"] for change in decoded_changes] == [
        False, False, True, True, False, True, True, False, False, False,
    ]  # fmt: skip


def test_places_in_the_log_of_mariadb_are_known_where_it_writes_them() -> None:
    """From 11.4 on it does not, unless it is told to: the connector then makes negative numbers of none."""
    placed = changes("with binlog_legacy_event_pos", "id INT", MARIADB)
    positions = [change["position"] for change in placed if change["op"] is not None]
    assert positions == sorted(positions)
    assert positions[0] == Decimal(1_000_000_001_196)
    unplaced = changes("without schemas", "id INT", MARIADB)
    assert [change["position"] is None for change in unplaced if change["op"] not in (None, "r", "t")] == [True] * 6


@pytest.mark.parametrize("is_behind_its_schema", [True, False])
def test_an_envelope_of_sql_server_is_a_change(is_behind_its_schema: bool) -> None:
    """Its shape is the documentation's; none was recorded, since no such server runs in these tests."""
    row = {"id": 1005, "name": "pen", "price": "AJY=", "made": 1_700_000_000_123_456_700}
    source = {
        "version": "3.2.0.Final", "connector": "sqlserver", "name": "shop", "ts_ms": 1_700_000_000_120,
        "snapshot": "false", "db": "shop", "sequence": None, "ts_us": 1_700_000_000_120_000,
        "ts_ns": 1_700_000_000_120_000_000, "schema": "dbo", "table": "orders",
        "change_lsn": "00000027:00000ac0:0002", "commit_lsn": "00000027:00000ac0:0007", "event_serial_no": 2,
    }  # fmt: skip
    change = {
        "before": row, "after": row | {"name": "ink"}, "source": source, "transaction": None, "op": "u",
        "ts_ms": 1_700_000_000_900, "ts_us": 1_700_000_000_900_123, "ts_ns": 1_700_000_000_900_123_456,
    }  # fmt: skip
    columns = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "name"},
        {"type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
         "parameters": {"scale": "2", "connect.decimal.precision": "10"}, "field": "price"},
        {"type": "int64", "optional": True, "name": "io.debezium.time.NanoTimestamp", "version": 1, "field": "made"},
    ]  # fmt: skip
    ddl, expected = "id INT, name STRING", {"id": 1005, "name": "ink"}
    document: dict[str, Any] = change
    if is_behind_its_schema:
        document = {"schema": schema(columns), "payload": change}
        ddl += ", price DECIMAL(10,2), made TIMESTAMP_NTZ"
        expected |= {"price": Decimal("1.50"), "made": datetime(2023, 11, 14, 22, 13, 20, 123456)}
    texts = pa.array([json.dumps(document).encode()], pa.binary())
    [decoded_change] = dk.decode(pa.record_batch({"value": texts}), format="debezium-json", schema=ddl).to_pylist()
    assert decoded_change["value"] == expected
    assert (decoded_change["op"], decoded_change["deleted"]) == ("u", False)
    assert decoded_change["source_ts"] == datetime(2023, 11, 14, 22, 13, 20, 120000, UTC)
    # The change stands five places before its commit.
    commit = 0x27 << 48 | 0xAC0 << 16 | 7
    assert decoded_change["position"] == Decimal((commit << 46) + (1 << 46) - 1 - 5)
