"""Tables that are copied by a real Debezium, while everything on the way is killed; ten minutes of it are a soak."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from soak.database_changes import running

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_tables_under_random_changes_are_copied_row_by_row_whoever_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as world:
        told = world.run(60.0, 4, random.Random(7))
    assert told.startswith("4 kills")
    assert told.endswith("source and copies are equal")
