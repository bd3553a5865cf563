"""Two attempts of one task, of which each stores its rows on its own executor: nobody reads both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from directkafka.testing.java import use_java

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "two_attempts.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program saw, without Spark's own guard."""
    folder = str(tmp_path_factory.mktemp("two_attempts"))
    use_java()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": folder}
    command = [sys.executable, "-W", "ignore", str(PROGRAM), folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_rows_of_which_there_are_two_versions_are_read_by_nobody(found: dict[str, Any]) -> None:
    assert "1 of 3 blocks of rows that are computed once were computed by two attempts" in found["both"]["error"]


def test_an_attempt_that_is_left_when_the_job_is_over_is_waited_for(found: dict[str, Any]) -> None:
    assert found["late"] == {"left": 0, "versions": 1}
