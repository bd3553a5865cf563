from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from directkafka.kafka.producer.partition_queues import PartitionQueues, ProducerBatch
from directkafka.kafka.records.encoder import EncodedBatch
from directkafka.offsets import TopicPartition

FIRST, SECOND = ("one", 9092), ("two", 9092)
PARTITIONS = [TopicPartition("flights", number) for number in range(3)]
TIMEOUT_S = 100.0
#: A first backoff is at most this, and so is any wait of these tests.
BACKOFF_S = 0.5
LATER = 10.0


def batch(partition: int, sequence: int, size: int = 10) -> EncodedBatch:
    data = memoryview(bytes(size))
    return EncodedBatch(target=PARTITIONS[partition], data=data, records=1, raw_bytes=size, base_sequence=sequence)


def queues(
    *batches: EncodedBatch, leaders: Sequence[tuple[str, int] | None] = (FIRST, FIRST, SECOND)
) -> PartitionQueues:
    """With these batches, of a producer that the known leaders have met."""
    known = {partition: leader for partition, leader in zip(PARTITIONS, leaders, strict=True) if leader is not None}
    made = PartitionQueues(delivery_timeout_s=TIMEOUT_S, backoff_s=BACKOFF_S / 2, leaders=known)
    made.add([batch(partition.partition, -1) for partition in known], 0.0)
    for leader in dict.fromkeys(known.values()):
        for sending in made.take(leader, 10_000, 0.0):
            made.acknowledge(sending, 0.0)
    made.acknowledged.clear()
    made.add(batches, 0.0)
    return made


def test_a_partition_s_first_batch_is_alone_on_its_way_until_it_is_acknowledged() -> None:
    box = PartitionQueues(
        delivery_timeout_s=TIMEOUT_S, backoff_s=BACKOFF_S / 2, leaders=dict.fromkeys(PARTITIONS, FIRST)
    )
    box.add([batch(0, 0), batch(0, 1), batch(0, 2), batch(1, 0)], 0.0)
    first, other = box.take(FIRST, 10_000, 0.0)
    assert names([first, other]) == [(0, 0), (1, 0)]
    box.acknowledge(other, 0.0)
    assert box.take(FIRST, 10_000, 0.0) == []
    # Refused in passing, it goes again before any other.
    box.requeue(first, "no leader yet", 0.0, leader_is_stale=False)
    assert box.take(FIRST, 10_000, LATER) == [first]
    box.acknowledge(first, LATER)
    assert names([*box.take(FIRST, 10_000, LATER), *box.take(FIRST, 10_000, LATER)]) == [(0, 1), (0, 2)]


def names(sendings: Iterable[ProducerBatch]) -> list[tuple[int, int]]:
    return [(sending.batch.target.partition, sending.batch.base_sequence) for sending in sendings]


def test_a_request_has_one_batch_of_each_partition_that_the_broker_leads() -> None:
    box = queues(batch(0, 0), batch(0, 1), batch(1, 0), batch(2, 0))
    assert names(box.take(FIRST, 10_000, 0.0)) == [(0, 0), (1, 0)]
    assert names(box.take(FIRST, 10_000, 0.0)) == [(0, 1)]
    assert names(box.take(FIRST, 10_000, 0.0)) == []
    assert names(box.take(SECOND, 10_000, 0.0)) == [(2, 0)]


def test_a_request_is_no_larger_than_it_may_be_and_what_did_not_fit_comes_first_next_time() -> None:
    box = queues(
        *(batch(partition, sequence, 600) for sequence in range(2) for partition in range(3)), leaders=[FIRST] * 3
    )
    assert names(box.take(FIRST, 2_000, 0.0)) == [(0, 0), (1, 0)]
    assert names(box.take(FIRST, 2_000, 0.0)) == [(2, 0), (0, 1)]


def test_a_batch_that_is_larger_than_a_request_goes_alone() -> None:
    box = queues(batch(0, 0, 5_000), batch(1, 0, 5_000))
    assert names(box.take(FIRST, 1_000, 0.0)) == [(0, 0)]
    assert names(box.take(FIRST, 1_000, 0.0)) == [(1, 0)]


def test_what_is_acknowledged_is_counted_and_gone() -> None:
    box = queues(batch(0, 0, 7), batch(1, 0, 5))
    for sending in box.take(FIRST, 10_000, 0.0):
        assert not box.is_empty
        box.acknowledge(sending, 0.0)
    assert box.is_empty
    assert box.bytes == 0
    assert box.acknowledged == {PARTITIONS[0]: 1, PARTITIONS[1]: 1}


def test_a_batch_that_came_back_is_sent_again_after_a_while() -> None:
    box = queues(batch(0, 0))
    (sending,) = box.take(FIRST, 10_000, 0.0)
    box.requeue(sending, "no", 0.0, leader_is_stale=False)
    assert box.take(FIRST, 10_000, 0.0) == []
    assert 0 < (box.next_change(0.0) or 0) <= BACKOFF_S
    assert box.take(FIRST, 10_000, LATER) == [sending]
    assert sending.tries == 2


def test_waits_grow_and_begin_anew_after_a_success() -> None:
    box = queues(batch(0, 0), batch(0, 1))
    waits = []
    now = 0.0
    for _ in range(4):
        (sending,) = box.take(FIRST, 10_000, now)
        box.requeue(sending, "no", now, leader_is_stale=False)
        waits.append(box.next_change(now) or 0.0)
        now += LATER
    assert waits[0] < waits[1] < waits[2] < 1.3
    assert waits[3] < 1.3
    (sending,) = box.take(FIRST, 10_000, now)
    box.acknowledge(sending, now)
    (sending,) = box.take(FIRST, 10_000, now)
    box.requeue(sending, "no", now, leader_is_stale=False)
    assert (box.next_change(now) or 0.0) < waits[1]


