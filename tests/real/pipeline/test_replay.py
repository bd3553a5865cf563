"""Dead letters through a mended transform: each once, whatever is rejected again stays with the new reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.real.pipeline.conftest import COUNT, World

from directkafka import DuckDBSink, PostgresSink, SQLiteSink
from directkafka.errors import OptionError, RangeNotReadError
from directkafka.pipeline.replay_report import ReasonCount
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real

NUMBER = "CAST(CAST(value AS STRING) AS BIGINT)"
ROUND = list(range(0, COUNT, 10))


def query(rejected: str, reason: str = "concat(CAST(value AS STRING), ' is round')") -> str:
    return (
        f"SELECT topic, partition, offset, {NUMBER} AS number, "
        f"CASE WHEN {rejected} THEN {reason} END AS dead_letter_reason FROM source"
    )


EVERY_TENTH = query(f"{NUMBER} % 10 = 0")


def letters(world: World) -> list[tuple[Any, ...]]:
    return world.query("SELECT convert_from(value, 'UTF8')::int, reason, replays FROM rejected ORDER BY 1")


def test_letters_leave_with_their_rows_and_those_that_are_rejected_again_stay(world: World) -> None:
    sink = PostgresSink(world.dsn, "rejected")
    source = {"includeHeaders": "true"}
    world.pipeline(EVERY_TENTH, dead_letters=sink, source=source).run()
    bytes_before = world.query("SELECT topic, partition, \"offset\", timestamp, key, value, headers FROM rejected")
    reports: list[Any] = []

    still = query(f"{NUMBER} % 20 = 0", "'still round'")
    mended = world.pipeline(still, dead_letters=PostgresSink(world.dsn, "rejected"), source=source)
    summary = mended.replay(report=reports.append)
    again = [number for number in ROUND if number % 20 == 0]
    assert (summary.letters, summary.rejected) == (len(ROUND), len(again))
    assert ReasonCount(reason="still round", letters=0, rejected=len(again)) in summary.reasons
    assert world.numbers() == [number for number in range(COUNT) if number not in again]
    assert letters(world) == [(number, "still round", 1) for number in again]
    kept = world.query("SELECT topic, partition, \"offset\", timestamp, key, value, headers FROM rejected")
    assert {str(one) for one in kept} <= {str(one) for one in bytes_before}
    assert [(one.letters, one.rejected, one.left) for one in reports] == [(len(ROUND), len(again), 0)]

    # What is left is tried once more in a second replay, and counted on.
    assert mended.replay().rejected == len(again)
    assert letters(world) == [(number, "still round", 2) for number in again]
    assert all(finding.is_right for finding in verify(mended))
