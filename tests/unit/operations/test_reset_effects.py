"""What a reset does to tables, as it is printed."""

from __future__ import annotations

import pytest

from directkafka.operations.records_in_log import RecordsInLog
from directkafka.operations.reset_effects import Effect, TableEffect, totals


def effect(store: str = "a", partition: int = 0, *, rows: int | None = 3, at_ms: int | None = None) -> TableEffect:
    return TableEffect(
        store=store, sink="t", topic="air", partition=partition, current=9, new=4, effect=Effect.DOUBLED, offsets=5,
        in_log=RecordsInLog(records_max=4, first_at_ms=at_ms, last_at_ms=at_ms), rows=rows,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("at_ms", "shown"),
    [
        (None, None),
        (-1, None),
        (0, "1970-01-01T00:00:00+00:00"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123000+00:00"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999000+00:00"),
        (1_700_000_000_000_000, None),
        (2**63 - 1, None),
    ],
)
def test_a_timestamp_is_a_time_or_nothing(at_ms: int | None, shown: str | None) -> None:
    assert effect(at_ms=at_ms).as_record()["first_at"] == shown


def test_totals_are_those_of_one_table_in_one_store_and_unknown_rows_make_them_unknown() -> None:
    table_totals = totals([effect("a", 0), effect("a", 1), effect("b", 0), effect("b", 1, rows=None)])
    assert [(total["store"], total["offsets"], total["rows"]) for total in table_totals] == [
        ("a", 10, 6),
        ("b", 10, None),
    ]
    assert [total["records_max"] for total in table_totals] == [8, 8]
    assert all(total.keys() == effect().as_record().keys() for total in table_totals)
