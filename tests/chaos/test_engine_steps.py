"""The engine into Postgres and MySQL, killed at every step that a driver passes, without Spark, in a second each.

With Spark, tasks and a reader that looks on: ``test_kill_at_each_step.py``.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

import pytest
from tests.chaos.engine_driver import BATCH, PIPELINE, Place, run_pipeline
from tests.chaos.forked_driver import FENCED, ForkedDriver
from tests.chaos.test_kill_at_each_step import ELSEWHERE, armed
from tests.contract.mysql_harness import MySQLHarness
from tests.contract.postgres_harness import PostgresHarness
from tests.processes import running

from directkafka.fault_points import FAULT_POINTS

pytestmark = pytest.mark.real

COUNT = 3 * BATCH
#: Each record with the batch that it is in: a batch that is planned again may not end elsewhere here.
ROWS = [(offset, 1 + offset // BATCH) for offset in range(COUNT)]


def staging_tables(target: Place) -> list[str]:
    if target.kind == "mysql":
        return MySQLHarness(target.address).leftovers()
    return PostgresHarness(target.address).leftovers()


Kind = Literal["postgres", "mysql"]
DATABASES: dict[Kind, str] = {"postgres": "database", "mysql": "mysql_database"}

POINTS = [point for point in FAULT_POINTS if point not in ELSEWHERE]
#: The quick run has all points of Postgres with staged rows, those at which the commit of held rows differs, and of
#: MySQL, whose commit is the same template, the last one.
QUICK = {
    *(("postgres", point, "staged") for point in POINTS),
    *(("postgres", f"commit.{name}", "held") for name in ("ledger_updated", "rows_moved", "answered")),
    ("mysql", "commit.answered", "held"),
}
HELD, STAGED = 64 * 1024 * 1024, 0
CASES = [
    pytest.param(
        kind, point, inline_bytes_max,
        id=f"{kind}-{point}-{way}",
        marks=() if (kind, point, way) in QUICK else pytest.mark.slow,
    )
    for kind in DATABASES for point in POINTS for way, inline_bytes_max in (("held", HELD), ("staged", STAGED))
]  # fmt: skip


@pytest.mark.parametrize(("kind", "point", "inline_bytes_max"), CASES)
def test_an_engine_killed_at_a_step_loses_and_doubles_nothing(
    kind: Kind, point: str, inline_bytes_max: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    target = Place(kind, request.getfixturevalue(DATABASES[kind]), inline_bytes_max)
    with running(ForkedDriver(run_pipeline, [target], COUNT, folder=tmp_path, faults=armed(point))) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    store = target.sink().store
    entry = store.read(PIPELINE) if point != "fence.before" else None
    store.close()
    done = BATCH * max(0, entry.batch_id) if entry else 0
    if entry and entry.batch_id >= 0:
        assert target.rows() == ROWS[:done], "the ledger and the table are of one moment"
    assert done < COUNT, "the kill came after the end, so it proved nothing"
    with running(ForkedDriver(run_pipeline, [target], COUNT, folder=tmp_path)) as driver:
        assert driver.wait() == 0, driver.messages()
    assert target.rows() == ROWS
    assert staging_tables(target) == []


@pytest.mark.parametrize("kind", ["postgres", pytest.param("mysql", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "point",
    [
        "commit.ledger_updated@2",
        *(pytest.param(f"commit.{p}@2", marks=pytest.mark.slow) for p in ("begun", "rows_moved")),
    ],
)
def test_rows_of_the_next_batch_that_are_staged_at_a_kill_are_dropped_and_written_again(
    kind: Kind, point: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    target = Place(kind, request.getfixturevalue(DATABASES[kind]), 0)
    with running(ForkedDriver(run_pipeline, [target], COUNT, folder=tmp_path, faults=f"{point}=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    numbers = {int(name.split("_")[4]) for name in staging_tables(target)}
    assert {1, 2} <= numbers, "the batch that was killed in its commit, and the one ahead of it"
    with running(ForkedDriver(run_pipeline, [target], COUNT, folder=tmp_path)) as driver:
        assert driver.wait() == 0, driver.messages()
    assert target.rows() == ROWS
    assert staging_tables(target) == []


@pytest.mark.parametrize("kind", ["mysql", pytest.param("postgres", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "point",
    [
        "commit.ledger_updated",
        *(pytest.param(f"commit.{p}", marks=pytest.mark.slow) for p in ("begun", "rows_moved")),
    ],
)
def test_an_engine_that_stands_still_in_its_commit_is_passed_and_lands_nothing_when_it_goes_on(
    kind: Kind, point: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It holds the row's lock: the newer driver ends its session. With Spark: ``test_two_drivers.py``."""
    target = Place(kind, request.getfixturevalue(DATABASES[kind]), 0)
    with running(ForkedDriver(run_pipeline, [target], COUNT, folder=tmp_path, faults=f"{point}@2=stop")) as older:
        older.wait_until_stopped()
        with running(ForkedDriver(run_pipeline, [target], COUNT, folder=tmp_path)) as newer:
            assert newer.wait() == 0, newer.messages()
        assert target.rows() == ROWS
        older.go_on()
        assert older.wait() == FENCED, older.messages()
    assert target.rows() == ROWS
