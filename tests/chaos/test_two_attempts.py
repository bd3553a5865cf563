"""Two attempts of one task, of which each stores its rows on its own executor: nobody reads both."""

from __future__ import annotations

from typing import Any

import pytest
from tests.chaos import two_attempts
from tests.chaos.local_cluster import run_program

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program saw, without Spark's own guard."""
    folder = tmp_path_factory.mktemp("two_attempts")
    answer: dict[str, Any] = run_program(two_attempts, str(folder), folder=folder)
    return answer


def test_rows_of_which_there_are_two_versions_are_read_by_nobody(outcomes: dict[str, Any]) -> None:
    assert "1 of 3 blocks of rows that are computed once were computed by two attempts" in outcomes["both"]["error"]


def test_an_attempt_that_is_left_when_the_job_is_over_is_waited_for(outcomes: dict[str, Any]) -> None:
    assert outcomes["late"] == {"left": 0, "versions": 1}
