"""The cases of Spark's KafkaOffsetRangeCalculatorSuite (4.2.0), by its titles, and what they leave open."""

from __future__ import annotations

import pytest

from directkafka.offsets import OffsetRange
from directkafka.planning.placement import split

Bounds = tuple[str, int, int]


def ranges(*bounds: Bounds) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(topic, 1, start, end) for topic, start, end in bounds)


SPARK_CASES = [
    pytest.param(None, None, [("a", 1, 2)], [("a", 1, 2)], id="no minPartitions: N to N"),
    pytest.param(None, None, [("a", 1, 2), ("b", 1, 1)], [("a", 1, 2)], id="no minPartitions: empty ranges ignored"),
    pytest.param(
        3,
        None,
        [("a", 1, 2), ("b", 1, 2), ("c", 1, 2)],
        [("a", 1, 2), ("b", 1, 2), ("c", 1, 2)],
        id="[3] N to N, with and without executors",
    ),
    pytest.param(4, None, [("a", 1, 5)], [("a", 1, 2), ("a", 2, 3), ("a", 3, 4), ("a", 4, 5)], id="[4] 1 to N"),
    pytest.param(
        4,
        None,
        [("a", 1, 5), ("b", 1, 21)],
        [("a", 1, 5), ("b", 1, 7), ("b", 7, 14), ("b", 14, 21)],
        id="[4] N skewed to M",
    ),
    pytest.param(
        4,
        None,
        [("a", 1, 1), ("b", 1, 21)],
        [("b", 1, 6), ("b", 6, 11), ("b", 11, 16), ("b", 16, 21)],
        id="[4] SPARK-30656: ignore empty ranges and split the rest",
    ),
    pytest.param(
        4,
        None,
        [("a", 1, 2), ("b", 1, 1001)],
        [("a", 1, 2), ("b", 1, 334), ("b", 334, 667), ("b", 667, 1001)],
        id="[4] SPARK-30656: N very skewed to M",
    ),
    pytest.param(
        1,
        None,
        [("a", 1, 5), ("b", 1, 21)],
        [("a", 1, 5), ("b", 1, 21)],
        id="[1] SPARK-30656: minPartitions less than partitions",
    ),
    pytest.param(
        3, None, [("a", 1, 11)], [("a", 1, 4), ("a", 4, 7), ("a", 7, 11)], id="[3] inexact multiple of minPartitions"
    ),
    pytest.param(
        4,
        None,
        [("a", 1, 5), ("b", 1, 21), ("c", 1, 1)],
        [("a", 1, 5), ("b", 1, 7), ("b", 7, 14), ("b", 14, 21)],
        id="[4] empty ranges ignored",
    ),
    pytest.param(
        6,
        None,
        [("a", 0, 10), ("b", 0, 10), ("c", 0, 1)],
        [("a", 0, 3), ("a", 3, 6), ("a", 6, 10), ("b", 0, 3), ("b", 3, 6), ("b", 6, 10), ("c", 0, 1)],
        id="[6] SPARK-28489: never drop offsets",
    ),
    pytest.param(
        9,
        None,
        [("a", 0, 10000), ("b", 0, 15000), ("c", 0, 20000)],
        [("a", start, start + 5000) for start in range(0, 10000, 5000)]
        + [("b", start, start + 5000) for start in range(0, 15000, 5000)]
        + [("c", start, start + 5000) for start in range(0, 20000, 5000)],
        id="[9] SPARK-36576: 0 small and 3 large",
    ),
    pytest.param(
        6,
        None,
        [("a", 0, 500), ("b", 0, 12000), ("c", 0, 15001)],
        [("a", 0, 500), ("b", 0, 6000), ("b", 6000, 12000), ("c", 0, 5000), ("c", 5000, 10000), ("c", 10000, 15001)],
        id="[6] SPARK-36576: 1 small and 2 large",
    ),
    pytest.param(
        6,
        None,
        [("a", 0, 1), ("b", 0, 1), ("c", 0, 10000)],
        [("a", 0, 1), ("b", 0, 1), ("c", 0, 2500), ("c", 2500, 5000), ("c", 5000, 7500), ("c", 7500, 10000)],
        id="[6] SPARK-36576: 2 small and 1 large",
    ),
    pytest.param(None, 4, [("a", 1, 5)], [("a", 1, 5)], id="SPARK-49259: max 4, exactly full"),
    pytest.param(None, 4, [("a", 1, 2)], [("a", 1, 2)], id="SPARK-49259: max 4, small"),
    pytest.param(None, 4, [("a", 1, 6)], [("a", 1, 3), ("a", 3, 6)], id="SPARK-49259: max 4, 1 to N"),
    pytest.param(
        None,
        20,
        [("a", 1, 40), ("b", 1, 50), ("c", 1, 60)],
        [
            ("a", 1, 20),
            ("a", 20, 40),
            ("b", 1, 17),
            ("b", 17, 33),
            ("b", 33, 50),
            ("c", 1, 20),
            ("c", 20, 40),
            ("c", 40, 60),
        ],
        id="SPARK-49259: max 20, N to N",
    ),
    pytest.param(1, 20, [("a", 1, 40)], [("a", 1, 20), ("a", 20, 40)], id="SPARK-49259: low minPartitions"),
    pytest.param(
        4,
        20,
        [("a", 1, 40)],
        [("a", 1, 10), ("a", 10, 20), ("a", 20, 30), ("a", 30, 40)],
        id="SPARK-49259: high minPartitions",
    ),
]


@pytest.mark.parametrize(("min_partitions", "max_records", "given", "expected"), SPARK_CASES)
def test_ranges_are_cut_as_spark_cuts_them(
    min_partitions: int | None, max_records: int | None, given: list[Bounds], expected: list[Bounds]
) -> None:
    pieces = split(ranges(*given), min_partitions=min_partitions, max_records_per_partition=max_records)
    assert pieces == ranges(*expected)


def test_no_ranges_give_no_pieces() -> None:
    assert split((), min_partitions=4, max_records_per_partition=1) == ()


def test_more_pieces_than_offsets_are_never_made() -> None:
    assert split(ranges(("a", 0, 2)), min_partitions=100) == ranges(("a", 0, 1), ("a", 1, 2))


def test_a_huge_range_is_cut_without_losing_its_last_offset() -> None:
    pieces = split(ranges(("a", 0, 2**63 - 1)), min_partitions=3)
    assert pieces[-1].until_offset == 2**63 - 1
    assert [piece.count() for piece in pieces] == [3074457345618258602, 3074457345618258602, 3074457345618258603]
