"""Folding a batch for a merge, beside a loop over its rows."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import RowRejectedError
from directkafka.sinks.deletes import Deletes
from directkafka.sinks.delta.folding import DELETES, GOES_IN, Folding, own_order
from directkafka.sinks.write_modes import WriteMode

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("n", pa.int64()), ("at", pa.int64()), ("gone", pa.bool_())])
HARD, SOFT = Deletes(column="gone"), Deletes(column="gone", how="soft")


def folding(**mode: Any) -> Folding:
    return Folding(mode=WriteMode(**mode), store="some store", sink="some table")


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """In several chunks, as tasks bring them."""
    batches = [
        pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in piece], schema=SCHEMA)
        for piece in (rows[:3], rows[3:])
    ]
    return pa.concat_tables(batches)


def random_rows(count: int, seed: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    places = chance.sample(range(10 * count), count)
    return [
        (chance.randrange(4), chance.choice("xyz"), position * 3, position, chance.random() < 0.4)
        for position in places
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("deletes", [None, HARD, SOFT], ids=["no deletes", "hard", "soft"])
def test_of_each_key_the_last_row_and_the_last_mark_stay(deletes: Deletes | None, seed: int) -> None:
    rows = random_rows(seed * 12, seed)
    folded = folding(name="upsert", key=("a", "b"), order=("at",), deletes=deletes).fold(table(rows)).rows
    rows_by_key = {(row["a"], row["b"]): row for row in folded.to_pylist()}
    assert len(rows_by_key) == len(folded) == len({row[:2] for row in rows})
    for key, row in rows_by_key.items():
        of_key = sorted((row for row in rows if row[:2] == key), key=lambda row: row[3])
        stored = [each for each in of_key if not each[4]] if deletes is not None else of_key
        marks = [each for each in of_key if each[4]] if deletes is not None else []
        if deletes is HARD:
            stored, marks = ([of_key[-1]], []) if not of_key[-1][4] else ([], [of_key[-1]])
        last, mark = stored[-1] if stored else None, marks[-1] if marks else None
        is_marked = mark is not None and (last is None or mark[3] > last[3])
        assert (row[GOES_IN], row[DELETES]) == (last is not None, is_marked)
        values = last or mark
        assert values is not None
        assert row["n"] == values[2]
        assert row[own_order(0)] == values[3]
        if is_marked and mark is not None:
            assert row["at"] == mark[3]
        if deletes is SOFT:
            assert row["gone"] == is_marked
        else:
            assert ("gone" in row) == (deletes is None)


@pytest.mark.parametrize("seed", range(4))
def test_ignore_keeps_the_row_of_each_key_that_came_first(seed: int) -> None:
    rows = random_rows(seed * 20, seed)
    kept_rows = folding(name="ignore", key=("a", "b")).fold(table(rows)).rows.to_pylist()
    first: dict[Any, Any] = {}
    for row in rows:
        first.setdefault(row[:2], row)
    assert sorted(tuple(row.values()) for row in kept_rows) == sorted(first.values())


def test_merge_adds_up_and_a_null_counts_as_zero() -> None:
    rows = [(1, "x", 5, None, None), (2, "x", None, 1, None), (1, "x", 2, None, None)]
    folded_rows = folding(name="merge", key=("a", "b"), add=("n", "at")).fold(table(rows)).rows
    assert folded_rows.schema == pa.schema([SCHEMA.field(name) for name in ("a", "b", "n", "at")])
    assert sorted(folded_rows.to_pylist(), key=lambda row: row["a"]) == [
        {"a": 1, "b": "x", "n": 7, "at": 0},
        {"a": 2, "b": "x", "n": 0, "at": 1},
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [2**62, 2**62]),
        (pa.int8(), [100, 28]),
        (pa.decimal128(4, 2), [Decimal("99.99"), Decimal("0.01")]),
        (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1)]),
    ],
    ids=str,
)
def test_a_sum_that_does_not_fit_is_refused_and_does_not_wrap_round(kind: pa.DataType, values: list[Any]) -> None:
    rows = pa.table({"a": pa.array([1, 1], pa.int32()), "n": pa.array(values, kind)})
    with pytest.raises(RowRejectedError, match="the sum of n over the rows of one key does not fit its type"):
        folding(name="merge", key=("a",), add=("n",)).fold(rows)


def test_rows_that_nothing_decides_between_are_counted() -> None:
    rows = [(1, "x", 1, 5, False), (1, "x", 2, 7, False), (1, "x", 3, 7, False), (1, "x", 4, 7, False)]
    with pytest.raises(RowRejectedError, match=r"3 rows of one batch have the key a = 1, b = 'x', equal in at"):
        folding(name="upsert", key=("a", "b"), order=("at",)).fold(table(rows))
    with pytest.raises(RowRejectedError, match=r"4 rows of one batch have the key a = 1, b = 'x', and nothing says"):
        folding(name="upsert", key=("a", "b")).fold(table(rows))


def test_equal_rows_below_the_last_one_decide_nothing() -> None:
    rows = [(1, "x", 1, 5, False), (1, "x", 2, 5, False), (1, "x", 3, 7, False)]
    folded_rows = folding(name="upsert", key=("a", "b"), order=("at",)).fold(table(rows)).rows
    assert folded_rows.column("n").to_pylist() == [3]


def test_rows_that_are_all_key_are_one_row() -> None:
    rows = pa.table({"a": [1, 2, 1]})
    assert folding(name="upsert", key=("a",)).fold(rows).rows.column("a").to_pylist() == [1, 2]


def test_a_truncate_without_its_order_is_refused() -> None:
    rows = pa.table(
        {
            "a": pa.array([1, None], pa.int64()),
            "at": pa.array([1, None], pa.int64()),
            "gone": [False, False],
            "op": ["c", "t"],
        }
    )
    deletes = Deletes(column="gone", truncates=True)
    with pytest.raises(RowRejectedError, match="1 rows have a null in the order at"):
        folding(name="upsert", key=("a",), order=("at",), deletes=deletes).fold(rows)
