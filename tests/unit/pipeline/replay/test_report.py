"""What a replay tells of the reasons of its dead letters."""

from __future__ import annotations

from collections import Counter

import pytest

from directkafka.pipeline.replay import report
from directkafka.pipeline.replay.report import OTHER_REASONS, add_reasons


def test_of_a_reason_for_each_row_the_first_ones_are_told_apart_and_none_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "REASONS_MAX", 2)
    counts: Counter[str] = Counter()
    add_reasons(counts, {"1 is round": 1, "2 is round": 1, "3 is round": 1})
    add_reasons(counts, {"1 is round": 4, "5 is round": 2})
    assert counts == {"1 is round": 5, "2 is round": 1, OTHER_REASONS: 3}
