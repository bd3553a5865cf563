"""The soak's comparison finds what it is there to find."""

from __future__ import annotations

from collections import Counter

import pytest
from soak.audit import Finding, _compare

TOPIC = Counter([(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 3)])


@pytest.mark.parametrize(
    ("rows", "lost", "doubled", "foreign"),
    [
        ([(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 3)], 0, 0, 0),
        ([(0, 0, 0), (0, 1, 2), (1, 0, 1)], 1, 0, 0),
        ([(0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 3)], 0, 2, 0),
        ([(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 4)], 1, 0, 1),
        ([], 4, 0, 0),
    ],
)
def test_rows_are_compared_with_records_one_by_one(
    rows: list[tuple[int, int, int]], lost: int, doubled: int, foreign: int
) -> None:
    finding = _compare("postgres", TOPIC, iter(rows))
    assert finding == Finding(store="postgres", records=4, lost=lost, doubled=doubled, foreign=foreign)
    assert finding.is_right == (lost == doubled == foreign == 0)


def test_what_staging_has_left_is_not_right() -> None:
    assert not _compare("postgres", TOPIC, iter(TOPIC), ("directkafka_stage_1",)).is_right
