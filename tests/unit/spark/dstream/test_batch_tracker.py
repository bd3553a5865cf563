"""When a batch of a direct stream counts as done."""

from __future__ import annotations

import pytest

from directkafka.errors.streams import BatchFailedError
from directkafka.spark.dstream import batch_tracker
from directkafka.spark.dstream.batch_tracker import BatchStatuses


@pytest.fixture
def statuses() -> BatchStatuses:
    heard = BatchStatuses()
    heard.listen(0)
    return heard


def test_a_batch_is_done_once_spark_says_that_it_succeeded(statuses: BatchStatuses) -> None:
    assert not statuses.is_done(1_000, lambda: {1_000})
    assert not statuses.is_done(1_000, set), "it has left the queue, and nobody knows how it ended"
    statuses.succeed(1_000)
    assert statuses.is_done(1_000, lambda: {2_000})


def test_a_time_that_only_a_window_has_asked_for_is_done_with_a_later_batch(statuses: BatchStatuses) -> None:
    statuses.succeed(2_000)
    assert statuses.is_done(1_000, set)


def test_when_the_context_has_stopped_what_has_left_its_queue_has_ended(statuses: BatchStatuses) -> None:
    statuses.listen_no_more()
    assert statuses.is_done(1_000, set)
    assert not statuses.is_done(2_000, lambda: {2_000})
    statuses.fail(2_000, "no such column")
    with pytest.raises(BatchFailedError):
        statuses.is_done(2_000, set)


def test_a_batch_that_neither_waits_nor_has_succeeded_is_doubtful(
    statuses: BatchStatuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch_ms in (1_000, 2_000, 3_000):
        statuses.plan(batch_ms)
    statuses.succeed(1_000)
    statuses.plan(1_000)
    assert statuses.undetermined({3_000}) == [2_000], "what has succeeded may be asked for again"
    statuses.settle({3_000})
    assert statuses.undetermined({3_000}) == [2_000], "its error may be on its way"
    monkeypatch.setattr(batch_tracker, "_REPORT_S", 0.0)
    statuses.settle({3_000})
    assert statuses.undetermined(set()) == [3_000], "what waits is not trusted before it has ended"


def test_a_batch_before_it_that_still_runs_may_fail(statuses: BatchStatuses) -> None:
    statuses.succeed(2_000)
    assert not statuses.is_done(2_000, lambda: {1_000})
    statuses.fail(1_000, "no such column")
    with pytest.raises(BatchFailedError, match="no such column"):
        statuses.is_done(2_000, set)


def test_a_failure_counts_for_its_batch_and_all_later_ones(statuses: BatchStatuses) -> None:
    for batch_ms in (1_000, 2_000, 3_000):
        statuses.succeed(batch_ms)
    statuses.fail(3_000, "later")
    statuses.fail(2_000, "first")
    statuses.fail(3_000, "later")
    assert statuses.is_done(1_000, set)
    with pytest.raises(BatchFailedError) as caught:
        statuses.check(3_000)
    assert (caught.value.batch, caught.value.cause) == ("1970-01-01 00:00:02.000 UTC", "first")


def test_while_nobody_listens_nothing_is_done() -> None:
    statuses = BatchStatuses()
    statuses.succeed(1_000)
    assert not statuses.is_done(1_000, set)


def test_what_ended_before_anybody_listened_is_done_when_it_has_left_the_queue() -> None:
    statuses = BatchStatuses()
    statuses.listen(3_000)
    statuses.listen(9_000)
    assert not statuses.is_done(2_000, lambda: {2_000})
    assert statuses.is_done(2_000, lambda: {3_000})
    assert not statuses.is_done(3_000, set)


def test_old_batches_are_forgotten(statuses: BatchStatuses) -> None:
    statuses.succeed(1_000)
    assert statuses.is_done(1_000, set)
    statuses.forget(2_000)
    assert not statuses.is_done(1_000, set)
