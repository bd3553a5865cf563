"""The Kafka transaction that the driver holds: it adds partitions, writes rows, and commits or aborts.

Who may write what. A partition accepts a producer's batches by sequence number, so within one transaction each
partition has one writer: the driver, or one task. Two writers would each begin at sequence 0, and the leader would
answer the second writer's first batch as a duplicate: its rows would be lost, and reported as written. The transaction
therefore records which writer has which partition, and refuses a second writer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.errors import OptionError, RowCountError
from directkafka.errors.kafka import TransactionTooSlowError
from directkafka.fault_points import fault_point
from directkafka.kafka.producer.producer import Producer
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.offsets import TopicPartition
from directkafka.options.producer import TransactionOptions

#: Largest ledger record before compression, in bytes: enough for 400,000 partitions. Compressed, it is a tenth at most.
_LEDGER_BYTES_MAX: Final = 64 * 1024 * 1024

#: The name of the driver as a writer, among the writers of partitions.
DRIVER: Final = "the driver"

#: The share of ``transaction.timeout.ms`` after which the driver aborts a transaction itself, a little before the
#: broker would: to the driver, an abort by the broker looks like a newer driver's fence.
_BUDGET_SHARE: Final = 0.8

Int32s = np.ndarray[Any, np.dtype[np.int32]]


class KafkaTransaction:
    """An open transaction of one pipeline; a sink's ``apply`` writes through it.

    Args:
        coordinator: adds partitions and offsets, and ends the transaction.
        identity: the producer, at a fresh epoch.
        options: connection, sizes, timeout.
        attempt: ``BatchAttempt.attempt`` of the try that it is for; empty without writes, ``fence`` for a fence.
        ledger: the ledger's partition, which is added together with the first others.
        ledger_end: the ledger's high watermark when the transaction began, as a broker told.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        identity: ProducerIdentity,
        options: TransactionOptions,
        *,
        attempt: str,
        ledger: TopicPartition,
        ledger_end: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self.attempt = attempt
        self.options = options
        self.ledger = ledger
        self.ledger_end = ledger_end
        #: Whether the coordinator may know of it, so that it must be ended.
        self.is_open = False
        self._coordinator = coordinator
        #: The writer of each partition. The ledger's is the driver's from the start, so that no task gets it.
        self._writers: dict[TopicPartition, str] = {ledger: DRIVER}
        #: What the coordinator was told of.
        self._taken: set[TopicPartition] = set()
        #: Which sink has which topic.
        self._sinks: dict[str, str] = {ledger.topic: "the ledger"}
        self._written: Counter[TopicPartition] = Counter()
        self._producer: Producer | None = None
        self._ledger_producer: Producer | None = None
        self._clock = clock
        self._begun = clock()

    def reserve(self, topics: Collection[str], *, sink: str) -> None:
        """Give topics to one sink of the pipeline, whether the driver or tasks write its rows.

        Small batches of two sinks could share a partition, since the driver writes both; large ones could not. No topic
        has two sinks, so that what a pipeline may do does not depend on the size of a batch.

        Raises:
            OptionError: another sink has one of them.
        """
        for topic in sorted(topics):
            if (other := self._sinks.setdefault(topic, sink)) != sink:
                raise OptionError(
                    option="topic",
                    where="a Kafka sink",
                    reason=f"two sinks of one pipeline write to topic {topic} ({other}, {sink}), and a topic takes the "
                    "rows of one sink in a transaction; make one output of the two, with UNION ALL",
                )

    def add(self, partitions: Collection[TopicPartition], *, writer: str = DRIVER) -> None:
        """Add partitions to the transaction, each for one writer.

        Raises:
            OptionError: another writer has one of them.
            KafkaError: as :meth:`Coordinator.add_partitions`.
        """
        for partition in sorted(partitions):
            if (other := self._writers.get(partition, writer)) != writer:
                raise OptionError(
                    option="topic",
                    where="a Kafka sink",
                    reason=f"two sinks of one pipeline write to {partition} ({other}, {writer}), and a partition takes "
                    "the rows of one writer in a transaction; make one output of the two, with UNION ALL",
                )
        if self._taken.issuperset(partitions):
            return
        # The ledger's partition is added with the first others; ``is_open`` does not tell which are the first, since a
        # group's offsets may have opened the transaction.
        is_first, self.is_open = not self._taken, True
        new = {*partitions, self.ledger} - self._taken
        self._coordinator.add_partitions(self.identity, new)
        self._taken |= new
        self._writers |= dict.fromkeys(new - {self.ledger}, writer)
        if is_first:
            fault_point("transaction.opened")

    def has_writer(self, writer: str) -> bool:
        """Whether partitions were added for this writer."""
        return writer in self._writers.values()

    @property
    def is_shared(self) -> bool:
        """Whether tasks write in it, too."""
        return any(writer != DRIVER for writer in self._writers.values())

    def write(self, rows: pa.RecordBatch, targets: Sequence[TopicPartition], target_of: Int32s) -> None:
        """Write rows from the driver; see :meth:`directkafka.kafka.producer.producer.Producer.write`.

        Raises:
            KafkaError: as there; also when a partition was not added.
        """
        if self._producer is None:
            self._producer = Producer(self.options.client, self.options.producer, self.identity)
        self._producer.write(rows, targets, target_of)
        counts = np.bincount(target_of, minlength=len(targets))
        self._written.update({partition: int(count) for partition, count in zip(targets, counts, strict=True)})

    def write_ledger(self, rows: pa.RecordBatch) -> None:
        """Write records of the ledger: compressed, and up to a size of their own, whatever the options for rows say.

        Raises:
            KafkaError: as :meth:`write`.
        """
        if self._ledger_producer is None:
            options = replace(self.options.producer, compression="zstd", request_bytes_max=_LEDGER_BYTES_MAX)
            self._ledger_producer = Producer(self.options.client, options, self.identity)
        self._ledger_producer.write(rows, [self.ledger], np.zeros(rows.num_rows, np.int32))
        self._written[self.ledger] += rows.num_rows

    def ledger_offset(self) -> int:
        """Where the ledger's leader has put what was written there last; -1: it did not say. Behind :meth:`flush`."""
        return -1 if self._ledger_producer is None else self._ledger_producer.base_offset(self.ledger)

    def flush(self, *, store: str) -> None:
        """Wait until everything the driver wrote is acknowledged.

        Raises:
            RowCountError: the brokers acknowledged other numbers of rows than were written.
            KafkaError: as :meth:`directkafka.kafka.producer.producer.Producer.flush`.
        """
        acknowledged_counts: dict[TopicPartition, int] = {}
        for producer in filter(None, (self._producer, self._ledger_producer)):
            acknowledged_counts |= producer.flush()
        for partition, written in sorted(self._written.items()):
            if acknowledged_counts.get(partition, 0) != written:
                raise RowCountError(
                    store=store, sink=str(partition), reported=written, found=acknowledged_counts.get(partition, 0)
                )

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
        """Commit a group's offsets with the transaction; see :meth:`Coordinator.commit_offsets`."""
        self.is_open = True
        return self._coordinator.commit_offsets(self.identity, group, offsets)

    def budget_left_ms(self) -> int:
        """How long rows may still be written, in milliseconds; negative when the time is over."""
        elapsed_ms = (self._clock() - self._begun) * 1000
        return round(self.options.timeout_ms * _BUDGET_SHARE - elapsed_ms)

    def check_budget(self) -> None:
        """Refuse to go on with a transaction that the broker is about to give up.

        Raises:
            TransactionTooSlowError: it has used up its share of ``transaction.timeout.ms``.
        """
        if self.budget_left_ms() < 0:
            raise self.too_slow()

    def too_slow(self) -> TransactionTooSlowError:
        """The error for a transaction whose rows take longer than it has."""
        budget_ms = round(self.options.timeout_ms * _BUDGET_SHARE)
        return TransactionTooSlowError(
            transactional_id=self.identity.transactional_id or "",
            elapsed_ms=budget_ms - self.budget_left_ms(),
            budget_ms=budget_ms,
            timeout_ms=self.options.timeout_ms,
        )

    def end(self, *, commit: bool) -> None:
        """Commit or abort; the answer may be lost, see :class:`Coordinator`."""
        self.close()
        self._coordinator.end(self.identity, commit=commit)

    def close(self) -> None:
        """Stop the driver's own writing; the transaction stays as it is."""
        for producer in filter(None, (self._producer, self._ledger_producer)):
            producer.close()
        self._producer = self._ledger_producer = None
