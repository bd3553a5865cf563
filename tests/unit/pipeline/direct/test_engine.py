"""The engine's steps among fakes: their order, what a failure stops, what a retry does again, and what ends a run."""

from __future__ import annotations

import pytest
from tests.unit.pipeline.fakes import PARTITION, FakeStore, World, bench

from directkafka.errors import (
    BrokerResponseError,
    BrokerUnreachableError,
    CommitUnknownError,
    DataLossError,
    DirectKafkaError,
    EnvironmentFaultError,
    FencedError,
    RowCountError,
    StoreUnavailableError,
    TransformError,
    WorkerLostError,
)
from directkafka.offsets import Exact, Positions
from directkafka.options.limits import MinOffsets
from directkafka.pipeline.progress import BatchReport
from directkafka.planning.trigger import POLL_MS, Backlog, Custom, Interval, Moment

AWAY = StoreUnavailableError(store="a", cause="gone fishing")
TAKE_OVER = ["check", "fence a", "prepare", "read a"]
ORIGIN = ["snapshot", "commit a"]
END = ["close cluster", "close a"]


def test_a_run_fences_reads_plans_writes_and_commits_in_this_order() -> None:
    driver = bench(latest=10)
    driver.engine.run()
    batch, look = ["snapshot", "write", "commit a"], ["snapshot"]
    assert driver.events == [*TAKE_OVER, *ORIGIN, *batch, *look, *END]
    assert driver.writer.written == [(1, "t-0[0, 10)")]


def test_a_pipeline_that_ran_before_goes_on_at_its_ledgers_end() -> None:
    first_driver = bench(latest=10)
    first_driver.engine.run()
    two = bench(stores=[FakeStore(World(), "a", first_driver.stores[0].entry, generation=1)], latest=15)
    two.engine.run()
    assert two.writer.written == [(2, "t-0[10, 15)")]
    assert two.stores[0].entry is not None
    assert two.stores[0].entry.generation == 2


@pytest.mark.parametrize("step", ["check", "fence a", "prepare", "read a", "write", "commit a", "snapshot"])
def test_an_error_that_cannot_pass_stops_the_run_at_once_and_nothing_runs_behind_it(step: str) -> None:
    driver = bench(latest=10)
    driver.world.fail(step, TransformError(source="sql", cause="no such column"))
    with pytest.raises(TransformError):
        driver.engine.run()
    assert driver.world.after(step) == END


@pytest.mark.parametrize("step", ["check", "fence a", "prepare", "read a", "write", "commit a", "snapshot"])
def test_an_error_that_may_pass_at_any_step_costs_a_try_and_no_record(step: str) -> None:
    driver = bench(latest=10)
    driver.world.fail(step, AWAY, AWAY)
    driver.engine.run()
    assert driver.stores[0].entry is not None
    assert driver.stores[0].entry.batch_id == 1
    assert driver.stores[0].rows == [(1, driver.writer.attempts[-1])]


def test_a_batch_that_failed_is_done_again_from_the_ledger_under_another_attempt() -> None:
    driver = bench(latest=10)
    driver.world.fail("commit a", None, AWAY)
    driver.engine.run()
    tries = ["snapshot", "write", "commit a", "read a", "snapshot", "write", "commit a", "snapshot"]
    assert driver.events == [*TAKE_OVER, *ORIGIN, *tries, *END]
    assert len(set(driver.writer.attempts)) == 2


def test_a_commit_whose_success_was_not_heard_of_is_not_done_twice() -> None:
    driver = bench(latest=10)
    store = driver.stores[0]
    driver.world.fail("answer a", None, AWAY)
    driver.engine.run()
    assert [batch for batch, _ in store.rows] == [1]
    assert driver.writer.written == [(1, "t-0[0, 10)")]
    # It is told like any other.
    assert [(report.batch_id, report.records) for report in driver.reports] == [(1, 10)]
    assert driver.cluster.told == [10]
    assert driver.engine._status.view.batch_count == 1
    assert list((driver.engine._status.view.ends or {}).values()) == [10]


def test_a_retry_of_the_take_over_does_not_fence_again_what_is_fenced() -> None:
    driver = bench(latest=10)
    driver.world.fail("read a", AWAY)
    driver.engine.run()
    assert driver.events.count("fence a") == 1
    assert driver.stores[0].generation == 1


