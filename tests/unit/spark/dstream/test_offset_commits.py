"""Offsets on their way to the group: their order, what they wait for, and what becomes of those that cannot go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from tests.waiting import until

from directkafka.errors import DirectKafkaError
from directkafka.errors.streams import BatchFailedError, OffsetsNotCommittedError
from directkafka.offsets import TopicPartition
from directkafka.spark.dstream.offset_commits import FLUSH_S, GroupCommits, Queued

PARTITION = TopicPartition("flights", 0)


class Group:
    """A consumer group, and batches that are done when the test says so."""

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.done: set[int] = set()
        self.failed: set[int] = set()
        self.error: Exception | None = None
        self.answers: list[tuple[int, DirectKafkaError | None]] = []
        self.commits = GroupCommits(self.commit, self.is_done)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.committed.append(offsets[PARTITION])

    def is_done(self, batch_ms: int | None) -> bool:
        if batch_ms in self.failed or (batch_ms is None and self.failed):
            raise BatchFailedError(batch=f"{batch_ms}", cause="no such column")
        return batch_ms is None or batch_ms in self.done

    def add(self, offset: int, batch_ms: int | None) -> None:
        def answered(offsets: Mapping[TopicPartition, int], error: DirectKafkaError | None) -> None:
            self.answers.append((offsets[PARTITION], error))

        self.commits.add(Queued({PARTITION: offset}, answered, batch_ms))


@pytest.fixture
def group() -> Iterator[Group]:
    consumer_group = Group()
    yield consumer_group
    consumer_group.commits.close(timeout_s=0)


def test_offsets_wait_for_their_batch_and_go_in_order(group: Group) -> None:
    group.done = {2_000}
    group.add(10, 1_000)
    group.add(20, 2_000)
    assert not group.commits.flush(timeout_s=0.1)
    assert group.committed == []
    group.done.add(1_000)
    assert group.commits.flush(timeout_s=20)
    assert group.committed == [20], "what is done by then goes together"
    assert group.answers == [(10, None), (20, None)]


def test_a_batch_that_ends_before_an_older_one_does_not_take_the_group_back(group: Group) -> None:
    """Two run at once, and the younger one has queued its offsets first; it is done when the older one is."""
    group.add(20, 2_000)
    group.add(10, 1_000)
    group.done = {1_000, 2_000}
    assert group.commits.flush(timeout_s=20)
    assert group.committed == [20]
    assert group.answers == [(20, None), (10, None)]


def test_offsets_that_are_queued_while_the_first_ones_are_looked_at_go_with_them(group: Group) -> None:
    """The older batch ends at this moment, and so the younger one is done."""
    is_done = group.is_done

    def end_the_older_one(batch_ms: int | None) -> bool:
        if not group.done:
            group.done = {1_000, 2_000}
            group.add(10, 1_000)
        return is_done(batch_ms)

    group.commits._is_done = end_the_older_one  # type: ignore[method-assign]
    group.add(20, 2_000)
    assert group.commits.flush(timeout_s=20)
    assert group.committed == [20]


def test_what_is_not_done_does_not_part_what_is(group: Group) -> None:
    for offset, batch_ms in ((20, 2_000), (30, 3_000), (10, 1_000)):
        group.add(offset, batch_ms)
    group.done = {1_000, 2_000}
    until(lambda: bool(group.committed), "the two that are done")
    assert group.committed == [20]
    group.done.add(3_000)
    assert group.commits.flush(timeout_s=20)
    assert group.committed == [20, 30]


def test_what_cannot_be_committed_holds_up_nothing_before_it(group: Group) -> None:
    group.add(10, 1_000)
    group.add(20, 2_000)
    group.failed = {2_000}
    group.done = {1_000}
    assert group.commits.flush(timeout_s=20)
    assert group.committed == [10]
    assert [type(error) for _, error in group.answers] == [type(None), BatchFailedError]


def test_offsets_of_no_batch_go_at_once(group: Group) -> None:
    group.add(10, None)
    assert group.commits.flush(timeout_s=20)
    assert group.committed == [10]


def test_offsets_of_no_batch_are_refused_once_a_batch_has_failed(group: Group) -> None:
    group.failed = {1_000}
    group.add(10, None)
    assert group.commits.flush(timeout_s=20)
    assert group.committed == []
    ((_, error),) = group.answers
    assert isinstance(error, BatchFailedError)


def test_offsets_of_a_batch_that_failed_are_answered_with_its_error(group: Group) -> None:
    group.failed = {1_000}
    group.add(10, 1_000)
    assert group.commits.flush(timeout_s=20)
    ((offset, error),) = group.answers
    assert offset == 10
    assert isinstance(error, BatchFailedError)


def test_an_error_that_is_not_ours_is_told_and_the_next_commit_goes(group: Group) -> None:
    group.error = OSError("no route to host")
    for offset in (10, 20):
        group.add(offset, None)
        assert group.commits.flush(timeout_s=20)
    assert group.committed == [20]
    (_, error), (_, nothing) = group.answers
    assert isinstance(error, OffsetsNotCommittedError)
    assert "no route to host" in str(error)
    assert nothing is None


def test_a_flush_ends_behind_the_callbacks_and_in_one_at_once(group: Group) -> None:
    called: list[bool] = []

    def flush(*_: object) -> None:
        called.append(group.commits.flush(timeout_s=20))

    group.commits.add(Queued({PARTITION: 10}, flush, None))
    assert group.commits.flush(timeout_s=20)
    assert called == [True]


def test_a_callback_that_raises_stops_nothing(group: Group) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the user's own")

    group.commits.add(Queued({PARTITION: 10}, fail, None))
    group.add(20, None)
    assert group.commits.flush(timeout_s=20)
    assert group.committed[-1] == 20
    assert group.answers == [(20, None)]


def test_what_is_left_when_the_context_stops_and_what_comes_later_is_answered_and_the_thread_ends(
    group: Group,
) -> None:
    group.add(10, 1_000)
    group.commits.close(timeout_s=0.05)
    ((offset, error),) = group.answers
    assert offset == 10
    assert isinstance(error, OffsetsNotCommittedError)
    assert "flights-0 at 10" in str(error)
    group.add(20, None)
    assert group.committed == []
    assert isinstance(group.answers[1][1], OffsetsNotCommittedError)
    thread = group.commits._thread
    assert thread is not None
    until(lambda: not thread.is_alive(), "the thread goes on")


#: A process with offsets that wait, and a child that goes through Python's end; printed is what the child waited.
FORKS = """
import os, sys, time
from directkafka.spark.dstream.offset_commits import GroupCommits, Queued
GroupCommits(print, lambda batch_ms: False).add(Queued({}, None, 1_000))
begun = time.monotonic()
if (child := os.fork()) == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - begun, flush=True)
os._exit(0)
"""


def test_a_forked_child_does_not_wait_for_its_parents_offsets() -> None:
    code, waited_s = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert int(code) == 3
    assert float(waited_s) < FLUSH_S / 2
