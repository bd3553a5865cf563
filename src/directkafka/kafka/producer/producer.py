"""Writing rows to the partitions' leaders: each exactly once in its partition, and in order.

API key 0 (Produce), versions 9 to 11, acks=all. Version 12 and above would add partitions to a transaction by
themselves (KIP-890), which here is the driver's to do. Relied on: a leader takes a producer's batches in the order
of their sequence numbers only, and knows the last five of each partition again (KIP-98), so that

- up to five requests may be on their way to a broker at once, each with at most one batch of a partition;
- a batch whose answer did not come is sent again as it is: written once, or answered as a duplicate.

Threads: whoever writes encodes, and notices what is overdue; one per broker sends and receives; one looks leaders up.
Knows nothing of Spark, and runs on executors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import tenacity

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.errors.kafka import RecordRejectedError, RecordTooLargeError
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import KafkaClient, raise_for
from directkafka.kafka.producer.accumulator import RecordAccumulator
from directkafka.kafka.producer.partition_queues import Address, PartitionQueues
from directkafka.kafka.producer.sender import Sender, unknown_topic
from directkafka.kafka.records.encoder import ProducerIdentity, RecordEncoder
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.producer import ProducerOptions

Int32s = np.ndarray[Any, np.dtype[np.int32]]

#: Rows that are encoded at a time have about so many bytes: enough for full batches, and no second copy of all rows.
_CHUNK_BYTES: Final = 8 * 1024 * 1024


class Producer:
    """Writes rows to partitions, for one identity, from one thread.

    After an error of a broker everything else raises it again: what was on its way is in an unknown state, and the
    identity must not be used any more. (A transaction is aborted by whoever owns it.) As a context manager it is
    closed at the end.

    Args:
        client: addresses, security, timeouts.
        options: sizes, codec, time for delivery.
        identity: who writes; one producer only, for sequence numbers begin at 0.
        leaders: host and port of partitions' leaders, as far as they are known; the others are looked up.
    """

    def __init__(
        self,
        client: ClientOptions,
        options: ProducerOptions,
        identity: ProducerIdentity,
        leaders: Mapping[TopicPartition, Address] | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._identity = identity
        self._encoder = RecordEncoder(options, identity)
        queues = PartitionQueues(
            delivery_timeout_s=options.delivery_timeout_ms / 1000,
            backoff_s=client.retry_backoff_ms / 1000,
            leaders=leaders,
        )
        self._accumulator = RecordAccumulator(queues, options.delivery_timeout_ms)
        self._lines: dict[Address, Sender] = {}
        self._missing_since: dict[TopicPartition, float] = {}
        for address in set((leaders or {}).values()):
            self._connect(address)
        self._finder = threading.Thread(target=self._find_leaders, name="produce: leaders", daemon=True)
        self._finder.start()

    def write(self, rows: pa.RecordBatch, targets: Sequence[TopicPartition], target_of: Int32s) -> None:
        """Encode rows and put them on their way; waits while more than ``buffer.memory`` is on its way.

        Args:
            rows, targets, target_of: as for :meth:`directkafka.kafka.records.encoder.RecordEncoder.encode`.

        Raises:
            RecordTooLargeError: a row is larger than ``max.request.size``; rows before it may have been sent, but the
                producer can be used further.
            RecordRejectedError: a row that cannot be a record; likewise.
            OptionError: a column is missing or of another type; likewise.
            ProducerFencedError: a newer producer has this one's name (INVALID_PRODUCER_EPOCH 47, PRODUCER_FENCED 90).
            ProducerStateError: the broker's state of this producer or its transaction is another one (45, 48, 59...).
            BrokerResponseError: a broker refused a batch for good (too large, no right to write...), or a topic is
                not there, or has no such partition, for ``max.block.ms``.
            DeliveryTimeoutError: no acknowledgement within ``delivery.timeout.ms``; whether it was written is not
                known.
            BrokerAccessError: TLS or the login failed.
        """
        for first, count in _chunks(rows):
            self._accumulator.wait_below(self._options.buffer_bytes_max)
            try:
                part = self._encoder.encode(rows.slice(first, count), targets, target_of[first : first + count])
            except (RecordTooLargeError, RecordRejectedError) as error:
                raise replace(error, row=first + error.row, rows=rows.num_rows) from None
            self._accumulator.put(part)

    def flush(self) -> dict[TopicPartition, int]:
        """Wait until all that was written is acknowledged by all in-sync replicas.

        Returns:
            Records acknowledged, by partition, since the producer was made.

        Raises:
            KafkaError: as :meth:`write` does.
        """
        return dict(self._accumulator.wait_below(1))

    def base_offset(self, partition: TopicPartition) -> int:
        """The offset of the first record of the newest acknowledged batch of a partition.

        -1 where there is none, and where the leader knew the batch again but not its place (DUPLICATE_SEQUENCE_NUMBER).
        """
        return self._accumulator.base_offset(partition)

    def close(self) -> None:
        """Stop sending, without waiting for answers. Calling it twice is harmless.

        An attempt to connect is not cut off: it ends after ``socket.connection.setup.timeout.ms``.
        """
        self._accumulator.close()
        for line in list(self._lines.values()):
            line.interrupt()
        self._finder.join()
        for line in self._lines.values():
            line.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find_leaders(self) -> None:
        try:
            while wanted := self._accumulator.leaderless():
                leaders, reason = self._ask_for(wanted)
                for address in set(leaders.values()):
                    self._connect(address)
                self._accumulator.set_leader(leaders, wanted, reason)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the writer raises it
            self._accumulator.fail(error)

    def _connect(self, address: Address) -> None:
        if address not in self._lines:
            self._lines[address] = Sender(address, self._accumulator, self._client, self._options, self._identity)

    def _ask_for(self, wanted: Collection[TopicPartition]) -> tuple[dict[TopicPartition, Address], str]:
        """Leaders of those partitions that have one now, and why others have not.

        Raises:
            BrokerResponseError: this user may not know a topic, or one has been missing for too long.
        """
        try:
            with connection_pool.borrowed_client(self._client) as brokers:
                topics = AdminClient(brokers, retries=0).topics({partition.topic for partition in wanted})
        except (BrokerUnreachableError, BrokerResponseError) as error:
            if isinstance(error, BrokerResponseError) and not error.retriable:
                raise
            return {}, str(error)
        leaders = {}
        for partition in wanted:
            description = topics.get(partition.topic)
            leader = description.leaders.get(partition.partition) if description is not None else None
            if leader is None:
                self._miss(partition)
                continue
            self._missing_since.pop(partition, None)
            if leader.node_id is not None:
                leaders[partition] = (leader.host, leader.port)
        return leaders, "it has no leader"

    def _miss(self, partition: TopicPartition) -> None:
        """One look may come from a broker that does not know a new topic yet."""
        now = time.monotonic()
        if now - self._missing_since.setdefault(partition, now) >= self._options.topic_timeout_ms / 1000:
            raise unknown_topic(f"topic {partition.topic}, partition {partition.partition}")


def new_identity(client: KafkaClient, timeout_ms: int = 60_000) -> ProducerIdentity:
    """An identity for an idempotent producer without transactions, from any broker (InitProducerId).

    Args:
        client: whom to ask.
        timeout_ms: how long brokers that have just started may put it off, in milliseconds.

    Raises:
        BrokerUnreachableError: no broker answers.
        BrokerResponseError: the broker refuses it.
    """
    for attempt in tenacity.Retrying(
        stop=tenacity.stop_after_delay(timeout_ms / 1000),
        wait=tenacity.wait_random_exponential(multiplier=client.options.retry_backoff_ms / 1000, max=1.0),
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, BrokerResponseError) and error.retriable),
        reraise=True,
    ):
        with attempt:
            answer = client.call(
                "InitProducerId", transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
            )
            raise_for("InitProducerId", answer.error_code, "an idempotent producer", client.options)
    return ProducerIdentity(producer_id=answer.producer_id, epoch=answer.producer_epoch)


def _chunks(rows: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Parts ``(first, count)`` of about as many bytes as are encoded at a time."""
    parts = max(1, -(-rows.nbytes // _CHUNK_BYTES))
    size = max(1, -(-rows.num_rows // parts))
    for first in range(0, rows.num_rows, size):
        yield first, min(size, rows.num_rows - first)