@pytest.mark.parametrize("step", ["fence a", "read a", "commit a"])
def test_a_fence_is_never_met_with_another_try(step: str) -> None:
    driver = bench(latest=10)
    driver.world.fail(step, FencedError(store="a", pipeline="flights", held=1, found=2))
    with pytest.raises(FencedError):
        driver.engine.run()
    assert driver.events.count(step) == 1
    assert driver.stop.waits_s == []


def test_a_driver_that_was_passed_while_its_store_was_away_finds_out_before_it_writes_again() -> None:
    driver = bench(latest=10)
    store = driver.stores[0]

    def a_newer_driver_comes() -> None:
        store.generation += 1
        raise AWAY

    driver.world.fail("commit a", None, a_newer_driver_comes)
    with pytest.raises(FencedError) as raised:
        driver.engine.run()
    assert (raised.value.held, raised.value.found) == (1, 2)
    assert len(driver.writer.written) == 1
    assert store.rows == []


def test_an_unknown_commit_stops_the_run_for_the_restart_to_read_the_ledger() -> None:
    driver = bench(latest=10)
    error = CommitUnknownError(store="a", pipeline="flights", batch_id=1, cause="no answer")
    driver.world.fail("commit a", None, error)
    with pytest.raises(CommitUnknownError):
        driver.engine.run()
    assert driver.events[-3:] == ["commit a", *END]


