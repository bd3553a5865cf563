"""Queues of a producer's encoded batches, one per partition: which batch may be sent, and when again. No I/O, no clock.

A partition's batches are written in the order of their sequence numbers, or not at all. So:

- a batch is *waiting*, *sent* (no answer yet) or *returned* (to be sent again);
- while a partition has a returned batch, none of its waiting batches is sent. The answers to its sent batches come one
  by one: out of order, or written after all; or none comes, since the connection was lost;
- when no batch is sent any more, the returned ones are put before the waiting ones in their old order, and sending
  goes on.

Batches of one partition are never on their way to two brokers: the former leader's answers come first. And until a
partition's first batch is acknowledged, no second one is sent: a broker that does not know the producer yet takes any
sequence number as the first. Sequence of events that this prevents: batches 0 and 1 are on their way to a new topic; 0
is refused with a retriable error, 1 is written; 0 is sent again, and is out of order (45) at every try.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from directkafka.kafka.records.encoder import EncodedBatch
from directkafka.offsets import TopicPartition

Address = tuple[str, int]

_BACKOFF_S_MAX: Final = 1.0
#: What a request has besides its batches: names, numbers, lengths.
_REQUEST_OVERHEAD_BYTES: Final = 512


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """One batch until it is acknowledged.

    Attributes:
        batch: what is sent, and where to.
        number: its place among all batches of the producer, from 1.
        deadline: when it must have been acknowledged, in seconds on the caller's clock.
        tries: how often it was sent.
        reason: why it is not acknowledged yet.
        base_offset: of its first record, as the broker that acknowledged it said; -1: not known.
    """

    batch: EncodedBatch
    number: int
    deadline: float
    tries: int = 0
    reason: str = "it waits to be sent"
    base_offset: int = -1


@dataclass(slots=True, eq=False)
class _Queue:
    """One partition's batches, and who leads it, as far as is known."""

    leader: Address | None = None
    waiting: deque[ProducerBatch] = field(default_factory=deque)
    sent: deque[ProducerBatch] = field(default_factory=deque)
    returned: list[ProducerBatch] = field(default_factory=list)
    held_until: float = 0.0
    failures: int = 0

    def oldest(self) -> ProducerBatch | None:
        """The batch that was added first, and so has the first deadline; or None."""
        candidates = [*self.returned, *(batches[0] for batches in (self.sent, self.waiting) if batches)]
        return min(candidates, key=lambda batch: batch.number, default=None)

    def may_send(self, now: float) -> bool:
        return bool(self.waiting) and not self.returned and now >= self.held_until


