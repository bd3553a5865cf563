"""The sender of a producer to one broker, in a thread of its own.

Several requests may be on their way; the broker answers them in order. While something can be sent, it is; else the
thread waits for the oldest answer. What happens meanwhile goes with the next request: the longer answers take, the
fuller requests become.

:func:`classify` says for each error code what becomes of the batch. Sources: Kafka's ``Errors.java``, and what
``Sender.java`` and ``TransactionManager.java`` do with each.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from directkafka.errors import BrokerResponseError, BrokerUnreachableError, KafkaError
from directkafka.errors.kafka import BatchTooLargeError, ProducerFencedError, ProducerStateError
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import Channel, raise_for
from directkafka.kafka.network.receive import ResponseError, receive
from directkafka.kafka.producer.accumulator import RecordAccumulator
from directkafka.kafka.producer.partition_queues import Address, ProducerBatch
from directkafka.kafka.protocol.error_codes import STALE_METADATA, ErrorCode, broker_error, error_name, is_retriable
from directkafka.kafka.records.encoder import EncodedBatch, ProducerIdentity
from directkafka.offsets import TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.options.producer import ProducerOptions

#: The topic's setting that a batch is too large for.
_SIZE_SETTINGS: Final[dict[int, str]] = {
    ErrorCode.MESSAGE_TOO_LARGE: "max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "segment.bytes",
}
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_STATE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)

_RECORD_REMEDY: Final = (
    "The topic takes no such record: one of a compacted topic must have a key, and its timestamp must be near enough "
    "to now (message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
)
_REMEDIES: Final[dict[int, str]] = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic's name is not one that Kafka allows",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Give this user the rights (ACLs) DESCRIBE and WRITE on the topic, or log in "
    "as somebody else",
    ErrorCode.INVALID_TIMESTAMP: _RECORD_REMEDY,
    ErrorCode.UNSUPPORTED_VERSION: "Brokers before Kafka 2.8 cannot be written to",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The brokers keep this topic in an older format: raise its "
    "message.format.version",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Give this user the right (ACL) WRITE on the transactional id, or "
    "log in as somebody else",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "The brokers do not know this codec: choose another kafka.compression.type",
    ErrorCode.INVALID_RECORD: _RECORD_REMEDY,
}


class ProduceOutcome(Enum):
    """What becomes of a batch."""

    WRITTEN = auto()
    AGAIN = auto()
    AGAIN_ELSEWHERE = auto()
    REFUSED = auto()


def classify(code: int, *, tries: int, has_earlier: bool) -> ProduceOutcome:
    """What an answer means for the batch.

    Args:
        code: the error code, 0 for success.
        tries: how often the batch was sent.
        has_earlier: whether an earlier batch of its partition is not acknowledged.
    """
    # A first try is no duplicate of ours: somebody else writes under this identity.
    if code == ErrorCode.NONE or (code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER and tries > 1):
        return ProduceOutcome.WRITTEN
    if code in STALE_METADATA:
        return ProduceOutcome.AGAIN_ELSEWHERE
    # The earlier batch was refused for a passing reason, or is lost: this one has to wait for it.
    if is_retriable(code) or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and has_earlier):
        return ProduceOutcome.AGAIN
    return ProduceOutcome.REFUSED


def refusal(code: int, words: str | None, batch: EncodedBatch, identity: ProducerIdentity) -> KafkaError:
    """The error for a batch that is refused.

    Args:
        code: the broker's.
        words: its own message, if it has one.
        batch: what was refused.
        identity: who wrote it.
    """
    name = error_name(code)
    partition = batch.target
    if code in _FENCED:
        return ProducerFencedError(
            topic=partition.topic,
            partition=partition.partition,
            producer_id=identity.producer_id,
            epoch=identity.epoch,
            code=code,
            name=name,
        )
    if code in _STATE:
        return ProducerStateError(
            topic=partition.topic,
            partition=partition.partition,
            producer_id=identity.producer_id,
            epoch=identity.epoch,
            base_sequence=batch.base_sequence,
            code=code,
            name=name,
        )
    size = len(batch.data)
    fields: dict[str, Any] = {
        "api": "Produce",
        "code": code,
        "name": name,
        "retriable": is_retriable(code),
        "subject": f"{partition}: {words}" if words else str(partition),
        "remedy": _remedy(code, batch.records, size),
    }
    if code in _SIZE_SETTINGS:
        return BatchTooLargeError(
            topic=partition.topic, records=batch.records, size_bytes=size, raw_bytes=batch.raw_bytes, **fields
        )
    return BrokerResponseError(**fields)


def _remedy(code: int, records: int, size_bytes: int) -> str:
    if code not in _SIZE_SETTINGS:
        return _REMEDIES.get(code, BrokerResponseError.remedy)
    setting = _SIZE_SETTINGS[code]
    if records == 1:
        return f"Raise the topic's {setting}: a single record has {size_bytes} bytes"
    batch = f"a batch of {records} records has {size_bytes} bytes"
    return f"Lower kafka.batch.size, or raise the topic's {setting}: {batch}"


def unknown_topic(subject: str) -> BrokerResponseError:
    """The error for a topic, or a partition of it, that has not been there for as long as it was waited for."""
    remedy = (
        "Create the topic, or correct its name or the partition's number: topics are not created by writing to them, "
        "and one that this user has no DESCRIBE right on looks the same"
    )
    return broker_error("Metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject, remedy=remedy)


log = logging.getLogger(__name__)

_ALL_REPLICAS = -1
_ANSWER_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Request:
    """What is on its way: the number that the answer will bear, and until when it is waited for."""

    correlation_id: int
    sendings: dict[TopicPartition, ProducerBatch]
    deadline: float


class Sender:
    """Sends what the accumulator has for one broker, until it is closed.

    Args:
        address: the broker.
        accumulator: where batches come from, and answers go to.
        client: security, timeouts.
        options: how much goes into a request, and how many may be on their way.
        identity: who writes.
    """

    def __init__(
        self,
        address: Address,
        accumulator: RecordAccumulator,
        client: ClientOptions,
        options: ProducerOptions,
        identity: ProducerIdentity,
    ) -> None:
        self._address = address
        self._accumulator = accumulator
        self._client = client
        self._options = options
        self._identity = identity
        self._requests: deque[_Request] = deque()
        self._channel: Channel | None = None
        self._answer = bytearray()
        self._thread = threading.Thread(target=self._run, name=f"produce to {address[0]}:{address[1]}", daemon=True)
        self._thread.start()

    def interrupt(self) -> None:
        """Wake the thread if it waits for the broker. The accumulator must be closed."""
        channel = self._channel
        if channel is not None and self._requests:
            channel.interrupt()

    def join(self) -> None:
        """Wait for the thread's end: at most as long as a connection takes to be made."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001 - whatever it is, the producer raises it
            self._accumulator.fail(error)
        finally:
            self._end()

    def _step(self) -> bool:
        """Send one request, or receive one answer; whether there may be more."""
        if len(self._requests) < self._options.in_flight_max:
            sendings = self._accumulator.take(self._address, self._options.request_bytes_max, waits=not self._requests)
            if sendings:
                self._send(sendings)
                return True
        if not self._requests or self._accumulator.is_closed:
            return False
        self._receive()
        return True

    def _send(self, sendings: list[ProducerBatch]) -> None:
        unsent = sendings
        try:
            channel = self._open()
            correlation_id, request = channel.encode_produce(
                transactional_id=self._identity.transactional_id,
                acks=_ALL_REPLICAS,
                timeout_ms=self._client.request_timeout_ms,
                topic_data=_by_topic(sendings),
            )
            self._requests.append(
                _Request(correlation_id, {sending.batch.target: sending for sending in sendings}, self._limit())
            )
            unsent = []
            channel.socket.settimeout(self._client.request_timeout_ms / 1000)
            channel.socket.sendall(request)
        except BrokerUnreachableError as error:
            self._accumulator.requeue(sendings, str(error))
        except OSError as error:
            self._drop_and_requeue(error, unsent)

    def _open(self) -> Channel:
        """The channel; a new one when there is none, or when its SASL session is about to end."""
        channel = self._channel
        if channel is not None and time.monotonic() >= channel.expires_at:
            while self._requests:
                self._receive()
            self._drop()
            channel = None
        if channel is None:
            channel = connection_pool.borrow(self._client, *self._address)
            if channel.produce_version is None:
                host, port = self._address
                raise_for("Produce", ErrorCode.UNSUPPORTED_VERSION, f"{host}:{port}", self._client)
            self._channel = channel
        return channel

    def _limit(self) -> float:
        return time.monotonic() + self._client.request_timeout_ms / 1000

    def _receive(self) -> None:
        """The oldest answer, to the accumulator."""
        channel, request = self._channel, self._requests[0]
        if channel is None:
            raise RuntimeError(f"request {request.correlation_id} is on its way on no channel")
        try:
            channel.socket.settimeout(max(0.001, request.deadline - time.monotonic()))
            length = receive(channel, self._answer, _ANSWER_BYTES_MAX, request.deadline)
            correlation_id, answer = channel.decode_produce(bytes(memoryview(self._answer)[:length]))
            if correlation_id != request.correlation_id:
                raise ResponseError(f"asked with correlation id {request.correlation_id}, got {correlation_id}")
            _check_named(answer, request)
        except (OSError, ResponseError) as error:
            self._drop_and_requeue(error)
            return
        self._requests.popleft()
        for topic in answer.responses:
            for partition_response in topic.partition_responses:
                sending = request.sendings.pop(TopicPartition(topic.name, partition_response.index))
                sending.base_offset = partition_response.base_offset
                self._hear(sending, partition_response.error_code, partition_response.error_message)
        self._accumulator.requeue(list(request.sendings.values()), "the broker's answer leaves this partition out")

    def _hear(self, sending: ProducerBatch, code: int, words: str | None) -> None:
        has_earlier = self._accumulator.has_earlier(sending)
        outcome = classify(code, tries=sending.tries, has_earlier=has_earlier)
        log.debug("%s from sequence %d: %s", sending.batch.target, sending.batch.base_sequence, outcome)
        match outcome:
            case ProduceOutcome.WRITTEN:
                self._accumulator.acknowledge(sending)
            case ProduceOutcome.AGAIN | ProduceOutcome.AGAIN_ELSEWHERE:
                reason = f"the broker {self._address[0]}:{self._address[1]} answered {error_name(code)}"
                self._accumulator.requeue([sending], reason, leader_is_stale=outcome is ProduceOutcome.AGAIN_ELSEWHERE)
            case ProduceOutcome.REFUSED:
                raise refusal(code, words, sending.batch, self._identity)

    def _drop_and_requeue(self, error: Exception, unsent: Iterable[ProducerBatch] = ()) -> None:
        """The connection is of no more use: nobody knows whether what is on its way was written, so it is sent again.

        The leader will know batches again that it has: they have the sequence numbers that they had.
        """
        self._drop()
        lost = [*(sending for request in self._requests for sending in request.sendings.values()), *unsent]
        self._requests.clear()
        reason = f"{self._address[0]}:{self._address[1]}: {error or type(error).__name__}"
        self._accumulator.requeue(lost, reason)

    def _drop(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _end(self) -> None:
        if self._channel is not None and not self._requests:
            connection_pool.release(self._client, self._channel)
        else:
            self._drop()


def _by_topic(sendings: list[ProducerBatch]) -> list[dict[str, object]]:
    """Kafka's nesting of partitions in a request."""
    nested: dict[str, list[dict[str, object]]] = {}
    for sending in sendings:
        partition = sending.batch.target
        nested.setdefault(partition.topic, []).append({"index": partition.partition, "records": sending.batch.data})
    return [{"name": topic, "partition_data": partitions} for topic, partitions in nested.items()]


def _check_named(answer: Any, request: _Request) -> None:
    """Refuse an answer that names a partition twice, or one not asked about, before any of it is used."""
    named = [
        TopicPartition(topic.name, partition_response.index)
        for topic in answer.responses
        for partition_response in topic.partition_responses
    ]
    unknown = sorted(
        {str(partition) for partition in named if partition not in request.sendings or named.count(partition) > 1}
    )
    if unknown:
        raise ResponseError(f"the answer is about {', '.join(unknown[:3])}, not asked about or named twice")