@pytest.mark.parametrize(
    "error",
    [
        RowCountError(store="a", sink="rows", reported=2, found=0),
        WorkerLostError(cause="killed"),
        BrokerUnreachableError(addresses=("h:1",), timeout_ms=1, cause="refused"),
        BrokerResponseError(api="Fetch", code=6, name="NOT_LEADER", retriable=True, subject="t-0"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_these_failures_are_worth_another_try(error: DirectKafkaError) -> None:
    driver = bench(latest=10)
    driver.world.fail("write", error)
    driver.engine.run()
    assert len(driver.writer.written) == 1


def test_what_does_not_pass_in_time_is_raised_as_it_is() -> None:
    driver = bench(latest=10, retry_ms_max=10_000)
    driver.world.fail("write", *[AWAY] * 1_000)
    with pytest.raises(StoreUnavailableError):
        driver.engine.run()
    assert sum(driver.stop.waits_s) <= 10.0
    assert len(driver.stop.waits_s) >= 3
    assert driver.stores[0].rows == []


def test_a_batch_that_took_longer_than_the_patience_before_it_failed_is_tried_again_all_the_same() -> None:
    driver = bench(latest=10, retry_ms_max=1_000)

    def take_long_and_fail() -> None:
        driver.clock.now_s += 600
        raise AWAY

    driver.world.fail("write", take_long_and_fail)
    driver.engine.run()
    assert [batch for batch, _ in driver.stores[0].rows] == [1]


# Stopping ---------------------------------------------------------------------------------------------------


def test_a_stop_before_the_start_disturbs_nobody() -> None:
    driver = bench(latest=10)
    driver.stop.set()
    driver.engine.run()
    assert driver.events == ["close cluster"]


def test_a_stop_lets_the_batch_in_flight_commit_and_begins_no_other() -> None:
    driver = bench(latest=10, max_offsets=2)
    driver.world.fail("write", driver.stop.set)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 2)")]
    assert driver.stores[0].rows == [(1, driver.writer.attempts[0])]


@pytest.mark.parametrize("error", [AWAY, EnvironmentFaultError(what="Spark was shut down", remedy="")])
def test_a_stop_while_a_batch_fails_is_a_clean_end(error: DirectKafkaError) -> None:
    driver = bench(latest=10)

    def stop_and_fail() -> None:
        driver.stop.set()
        raise error

    driver.world.fail("write", stop_and_fail)
    driver.engine.run()
    assert driver.stores[0].rows == []
    assert driver.world.after("write") == END


def test_a_stop_during_the_pause_between_two_tries_is_a_clean_end() -> None:
    driver = bench(latest=10, stop_after_waits=2)
    driver.world.fail("write", *[AWAY] * 1_000)
    driver.engine.run()
    assert len(driver.stop.waits_s) == 2
    assert driver.events[-2:] == END


def test_a_stop_hides_no_fence() -> None:
    driver = bench(latest=10)
    store = driver.stores[0]

    def stop_and_be_passed() -> None:
        driver.stop.set()
        store.generation += 1

    driver.world.fail("write", stop_and_be_passed)
    with pytest.raises(FencedError):
        driver.engine.run()


def test_a_stop_hides_no_error_of_the_users() -> None:
    driver = bench(latest=10)

    def stop_and_fail() -> None:
        driver.stop.set()
        raise TransformError(source="sql", cause="overflow")

    driver.world.fail("write", stop_and_fail)
    with pytest.raises(TransformError):
        driver.engine.run()


@pytest.mark.parametrize("error", [AWAY, OSError("a socket"), RuntimeError("anything")])
def test_a_store_that_cannot_be_closed_does_not_hide_why_the_run_ended(error: Exception) -> None:
    driver = bench(latest=10)
    driver.world.fail("commit a", FencedError(store="a", pipeline="flights", held=1, found=2))
    driver.world.fail("close a", error)
    with pytest.raises(FencedError):
        driver.engine.run()


# Triggers ---------------------------------------------------------------------------------------------------


def test_available_now_ends_at_what_was_there_at_the_start_however_much_comes_in_meanwhile() -> None:
    driver = bench(latest=10, max_offsets=4)
    driver.cluster.moves.extend([10, 10, 20, 30, 40, 50])
    driver.engine.run()
    assert [ranges for _, ranges in driver.writer.written] == ["t-0[0, 4)", "t-0[4, 8)", "t-0[8, 10)"]


def test_a_retry_does_not_move_where_available_now_ends() -> None:
    driver = bench(latest=10)
    driver.cluster.moves.extend([10, 10, 99])
    driver.world.fail("write", AWAY)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 10)")]


def test_a_view_that_lags_behind_the_ledger_sets_no_target_and_is_looked_at_again() -> None:
    first = bench(latest=10)
    first.engine.run()
    driver = bench(stores=[FakeStore(World(), "a", first.stores[0].entry, generation=1)])
    driver.cluster.moves.extend([8, 15])  # a new leader's high watermark, then the real one
    driver.engine.run()
    assert driver.writer.written == [(2, "t-0[10, 15)")]


def test_a_loss_that_a_second_look_shows_too_is_an_error() -> None:
    first = bench(latest=10)
    first.engine.run()
    driver = bench(stores=[FakeStore(World(), "a", first.stores[0].entry, generation=1)], latest=8)
    with pytest.raises(DataLossError):
        driver.engine.run()
    assert driver.cluster.looks == [False, True]
    assert driver.writer.written == []


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_start_that_seems_to_be_behind_the_log_is_looked_for_again(fail_on_data_loss: bool) -> None:
    starting = Positions(partitions={PARTITION: Exact(10)})
    driver = bench(latest=15, starting=starting, fail_on_data_loss=fail_on_data_loss)
    driver.cluster.moves.extend([8, 15])  # a new leader's high watermark, then the real one
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[10, 15)")]
    assert driver.cluster.looks[:2] == [False, True]


def test_a_policy_of_the_user_s_own_says_when_batches_start() -> None:
    """By backlog and time since the last batch; asked again when what it said is over."""
    asked: list[int | None] = []

    def policy(moment: Moment) -> float:
        asked.append(moment.backlog)
        return 0 if (moment.backlog or 0) >= 10 else 700

    driver = bench(latest=3, trigger=Custom(policy), stop_after_waits=6)
    driver.cluster.moves.extend([3, 3, 3, 5, 9, 13, 13])
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 3)"), (2, "t-0[3, 13)")]
    assert asked[:3] == [2, 6, 10]


def ran_before(latest: int = 10) -> FakeStore:
    first = bench(latest=latest)
    first.engine.run()
    return FakeStore(World(), "a", first.stores[0].entry, generation=1)


def test_a_log_that_was_cut_and_has_grown_again_since_the_last_batch_is_a_loss_with_its_numbers() -> None:
    driver = bench(stores=[ran_before()], latest=30)
    driver.cluster.leader_epoch, driver.cluster.cut_at = 2, 4
    with pytest.raises(DataLossError, match=r"LOG_TRUNCATED.*epoch 0.*epoch 2") as caught:
        driver.engine.run()
    assert (caught.value.lost_from, caught.value.lost_until) == (4, 10)
    assert driver.writer.written == []


