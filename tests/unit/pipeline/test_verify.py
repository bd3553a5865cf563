"""When a comparison is right."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from directkafka.pipeline.verify import Finding
from directkafka.sinks.capabilities import TableCount

RIGHT = Finding(
    sink="flights",
    batch_id=5,
    offsets=120,
    ledger_rows=100,
    table=TableCount(rows=100),
    expected_rows=100,
    expected_sums={},
)
FOLDED = replace(
    RIGHT,
    table=TableCount(rows=16, is_folded=True, sums={"miles": Decimal(70), "hours": 0.1 + 0.2}),
    expected_rows=None,
    expected_sums={"miles": 70, "hours": 0.3},
)


def test_equal_numbers_are_right() -> None:
    assert RIGHT.is_right
    assert RIGHT.as_record()["sums_agree"] is None


def test_rows_of_a_folding_table_are_not_compared_and_its_sums_are() -> None:
    assert FOLDED.is_right
    assert FOLDED.as_record()["sums_agree"] is True


@pytest.mark.parametrize(
    "wrong",
    [
        replace(RIGHT, ledger_rows=99),
        replace(RIGHT, expected_rows=101),
        replace(RIGHT, table=TableCount(rows=100, doubled=1)),
        replace(FOLDED, expected_sums={"miles": 71, "hours": 0.3}),
        replace(FOLDED, expected_sums={"miles": 70, "hours": 0.31}),
        replace(FOLDED, expected_sums={"weight": 0.5}),
    ],
)
def test_one_difference_is_enough_to_be_wrong(wrong: Finding) -> None:
    assert not wrong.is_right
    assert wrong.as_record()["is_right"] is False


def test_what_kafka_no_longer_has_leaves_the_ledger_to_compare_with() -> None:
    without = replace(RIGHT, expected_rows=None, note="Kafka no longer has all of it")
    assert without.is_right
    assert without.as_record()["note"] == "Kafka no longer has all of it"
