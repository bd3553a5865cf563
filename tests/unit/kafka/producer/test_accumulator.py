"""Threads that wait for each other at the accumulator."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.unit.kafka.producer.test_partition_queues import FIRST, PARTITIONS, batch

from directkafka.kafka.producer.accumulator import RecordAccumulator
from directkafka.kafka.producer.partition_queues import PartitionQueues

#: Much longer than any backoff here.
PATIENCE_S = 10.0


def test_a_leader_is_looked_up_once_the_batch_behind_a_refused_one_is_written() -> None:
    """Else who looks leaders up would sleep until somebody adds a batch, and the refused one would be overdue.

    Sequence of events: two batches are on their way again, and the broker has the second one already; the first is
    refused, since another broker leads the partition now; the answer to the second says that it is written.
    """
    queues = PartitionQueues(delivery_timeout_s=100.0, backoff_s=0.01, leaders=dict.fromkeys(PARTITIONS, FIRST))
    accumulator = RecordAccumulator(queues, delivery_timeout_ms=100_000)
    accumulator.put([batch(0, 0)])
    (first,) = accumulator.take(FIRST, 10_000, waits=False)
    accumulator.acknowledge(first)
    accumulator.put([batch(0, 1), batch(0, 2)])
    (refused,) = accumulator.take(FIRST, 10_000, waits=False)
    (written,) = accumulator.take(FIRST, 10_000, waits=False)
    with ThreadPoolExecutor(1) as threads:
        accumulator.requeue([refused], "another broker leads the partition")
        future = threads.submit(accumulator.leaderless)
        while not accumulator._to_find._waiters:  # type: ignore[attr-defined]
            assert not future.done()
        accumulator.acknowledge(written)
        try:
            assert future.result(PATIENCE_S) == [PARTITIONS[0]]
        finally:
            accumulator.close()
