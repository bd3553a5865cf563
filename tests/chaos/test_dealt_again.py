"""Rows that Spark deals a second time, and otherwise, because a part of the first dealing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos import dealt_again
from tests.chaos.dealt_again import ROWS
from tests.chaos.local_cluster import run_program

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("is_adaptive", ["true", "false"])
def test_rows_of_two_dealings_are_not_mixed(is_adaptive: str, tmp_path: Path) -> None:
    """The batch is redone. When Spark plans adaptively, each shuffle is a job of its own."""
    outcome = run_program(dealt_again, str(tmp_path), is_adaptive, "true", folder=tmp_path)
    assert "indeterminate" in outcome["lost"]


def test_without_spark_s_comparison_rows_are_lost_and_doubled(tmp_path: Path) -> None:
    """So the loss above is one that matters."""
    outcome = run_program(dealt_again, str(tmp_path), "true", "false", folder=tmp_path)
    assert outcome["different"] < ROWS
