"""Positions grow with the log of each database."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from directkafka.payloads.debezium.positions import POSITION, POSITION_FIELDS, positions_of


def positions(*sources: dict[str, Any] | None) -> list[Decimal | None]:
    column = positions_of(pa.array(sources, pa.struct(POSITION_FIELDS)))
    assert column.type == POSITION
    column.validate(full=True)
    return column.to_pylist()


def number(file: int, block: int, slot: int) -> str:
    return f"{file:08x}:{block:08x}:{slot:04x}"


def test_postgres_counts_bytes_and_mysql_files() -> None:
    assert positions({"lsn": 24_023_128}, {"file": "mysql-bin.000003", "pos": 484}, {}, None) == [
        Decimal(24_023_128),
        Decimal(3_000_000_000_484),
        None,
        None,
    ]


def test_what_is_no_place_in_a_log_is_none() -> None:
    assert (
        positions({"file": "binlog", "pos": 4}, {"file": "binlog.1234567", "pos": 4}, {"file": None, "pos": 4})
        == [None] * 3
    )
    assert positions({"file": "binlog.000001", "pos": 10**12}, {"file": "binlog.000001", "pos": -1}) == [None] * 2
    assert (
        positions({"commit_lsn": "NULL"}, {"commit_lsn": ""}, {"commit_lsn": "00000027:00000758:00050"}) == [None] * 3
    )


def test_a_snapshot_of_sql_server_stands_before_the_changes_of_a_commit_there() -> None:
    snapshot, change, next_one = positions(
        {"commit_lsn": number(0x27, 0x758, 5)},
        {"commit_lsn": number(0x27, 0x758, 5), "change_lsn": number(0x27, 0x758, 3)},
        {"commit_lsn": number(0x27, 0x758, 6), "change_lsn": number(0x27, 0x758, 3)},
    )
    assert snapshot is not None
    assert change is not None
    assert next_one is not None
    assert snapshot < change < next_one


LOG_NUMBERS = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**30 - 1), st.integers(0, 2**16 - 1))


@given(st.sets(st.tuples(LOG_NUMBERS, st.integers(0, 2**29 - 1), st.integers(0, 2**16 - 1)), min_size=2))
def test_sql_server_orders_by_commits_and_then_by_changes(places: set[tuple[tuple[int, int, int], int, int]]) -> None:
    sources = []
    for commit, block, slot in sorted(places):
        change = (commit[0], min(block, commit[1]), slot if block < commit[1] else min(slot, commit[2]))
        sources.append((commit, change))
    ordered = sorted(set(sources))
    decimals = positions(
        *({"commit_lsn": number(*commit), "change_lsn": number(*change)} for commit, change in ordered)
    )
    assert all(first is not None and second is not None and first < second for first, second in pairwise(decimals))


@given(st.lists(st.tuples(st.integers(0, 999_999), st.integers(0, 2**32 - 1)), min_size=1))
def test_mysql_orders_by_files_and_then_by_places(places: list[tuple[int, int]]) -> None:
    ordered = sorted(set(places))
    decimals = positions(*({"file": f"binlog.{file:06d}", "pos": offset} for file, offset in ordered))
    assert all(first is not None and second is not None and first < second for first, second in pairwise(decimals))
