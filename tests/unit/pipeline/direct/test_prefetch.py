"""A batch that begins while the one before it is committed: when it may, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.pipeline.fakes import Bench, FakeStore, World, bench

from directkafka.errors import (
    BrokerUnreachableError,
    CommitUnknownError,
    DirectKafkaError,
    FencedError,
    StoreUnavailableError,
    TransformError,
    WorkerLostError,
)
from directkafka.pipeline.direct.prefetch import PrefetchedBatch
from directkafka.planning.trigger import Backlog, Delay, Interval, Trigger

AWAY = StoreUnavailableError(store="a", cause="gone fishing")
LOST = WorkerLostError(cause="an executor")


def ahead_bench(**changes: Any) -> Bench:
    """Three batches of ten records, and a transform that allows it."""
    driver = bench(**{"latest": 30, "max_offsets": 10, **changes})
    driver.writer.may_run_ahead = True
    return driver


def batches(driver: Bench) -> list[str]:
    """What happened behind batch 0."""
    return driver.events[driver.events.index("commit a") + 1 : driver.events.index("close cluster")]


def test_each_batch_but_the_first_begins_before_the_commit_of_the_one_before_it() -> None:
    driver = ahead_bench()
    driver.engine.run()
    assert batches(driver) == [
        "snapshot", "write", "begin", "write", "commit a",
        "wait", "begin", "write", "commit a",
        "wait", "commit a",
        "snapshot",
    ]  # fmt: skip
    assert driver.writer.written == [(1, "t-0[0, 10)"), (2, "t-0[10, 20)"), (3, "t-0[20, 30)")]
    assert driver.stores[0].rows == [(number + 1, attempt) for number, attempt in enumerate(driver.writer.attempts)]


def test_a_transform_that_could_see_the_commit_waits_for_it() -> None:
    driver = ahead_bench()
    driver.writer.may_run_ahead = False
    driver.engine.run()
    assert "begin" not in driver.events
    assert [batch for batch, _ in driver.writer.written] == [1, 2, 3]


def test_the_last_batch_of_what_was_waiting_begins_nothing_behind_it() -> None:
    driver = ahead_bench(latest=10)
    driver.engine.run()
    assert "begin" not in driver.events


@pytest.mark.parametrize(
    ("trigger", "begins"),
    [(Interval(60_000), False), (Interval(0), True), (Delay(50), False), (Delay(0), True), (Backlog(10, 60_000), True),
     (Backlog(21, 60_000), False)],
)  # fmt: skip
def test_it_begins_only_where_the_trigger_asks_for_no_pause(trigger: Trigger, begins: bool) -> None:
    driver = ahead_bench(trigger=trigger, stop_after_waits=1)
    driver.engine.run()
    assert ("begin" in driver.events) == begins


def test_a_stop_that_was_asked_for_before_the_commit_begins_nothing() -> None:
    driver = ahead_bench()
    driver.world.fail("write", driver.stop.set)
    driver.engine.run()
    assert batches(driver) == ["snapshot", "write", "commit a"]


def test_a_stop_while_it_is_committed_ends_the_batch_ahead() -> None:
    driver = ahead_bench()
    driver.world.fail("commit a", None, driver.stop.set)
    driver.engine.run()
    assert batches(driver) == ["snapshot", "write", "begin", "write", "commit a", "cancel"]
    assert [batch for batch, _ in driver.stores[0].rows] == [1]


@pytest.mark.parametrize("event", ["commit a", "answer a"])
def test_a_commit_that_fails_or_is_not_heard_of_cancels_it_before_the_ledger_is_read(event: str) -> None:
    driver = ahead_bench()
    driver.world.fail(event, None, AWAY)
    driver.engine.run()
    behind = driver.world.after("cancel")
    assert behind[:3] == ["read a", "snapshot", "write"]
    assert [batch for batch, _ in driver.stores[0].rows] == [1, 2, 3]
    assert len(set(driver.writer.attempts)) == len(driver.writer.attempts)


def test_a_newer_driver_at_the_commit_ends_the_run_and_the_batch_ahead() -> None:
    driver = ahead_bench()
    driver.world.fail("commit a", None, FencedError(store="a", pipeline="flights", held=1, found=2))
    with pytest.raises(FencedError):
        driver.engine.run()
    assert batches(driver) == ["snapshot", "write", "begin", "write", "commit a", "cancel"]
    assert driver.stores[0].rows == []


def test_an_unknown_commit_ends_the_run_and_the_batch_ahead() -> None:
    driver = ahead_bench()
    driver.world.fail("commit a", None, CommitUnknownError(store="a", pipeline="flights", batch_id=1, cause="silence"))
    with pytest.raises(CommitUnknownError):
        driver.engine.run()
    assert driver.events[-3:] == ["cancel", "close cluster", "close a"]


def test_its_failure_does_not_touch_the_commit_and_costs_a_try_in_its_turn() -> None:
    driver = ahead_bench()
    driver.world.fail("write", None, LOST)
    driver.engine.run()
    assert batches(driver)[:8] == ["snapshot", "write", "begin", "write", "commit a", "wait", "cancel", "read a"]
    assert [batch for batch, _ in driver.stores[0].rows] == [1, 2, 3]


def test_its_failure_that_cannot_pass_stops_the_run_behind_the_commit() -> None:
    driver = ahead_bench()
    driver.world.fail("write", None, TransformError(source="sql", cause="division by zero"))
    with pytest.raises(TransformError):
        driver.engine.run()
    assert [batch for batch, _ in driver.stores[0].rows] == [1]


def test_one_that_cannot_begin_waits_for_its_turn() -> None:
    driver = ahead_bench()
    driver.world.fail("begin", RuntimeError("can't start new thread"))
    driver.engine.run()
    assert batches(driver)[:6] == ["snapshot", "write", "begin", "commit a", "snapshot", "write"]
    assert [batch for batch, _ in driver.stores[0].rows] == [1, 2, 3]


def test_whoever_is_interrupted_while_he_waits_for_it_ends_it() -> None:
    driver = ahead_bench()
    driver.world.fail("wait", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        driver.engine.run()
    assert driver.events[-4:] == ["wait", "cancel", "close cluster", "close a"]


def test_few_offsets_that_are_left_wait_for_more() -> None:
    driver = ahead_bench(latest=14)
    driver.engine.run()
    assert "begin" not in driver.events
    assert driver.writer.written == [(1, "t-0[0, 10)"), (2, "t-0[10, 14)")]


def test_a_batch_that_does_not_begin_does_not_count_as_planned() -> None:
    """Else a pipeline that waits for enough offsets would begin its waiting anew."""
    driver = ahead_bench(latest=14)
    driver.engine.run()
    planner, entry = driver.engine._planner, driver.stores[0].entry
    assert entry is not None
    newest = planner._planned
    driver.cluster.latest = 20
    planner._target = None
    assert planner.following(entry, driver.cluster.snapshot(), offsets_min=7) is None
    assert planner._planned is newest
    assert planner.following(entry, driver.cluster.snapshot(), offsets_min=6) is not None


def test_it_asks_no_broker_so_that_none_can_hold_a_commit_up() -> None:
    driver = ahead_bench()
    driver.world.fail("snapshot", None, None, BrokerUnreachableError(addresses=("h:1",), timeout_ms=1, cause="gone"))
    driver.engine.run()
    assert batches(driver)[-3:] == ["snapshot", "read a", "snapshot"], "it was away when all was committed"
    assert [batch for batch, _ in driver.stores[0].rows] == [1, 2, 3]


def test_a_view_that_is_old_is_not_planned_from_again() -> None:
    driver = ahead_bench(latest=40)

    def slow() -> None:
        driver.clock.now_s += 11

    driver.world.fail("write", None, slow)
    driver.engine.run()
    assert batches(driver)[:8] == ["snapshot", "write", "begin", "write", "commit a", "wait", "commit a", "snapshot"]
    assert [batch for batch, _ in driver.stores[0].rows] == [1, 2, 3, 4]


def test_with_several_stores_it_waits_for_all_of_them() -> None:
    world = World()
    driver = ahead_bench(world=world, stores=[FakeStore(world, "a"), FakeStore(world, "b")])
    driver.world.fail("commit b", None, StoreUnavailableError(store="b", cause="gone fishing"))
    driver.engine.run()
    assert [batch for batch, _ in driver.stores[0].rows] == [1, 2, 3]
    assert [batch for batch, _ in driver.stores[1].rows] == [1, 2, 3]
    behind = world.after("cancel")
    assert behind[:3] == ["read a", "read b", "commit b"], "the rows are those that the first store has"


def test_one_that_spark_does_not_end_is_no_reason_to_write_beside_it() -> None:
    class Endless:
        cancelled = 0

        def result(self) -> Any:
            raise AssertionError("nobody waits for it")

        def cancel(self) -> bool:
            self.cancelled += 1
            return self.cancelled > 1

    endless = Endless()
    ahead = PrefetchedBatch(begun=None, writing=endless)  # type: ignore[arg-type]
    with pytest.raises(DirectKafkaError, match="has not ended"):
        ahead.abort()
    ahead.abort()
