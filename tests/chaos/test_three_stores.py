"""One pipeline into Postgres, Kafka and DuckDB, killed between any two of its commits, in several orders.

The engine is the real one, without Spark (:mod:`tests.chaos.engine_driver`); ``test_several_stores.py`` has a case with
Spark. Each row says which batch wrote it. After the restart every store has each record once, and all have the same
rows: the store that was ahead has pinned the batch for the others.
"""

from __future__ import annotations

import itertools
import signal
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.chaos.engine_driver import BATCH, PIPELINE, Place, run_pipeline
from tests.chaos.forked_driver import ForkedDriver
from tests.contract.kafka_harness import still_open
from tests.processes import running

from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real

COUNT = 3 * BATCH
#: Each record with the batch that it is in, however often a driver was killed.
ROWS = [(offset, 1 + offset // BATCH) for offset in range(COUNT)]

ORDERS = [("postgres", "kafka", "duckdb"), ("duckdb", "kafka", "postgres"), ("kafka", "duckdb", "postgres")]

#: The commits of batch 0, which has no rows, and of batch 2: after the first, after the second, within the third.
BETWEEN = [
    "commit.answered@1",
    "commit.answered@2",
    "commit.answered@7",
    "commit.answered@8",
    "commit.rows_moved@8",
    "commit.rows_moved@9",
]

#: The others are left to the slow run.
QUICK = {(ORDERS[1], "commit.answered@8")}


class World:
    """The three stores, empty."""

    def __init__(self, kafka: str, dsn: str, folder: Path) -> None:
        self.folder = folder
        self.kafka = kafka
        self.prefix = f"three-{uuid.uuid4().hex[:8]}"
        self.places = {
            "postgres": Place("postgres", dsn),
            "kafka": Place("kafka", f"{kafka} {self.prefix}"),
            "duckdb": Place("duckdb", str(folder / "air.duckdb")),
        }

    def driver(self, order: Sequence[str], *, count: int = COUNT, faults: str = "") -> ForkedDriver:
        places = [self.places[name] for name in order]
        return ForkedDriver(run_pipeline, places, count, folder=self.folder, faults=faults)

    def run(self, order: Sequence[str], *, count: int = COUNT) -> str:
        """To the end of the topic; what the driver said."""
        with running(self.driver(order, count=count)) as driver:
            assert driver.wait() == 0, driver.messages()
            return driver.messages()

    def kill(self, order: Sequence[str], point: str, *, count: int = COUNT) -> None:
        with running(self.driver(order, count=count, faults=f"{point}=kill")) as driver:
            assert driver.wait() == -signal.SIGKILL, driver.messages()

    def batch_id(self, name: str) -> int | None:
        store = self.places[name].sink().store
        try:
            entry = store.read(PIPELINE)
        finally:
            store.close()
        return None if entry is None else int(entry.batch_id)

    def check(self, names: Sequence[str], rows: Sequence[tuple[int, int]] = ROWS) -> None:
        for name in names:
            assert self.places[name].rows() == list(rows), name
        assert still_open(self.kafka, self.prefix) == []


@pytest.fixture
def world(kafka_broker: KafkaBroker, database: str, tmp_path: Path) -> World:
    return World(kafka_broker.bootstrap_servers, database, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "point"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow, id="-".join((*case[0], case[1])))
        for case in itertools.product(ORDERS, BETWEEN)
    ],
)
def test_a_driver_killed_between_two_commits_leaves_three_equal_stores(
    world: World, order: Sequence[str], point: str
) -> None:
    world.kill(order, point)
    ids = [world.batch_id(name) for name in order]
    assert len(set(ids)) == 2, f"the kill was not between two commits: the stores are at {ids}"
    world.run(order)
    world.check(order)


@pytest.mark.slow
def test_drivers_killed_at_one_commit_after_the_other_leave_three_equal_stores(world: World) -> None:
    """Each is killed in the batch that the one before it left half committed, or in the next one."""
    for point in ("commit.answered@7", "commit.answered@1", "commit.rows_moved@1", "commit.answered@2"):
        world.kill(ORDERS[0], point)
    world.run(ORDERS[0])
    world.check(ORDERS[0])


@pytest.mark.slow
def test_a_store_that_is_added_begins_where_the_others_end_even_if_it_is_killed_while_it_joins(world: World) -> None:
    world.run(["postgres"], count=BATCH)
    # Once it was read that the others have none, and once more with one that has joined.
    world.kill(["postgres", "kafka", "duckdb"], "ledger.read@1")
    world.kill(["postgres", "kafka", "duckdb"], "commit.answered@1")
    world.run(["postgres", "kafka", "duckdb"])
    world.check(["postgres"])
    world.check(["kafka", "duckdb"], ROWS[BATCH:])


@pytest.mark.slow
def test_a_store_that_is_removed_keeps_what_it_has_and_may_not_come_back_with_a_gap(world: World) -> None:
    both = ["postgres", "duckdb"]
    world.run(both, count=BATCH)
    world.run(["postgres"], count=BATCH)
    world.run(both, count=2 * BATCH)  # nothing was committed without it
    world.check(both, ROWS[: 2 * BATCH])

    world.run(["postgres"])
    world.run(["postgres"], count=COUNT + BATCH)
    with running(world.driver(both, count=COUNT + BATCH)) as driver:
        assert driver.wait() == 1, driver.messages()
        assert "OffsetMismatchError" in driver.messages()
        assert "batch 2" in driver.messages()
        assert "batch 4" in driver.messages()
    world.check(["duckdb"], ROWS[: 2 * BATCH])


@pytest.mark.slow
def test_a_store_that_is_ahead_and_was_removed_is_refused_when_it_comes_back_behind_other_ends(world: World) -> None:
    """The one that was left did the batch with other ends: what both have since is not the same."""
    both = ["postgres", "duckdb"]
    world.kill(both, "commit.answered@5", count=COUNT)  # batch 2: Postgres has it, DuckDB does not
    assert [world.batch_id(name) for name in both] == [2, 1]
    world.run(["duckdb"], count=BATCH + 5)
    with running(world.driver(both)) as driver:
        assert driver.wait() == 1, driver.messages()
        assert "OffsetMismatchError" in driver.messages()
