"""Whose error it is that Spark reports, and what it stops."""

from __future__ import annotations

import threading

import pytest
from tests.unit.spark.dstream.scheduler import Scheduler

from directkafka.errors.streams import BatchFailedError
from directkafka.spark.dstream import batch_tracker, batches
from directkafka.spark.dstream.batches import Batches

FIRST, SECOND, THIRD = 1_000, 2_000, 3_000


class World:
    """Two batches that are planned, and a scheduler."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.batches = Batches()
        self.batches.jvm = self.scheduler  # type: ignore[assignment]
        self.batches.statuses.listen(0)
        for batch_ms in (FIRST, SECOND):
            self.batches.plan(batch_ms)

    def failed(self) -> int:
        """The first batch that cannot begin."""
        for batch_ms in (FIRST, SECOND, THIRD):
            try:
                self.batches.check(batch_ms)
            except BatchFailedError:
                return batch_ms
        return 0


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(batches, "EVENTS_S", 0.1)
    return World()


def test_without_an_error_every_batch_may_begin(world: World) -> None:
    world.scheduler.waiting = {SECOND}
    world.batches.begin(SECOND)
    assert world.failed() == 0


def test_a_batch_that_was_dropped_takes_no_batch_before_it_along(world: World) -> None:
    world.scheduler.waiting, world.scheduler.reported = {FIRST}, "no such column"
    world.batches.begin(FIRST)
    with pytest.raises(BatchFailedError, match="Spark has reported: no such column"):
        world.batches.begin(SECOND)
    with pytest.raises(BatchFailedError):
        world.batches.check()


def test_an_error_of_an_output_that_is_not_guarded_is_that_of_the_first_batch_that_waits(world: World) -> None:
    """A batch that has failed stays with those that wait."""
    world.batches.statuses.succeed(FIRST)
    world.scheduler.waiting, world.scheduler.reported = {SECOND}, "no such column"
    assert world.failed() == SECOND


def test_an_error_when_all_is_done_stops_what_comes_next(world: World) -> None:
    for batch_ms in (FIRST, SECOND):
        world.batches.statuses.succeed(batch_ms)
    world.scheduler.reported = "no such column"
    assert world.failed() == THIRD


def test_a_success_that_is_on_its_way_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. The first batch ends, and leaves the queue. 2. The second one fails. 3. Spark's event of the first comes."""
    monkeypatch.setattr(batches, "EVENTS_S", 20.0)
    world.scheduler.waiting, world.scheduler.reported = {SECOND}, "no such column"
    threading.Timer(0.02, world.batches.statuses.succeed, [FIRST]).start()
    assert world.failed() == SECOND


def test_an_output_waits_until_it_is_known_how_the_batch_before_ended(world: World) -> None:
    """Its first output has failed, is not guarded, and Spark is about to say so."""
    world.scheduler.waiting = {FIRST, SECOND}
    threading.Timer(0.02, lambda: setattr(world.scheduler, "reported", "no such column")).start()
    with pytest.raises(BatchFailedError, match="no such column"):
        world.batches.begin(SECOND)


def test_where_batches_run_side_by_side_an_output_does_not_wait_for_an_older_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "EVENTS_S", 60.0)
    world.scheduler.is_serial = False
    world.scheduler.waiting = {FIRST, SECOND}
    world.batches.begin(SECOND)


def test_a_batch_is_not_done_while_spark_has_an_error_that_may_be_its_own(world: World) -> None:
    """Its first output failed, its last one succeeded, and Spark counts it as done. Nobody heard its events."""
    world.batches.statuses.listen_no_more()
    world.scheduler.reported = "no such column"
    with pytest.raises(BatchFailedError):
        world.batches.is_done(FIRST)


def test_what_nobody_can_be_asked_about_does_not_fail() -> None:
    alone = Batches()
    alone.plan(FIRST)
    alone.begin(FIRST)
    assert alone.pending() == set()
    assert not alone.is_done(FIRST)


def test_batches_that_spark_said_nothing_of_for_long_are_not_blamed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is the time of a window, which never runs by itself."""
    monkeypatch.setattr(batch_tracker, "_REPORT_S", 0.0)
    world.scheduler.waiting = {SECOND}
    world.batches.statuses.settle(world.scheduler.waiting)
    world.scheduler.reported = "no such column"
    assert world.failed() == SECOND