def test_nothing_of_a_partition_is_sent_before_all_that_was_on_its_way_is_back_and_then_in_order() -> None:
    """Sequence 0 is refused for a passing reason, 1 and 2 are on their way behind it, 3 waits."""
    box = queues(*(batch(0, sequence) for sequence in range(4)))
    first, second, third = [box.take(FIRST, 10_000, 0.0)[0] for _ in range(3)]
    box.requeue(first, "no", 0.0, leader_is_stale=False)
    assert box.take(FIRST, 10_000, LATER) == []
    assert box.has_earlier(second)
    box.requeue(second, "out of order", LATER, leader_is_stale=False)
    assert box.take(FIRST, 10_000, 2 * LATER) == []
    box.requeue(third, "out of order", 2 * LATER, leader_is_stale=False)
    assert [names(box.take(FIRST, 10_000, 3 * LATER)) for _ in range(4)] == [[(0, 0)], [(0, 1)], [(0, 2)], [(0, 3)]]


def test_a_later_batch_that_was_written_after_all_is_not_sent_again() -> None:
    """The answer to sequence 0 was lost, but it was written; so sequence 1 could be."""
    box = queues(batch(0, 0), batch(0, 1), batch(0, 2))
    first, second = [box.take(FIRST, 10_000, 0.0)[0] for _ in range(2)]
    box.requeue(first, "lost", 0.0, leader_is_stale=False)
    box.acknowledge(second, 0.0)
    assert [names(box.take(FIRST, 10_000, LATER)) for _ in range(3)] == [[(0, 0)], [(0, 2)], []]


def test_one_partition_does_not_wait_for_another() -> None:
    box = queues(batch(0, 0), batch(1, 0), batch(1, 1))
    stuck, _ = box.take(FIRST, 10_000, 0.0)
    box.requeue(stuck, "no", 0.0, leader_is_stale=True)
    assert names(box.take(FIRST, 10_000, 0.0)) == [(1, 1)]


def test_only_the_first_batch_of_a_partition_has_none_before_it() -> None:
    box = queues(batch(0, 0), batch(0, 1), batch(1, 0))
    first, other = box.take(FIRST, 10_000, 0.0)
    (second,) = box.take(FIRST, 10_000, 0.0)
    assert [box.has_earlier(sending) for sending in (first, second, other)] == [False, True, False]
    box.acknowledge(first, 0.0)
    assert not box.has_earlier(second)


def test_a_partition_without_leader_waits_for_one() -> None:
    box = queues(batch(0, 0), batch(2, 0), leaders=[None, None, SECOND])
    assert box.leaderless(0.0) == [PARTITIONS[0]]
    assert box.take(FIRST, 10_000, 0.0) == []
    box.set_leader(PARTITIONS[0], FIRST)
    assert box.leaderless(0.0) == []
    assert names(box.take(FIRST, 10_000, 0.0)) == [(0, 0)]


def test_a_leader_that_is_stale_is_looked_up_again_once_nothing_is_on_its_way_to_it() -> None:
    box = queues(batch(0, 0), batch(0, 1))
    first, second = [box.take(FIRST, 10_000, 0.0)[0] for _ in range(2)]
    box.requeue(first, "not leader", 0.0, leader_is_stale=True)
    assert box.leaderless(LATER) == []
    box.requeue(second, "not leader", 0.0, leader_is_stale=True)
    assert box.leaderless(0.0) == []
    assert box.leaderless(LATER) == [PARTITIONS[0]]
    box.set_leader(PARTITIONS[0], SECOND)
    assert names(box.take(SECOND, 10_000, LATER)) == [(0, 0)]
    assert box.leaders[PARTITIONS[0]] == SECOND


def test_a_leader_that_was_not_found_is_asked_for_again_after_a_while() -> None:
    box = queues(batch(0, 0), leaders=[None] * 3)
    box.back_off(PARTITIONS[0], "it has no leader", 0.0)
    assert box.leaderless(0.0) == []
    assert box.leaderless(LATER) == [PARTITIONS[0]]
    late = box.overdue(TIMEOUT_S)
    assert late is not None
    assert late.reason == "it has no leader"


@pytest.mark.parametrize("is_sent", [True, False])
def test_what_is_not_acknowledged_in_time_is_overdue(is_sent: bool) -> None:
    box = queues(batch(0, 0), batch(0, 1))
    if is_sent:
        box.take(FIRST, 10_000, 0.0)
    assert box.overdue(TIMEOUT_S - 0.1) is None
    late = box.overdue(TIMEOUT_S)
    assert late is not None
    assert (late.batch.base_sequence, late.tries) == (0, int(is_sent))
    assert late.reason == ("there is no answer yet" if is_sent else "it waits to be sent")


def test_what_came_back_is_overdue_too() -> None:
    box = queues(batch(0, 0), batch(0, 1))
    first, _ = [box.take(FIRST, 10_000, 0.0)[0] for _ in range(2)]
    box.requeue(first, "no", 0.0, leader_is_stale=False)
    late = box.overdue(TIMEOUT_S)
    assert late is first
    assert late.reason == "no"


def test_nothing_changes_by_itself_unless_something_is_held_back() -> None:
    box = queues(batch(0, 0))
    assert box.next_change(1.0) is None
    (sending,) = box.take(FIRST, 10_000, 1.0)
    box.requeue(sending, "no", 1.0, leader_is_stale=False)
    assert 0 < (box.next_change(1.0) or 0) <= BACKOFF_S
    assert box.next_change(LATER) is None