def test_a_new_leader_that_has_all_of_the_log_is_no_loss_and_its_epoch_is_the_next_batch_s() -> None:
    driver = bench(stores=[ran_before()], latest=30)
    driver.cluster.leader_epoch, driver.cluster.cut_at = 2, 10
    driver.engine.run()
    assert driver.writer.written == [(2, "t-0[10, 30)")]
    assert driver.stores[0].entry is not None
    assert [here.leader_epoch for here in driver.stores[0].entry.progress] == [2]


def test_a_cut_log_that_is_accepted_is_read_on_from_where_the_pipeline_is() -> None:
    driver = bench(stores=[ran_before()], latest=30, fail_on_data_loss=False)
    driver.cluster.leader_epoch, driver.cluster.cut_at = 2, 4
    driver.engine.run()
    assert driver.writer.written == [(2, "t-0[10, 30)")]


def test_one_stale_answer_doubles_nothing_where_losses_are_accepted() -> None:
    driver = bench(stores=[ran_before()], latest=30, fail_on_data_loss=False)
    driver.cluster.stale_ids.append("id-of-yesterday")
    driver.engine.run()
    assert driver.writer.written == [(2, "t-0[10, 30)")]


def test_a_topic_made_again_is_read_from_its_start_where_losses_are_accepted() -> None:
    driver = bench(stores=[ran_before()], latest=30, fail_on_data_loss=False)
    driver.cluster.topic_id = "id-2"
    driver.engine.run()
    assert driver.writer.written == [(2, "t-0[0, 30)")]


@pytest.mark.parametrize("trigger", [Interval(0), Interval(1), Backlog(10, 1_000)])
def test_a_pipeline_with_nothing_to_do_does_not_keep_the_brokers_busy(trigger: Interval | Backlog) -> None:
    driver = bench(latest=0, trigger=trigger, stop_after_waits=50)
    began_s = driver.clock.now_s
    driver.engine.run()
    looks_a_second = len(driver.cluster.looks) / (driver.clock.now_s - began_s)
    assert looks_a_second <= 2.2 * 1000 / POLL_MS


def test_a_driver_with_nothing_to_do_notices_within_seconds_that_a_newer_one_took_over() -> None:
    driver = bench(latest=0, trigger=Interval(100))
    passed_s = driver.clock.now_s + 30

    def newer_driver() -> None:
        if driver.clock.now_s >= passed_s:
            driver.stores[0].generation = 2

    driver.world.fail("snapshot", *[newer_driver] * 1_000)
    with pytest.raises(FencedError):
        driver.engine.run()
    assert driver.clock.now_s <= passed_s + 6
    assert driver.events.count("read a") <= 8


def test_a_pipeline_with_much_to_do_and_no_interval_does_not_wait_between_batches() -> None:
    driver = bench(latest=10, max_offsets=1, trigger=Interval(0), stop_after_waits=1)
    driver.engine.run()
    assert len(driver.writer.written) == 10
    assert driver.stop.waits_s == [POLL_MS / 1000]


def test_a_broker_that_does_not_answer_while_a_backlog_is_measured_is_tried_again() -> None:
    driver = bench(latest=10, trigger=Backlog(5, 60_000), max_offsets=5, stop_after_waits=3)
    unreachable = BrokerUnreachableError(addresses=("h:1",), timeout_ms=1, cause="refused")
    driver.world.fail("snapshot", None, None, unreachable)  # the origin, the first batch, then the look at the backlog
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 5)"), (2, "t-0[5, 10)")]


def test_a_very_long_interval_is_waited_for_in_parts() -> None:
    driver = bench(trigger=Interval(10**15), stop_after_waits=3)
    driver.engine.run()
    assert driver.stop.waits_s == [5.0] * 3


def test_a_driver_that_waits_for_its_next_interval_notices_a_newer_one_within_seconds() -> None:
    driver = bench(latest=1, trigger=Interval(3_600_000))
    passed_s = driver.clock.now_s + 30

    def newer_driver(timeout: float | None = None) -> bool:
        if driver.clock.now_s >= passed_s:
            driver.stores[0].generation = 2
        return wait(timeout)

    wait, driver.stop.wait = driver.stop.wait, newer_driver  # type: ignore[method-assign]
    with pytest.raises(FencedError):
        driver.engine.run()
    assert driver.clock.now_s <= passed_s + 11


