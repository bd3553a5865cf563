"""The producer's accumulator: its queues behind a lock, where its threads meet, and whether it goes on at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from directkafka.errors.kafka import DeliveryTimeoutError
from directkafka.kafka.producer.partition_queues import Address, PartitionQueues, ProducerBatch
from directkafka.kafka.records.encoder import EncodedBatch
from directkafka.offsets import TopicPartition

#: How late it may be noticed that a batch was not acknowledged in time.
_TICK_S: Final = 0.25


class RecordAccumulator:
    """What is on its way, for several threads: one that writes, one per broker that sends, one that looks leaders up.

    Whatever fails, fails all: the first error is raised by whoever writes, and the others end.

    Args:
        queues: by partition; used by nobody else.
        delivery_timeout_ms: for the message when a batch is overdue.
    """

    def __init__(self, queues: PartitionQueues, delivery_timeout_ms: int) -> None:
        self._queues = queues
        self._delivery_timeout_ms = delivery_timeout_ms
        self._lock = threading.Lock()
        #: Batches came, may be sent again, or have a leader: for those who send.
        self._to_send = threading.Condition(self._lock)
        #: Batches were acknowledged, or something failed: for whoever writes.
        self._answered = threading.Condition(self._lock)
        #: Partitions need a leader: for whoever looks them up.
        self._to_find = threading.Condition(self._lock)
        self._error: BaseException | None = None
        #: Whether nothing more is sent: because of an error, or because the producer is closed.
        self.is_closed = False

    def put(self, batches: Iterable[EncodedBatch]) -> None:
        """Add batches to the queues."""
        with self._lock:
            self._queues.add(batches, time.monotonic())
            self._to_send.notify_all()
            self._to_find.notify_all()

    def wait_below(self, bytes_max: int) -> Mapping[TopicPartition, int]:
        """Wait until less than so many bytes are on their way; 1 for until it is empty.

        Returns:
            Records acknowledged so far, by partition.

        Raises:
            DeliveryTimeoutError: a batch is overdue.
            BaseException: the first error of any thread; the same at every call.
        """
        with self._lock:
            while self._queues.bytes >= bytes_max and not self.is_closed:
                self._refuse_overdue(time.monotonic())
                self._answered.wait(_TICK_S)
            if self._error is not None:
                raise self._error
            if self._queues.bytes >= bytes_max:
                raise RuntimeError(
                    f"the producer was closed while {self._queues.bytes} bytes were not acknowledged; somebody waited"
                )
            return dict(self._queues.acknowledged)

    def base_offset(self, partition: TopicPartition) -> int:
        """Where the newest acknowledged batch of a partition begins; -1: none is, or it is not known."""
        with self._lock:
            return self._queues.base_offsets.get(partition, -1)

    def take(self, address: Address, bytes_max: int, *, waits: bool) -> list[ProducerBatch]:
        """What the next request to a broker carries; empty when there is nothing, or when the producer is closed.

        Args:
            address, bytes_max: as for :meth:`directkafka.kafka.producer.partition_queues.PartitionQueues.take`.
            waits: whether to wait until there is something.
        """
        with self._lock:
            while not self.is_closed:
                now = time.monotonic()
                taken = self._queues.take(address, bytes_max, now)
                if taken or not waits:
                    return taken
                self._to_send.wait(self._queues.next_change(now))
            return []

    def acknowledge(self, sending: ProducerBatch) -> None:
        """A batch is written."""
        with self._lock:
            self._queues.acknowledge(sending, time.monotonic())
            self._answered.notify_all()
            # What came back before waits no longer for this one: it may be sent, or needs a leader.
            self._to_send.notify_all()
            self._to_find.notify_all()

    def requeue(self, sendings: Iterable[ProducerBatch], reason: str, *, leader_is_stale: bool = True) -> None:
        """Batches are to be sent again, after a while."""
        with self._lock:
            now = time.monotonic()
            for sending in sendings:
                self._queues.requeue(sending, reason, now, leader_is_stale=leader_is_stale)
            self._to_send.notify_all()
            self._to_find.notify_all()

    def has_earlier(self, sending: ProducerBatch) -> bool:
        """Whether an earlier batch of the same partition is not acknowledged."""
        with self._lock:
            return self._queues.has_earlier(sending)

    def leaderless(self) -> list[TopicPartition]:
        """Wait for partitions whose leader must be looked up; empty when the producer is closed."""
        with self._lock:
            while not self.is_closed:
                now = time.monotonic()
                partitions = self._queues.leaderless(now)
                if partitions:
                    return partitions
                self._to_find.wait(self._queues.next_change(now))
            return []

    def set_leader(
        self, leaders: Mapping[TopicPartition, Address], wanted: Collection[TopicPartition], reason: str
    ) -> None:
        """Answer :meth:`leaderless`: who leads partitions; the others are asked for again after a while.

        Args:
            leaders: those that were found.
            wanted: all that were asked for.
            reason: why others were not.
        """
        with self._lock:
            now = time.monotonic()
            for target in wanted:
                if target in leaders:
                    self._queues.set_leader(target, leaders[target])
                else:
                    self._queues.back_off(target, reason, now)
            self._to_send.notify_all()

    def fail(self, error: BaseException) -> None:
        """End everything with an error; the first one counts."""
        with self._lock:
            self._fail(error)

    def close(self) -> None:
        """End everything. What is on its way is not waited for."""
        with self._lock:
            self._close()

    def _fail(self, error: BaseException) -> None:
        if not self.is_closed:
            self._error = error
        self._close()

    def _close(self) -> None:
        self.is_closed = True
        for condition in (self._to_send, self._answered, self._to_find):
            condition.notify_all()

    def _refuse_overdue(self, now: float) -> None:
        # The writer looks itself: the thread that looks leaders up may wait for a broker that is gone.
        late = self._queues.overdue(now)
        if late is None:
            return
        partition = late.batch.target
        self._fail(
            DeliveryTimeoutError(
                topic=partition.topic,
                partition=partition.partition,
                records=late.batch.records,
                tries=late.tries,
                timeout_ms=self._delivery_timeout_ms,
                cause=late.reason.rstrip("."),
            )
        )