class PartitionQueues:
    """The batches of one producer that are not acknowledged.

    Args:
        delivery_timeout_s: longest time from adding a batch to its acknowledgement.
        backoff_s: wait of a partition after a first failure; doubled with each further one up to 1 s, and varied by
            a fifth.
        leaders: leaders of partitions that are known already.
    """

    def __init__(
        self, *, delivery_timeout_s: float, backoff_s: float, leaders: Mapping[TopicPartition, Address] | None = None
    ) -> None:
        self._delivery_timeout_s = delivery_timeout_s
        self._backoff_s = backoff_s
        self._leaders = dict(leaders or {})
        self._queues: dict[TopicPartition, _Queue] = {}
        #: Partitions whose leader has written a batch of this producer.
        self._met: set[TopicPartition] = set()
        self._added = 0
        self.bytes = 0
        self.acknowledged: Counter[TopicPartition] = Counter()
        #: Offsets of the first record of the newest acknowledged batch.
        self.base_offsets: dict[TopicPartition, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether all batches are acknowledged."""
        return not self._queues

    @property
    def leaders(self) -> Mapping[TopicPartition, Address]:
        """Who leads partitions, as far as it is known."""
        return self._leaders

    def add(self, batches: Iterable[EncodedBatch], now: float) -> None:
        """Put batches behind those of their partitions."""
        for batch in batches:
            self._added += 1
            self.bytes += len(batch.data)
            queue = self._queues.setdefault(batch.target, _Queue(leader=self._leaders.get(batch.target)))
            queue.waiting.append(ProducerBatch(batch, self._added, now + self._delivery_timeout_s))

    def take(self, address: Address, bytes_max: int, now: float) -> list[ProducerBatch]:
        """Take the batches of the next request to a broker: one of each partition that may send, while they fit.

        Args:
            address: the broker.
            bytes_max: most bytes of the request; a single batch that is larger goes alone.
            now: the time, in seconds on a clock that never goes back.
        """
        taken: list[ProducerBatch] = []
        size = _REQUEST_OVERHEAD_BYTES
        for target in [
            partition for partition, queue in self._queues.items() if self._may_take(partition, queue, address, now)
        ]:
            queue = self._queues[target]
            size += len(queue.waiting[0].batch.data)
            if taken and size > bytes_max:
                break
            sending = queue.waiting.popleft()
            sending.tries += 1
            sending.reason = "there is no answer yet"
            queue.sent.append(sending)
            taken.append(sending)
            # Behind the others, so that those which did not fit come first next time.
            self._queues[target] = self._queues.pop(target)
        return taken

    def _may_take(self, target: TopicPartition, queue: _Queue, address: Address, now: float) -> bool:
        is_no_second = target in self._met or not queue.sent
        return queue.leader == address and queue.may_send(now) and is_no_second

    def acknowledge(self, sending: ProducerBatch, now: float) -> None:
        """A batch is written, now or by an earlier try."""
        queue = self._queues[sending.batch.target]
        queue.sent.remove(sending)
        queue.failures = 0
        self._met.add(sending.batch.target)
        self.bytes -= len(sending.batch.data)
        self.acknowledged[sending.batch.target] += sending.batch.records
        self.base_offsets[sending.batch.target] = sending.base_offset
        self._settle_returned(sending.batch.target, now)

    def requeue(self, sending: ProducerBatch, reason: str, now: float, *, leader_is_stale: bool) -> None:
        """Return a batch to its queue, to be sent again after a while.

        Args:
            sending: a batch that :meth:`take` gave.
            reason: why, for the message if the deadline comes before the next try.
            now: the time, in seconds on a clock that never goes back.
            leader_is_stale: whether the partition's leader must be looked up again.
        """
        target = sending.batch.target
        queue = self._queues[target]
        queue.sent.remove(sending)
        queue.returned.append(sending)
        sending.reason = reason
        if leader_is_stale:
            queue.leader = None
            self._leaders.pop(target, None)
        self._settle_returned(target, now)

    def has_earlier(self, sending: ProducerBatch) -> bool:
        """Whether an earlier batch of the same partition is not acknowledged yet, so this one may be out of order."""
        oldest = self._queues[sending.batch.target].oldest()
        return oldest is not None and oldest.number < sending.number

    def leaderless(self, now: float) -> list[TopicPartition]:
        """Partitions that may send a batch now and have no known leader."""
        return [partition for partition, queue in self._queues.items() if queue.leader is None and queue.may_send(now)]

    def set_leader(self, target: TopicPartition, leader: Address) -> None:
        """A partition's leader was found."""
        self._leaders[target] = leader
        self._queues[target].leader = leader

    def back_off(self, target: TopicPartition, reason: str, now: float) -> None:
        """A partition's leader was not found; to be asked for again after a while."""
        queue = self._queues[target]
        for sending in queue.waiting:
            sending.reason = reason
        self._back_off(queue, now)

    def overdue(self, now: float) -> ProducerBatch | None:
        """A batch that was not acknowledged in time."""
        oldest = (queue.oldest() for queue in self._queues.values())
        return next((batch for batch in oldest if batch is not None and now >= batch.deadline), None)

    def next_change(self, now: float) -> float | None:
        """Seconds until the first wait of a partition ends, so that it may send or be looked up; None if none waits."""
        times = [queue.held_until for queue in self._queues.values() if queue.held_until > now]
        return min(times) - now if times else None

    def _settle_returned(self, target: TopicPartition, now: float) -> None:
        """Once no batch of a partition is on its way any more, put the returned ones first, in their old order."""
        queue = self._queues[target]
        if queue.sent:
            return
        if queue.returned:
            queue.waiting.extendleft(sorted(queue.returned, key=lambda batch: -batch.number))
            queue.returned.clear()
            self._back_off(queue, now)
        elif not queue.waiting:
            del self._queues[target]

    def _back_off(self, queue: _Queue, now: float) -> None:
        wait_s = min(_BACKOFF_S_MAX, self._backoff_s * 2**queue.failures)
        queue.failures += 1
        queue.held_until = now + wait_s * random.uniform(0.8, 1.2)