# Telling ----------------------------------------------------------------------------------------------------


def test_each_committed_batch_is_told_with_its_numbers() -> None:
    driver = bench(latest=10, max_offsets=6)
    driver.engine.run()
    told = [
        (report.batch_id, report.offsets, report.records, dict(report.rows), report.backlog)
        for report in driver.reports
    ]
    assert told == [(1, 6, 6, {"rows": 6}, 4), (2, 4, 4, {"rows": 4}, 0)]


def test_a_report_callback_that_raises_costs_no_batch_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def report(_: BatchReport) -> None:
        raise AWAY

    driver = bench(latest=10, max_offsets=5, report=report)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 5)"), (2, "t-0[5, 10)")]
    assert "the report callback failed on batch 2" in caplog.text


def test_the_outside_is_told_how_far_the_pipeline_is_once_a_batch_is_committed() -> None:
    driver = bench(latest=10, max_offsets=6)
    driver.engine.run()
    assert driver.cluster.told == [6, 10]


# Waiting for enough -----------------------------------------------------------------------------------------


def test_a_batch_waits_for_enough_offsets_but_not_the_first_of_a_run() -> None:
    driver = bench(latest=3, trigger=Interval(1000), min_offsets=MinOffsets(10, 60_000), stop_after_waits=5)
    driver.cluster.moves.extend([3, 3, 4, 12, 13])
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 3)"), (2, "t-0[3, 13)")]


def test_a_batch_waits_no_longer_than_the_delay() -> None:
    driver = bench(latest=3, trigger=Interval(1000), min_offsets=MinOffsets(10, 3_000), stop_after_waits=5)
    driver.cluster.moves.extend([3, 3, 4])
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 3)"), (2, "t-0[3, 4)")]


def test_a_pipeline_that_commits_all_the_time_reads_its_ledgers_at_the_start_alone() -> None:
    driver = bench(latest=1, trigger=Interval(1000), stop_after_waits=40)
    driver.cluster.moves.extend(range(1, 60))
    driver.engine.run()
    assert len(driver.writer.written) > 20
    assert driver.events.count("read a") == 1


def test_a_batch_that_failed_waits_for_no_more_offsets() -> None:
    driver = bench(latest=3, trigger=Interval(1000), min_offsets=MinOffsets(10, 60_000), stop_after_waits=6)
    driver.world.fail("commit a", None, AWAY)
    driver.engine.run()
    assert [number for number, _ in driver.stores[0].rows] == [1]


def test_an_available_now_run_whose_first_view_does_not_know_the_topic_looks_again() -> None:
    ran = bench(latest=10)
    ran.engine.run()
    driver = bench(stores=[FakeStore(ran.world, "a", ran.stores[0].entry, 1)], latest=30, fail_on_data_loss=False)
    driver.cluster.blind_views = 1
    driver.engine.run()
    assert driver.writer.written == [(2, "t-0[10, 30)")]


def test_an_available_now_run_reaches_its_end_without_waiting_for_more() -> None:
    driver = bench(latest=8, max_offsets=5, min_offsets=MinOffsets(5, 60_000))
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 5)"), (2, "t-0[5, 8)")]


def test_an_available_now_run_whose_later_view_does_not_know_the_topic_goes_on_to_its_end() -> None:
    driver = bench(latest=25, max_offsets=10, fail_on_data_loss=False)
    driver.world.fail("write", lambda: setattr(driver.cluster, "blind_views", 1))
    driver.engine.run()
    assert [ranges for _, ranges in driver.writer.written] == ["t-0[0, 10)", "t-0[10, 20)", "t-0[20, 25)"]


def test_a_stop_before_the_second_look_at_a_loss_ends_the_run_and_is_no_loss() -> None:
    """The view that shows less than there was is of a broker that restarts, and the second one would follow at once."""
    first = bench(latest=10)
    first.engine.run()
    driver = bench(stores=[FakeStore(World(), "a", first.stores[0].entry, generation=1)], latest=8)
    driver.world.fail("snapshot", driver.stop.set)
    driver.engine.run()
    assert driver.cluster.looks == [False]
    assert driver.writer.written == []
