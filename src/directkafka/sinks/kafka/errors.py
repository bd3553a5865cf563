"""Errors of Kafka as errors of a store: what each means for a batch, and when rows are written in smaller batches.

Contract with the rest: a :class:`~directkafka.errors.KafkaError` leaves the Kafka store only if it says by itself what
to do; one that may pass leaves as :class:`~directkafka.errors.StoreUnavailableError`.

A record batch that a topic does not take for its size: the rows are written again in smaller ones.

Java's producer splits such a batch and sends its parts. Here all rows of the transaction are written again, under a
fresh epoch, which is what any failure leads to, and from then on in batches that are small enough: so it costs a try or
two in the driver's life, and sequence numbers stay as plain as they are. A single record is not made smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from directkafka.errors import (
    BrokerAccessError,
    BrokerResponseError,
    BrokerUnreachableError,
    DirectKafkaError,
    FetchTimeoutError,
    KafkaError,
    OptionError,
    RowRejectedError,
    SchemaMismatchError,
    StoreAccessError,
    StoreRequestError,
    StoreUnavailableError,
    TopicNotFoundError,
)
from directkafka.errors.kafka import (
    BatchTooLargeError,
    DeliveryTimeoutError,
    ProducerFencedError,
    ProducerStateError,
    RecordRejectedError,
    RecordTooLargeError,
    SecondAttemptError,
    TransactionFencedError,
    TransactionStateError,
)
from directkafka.kafka.protocol.error_codes import ErrorCode
from directkafka.options.producer import TransactionOptions

_ACCESS_CODES: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

_PASSING: Final = (
    BrokerUnreachableError,
    DeliveryTimeoutError,
    FetchTimeoutError,
    ProducerFencedError,
    ProducerStateError,
    SecondAttemptError,
    TransactionFencedError,
    TransactionStateError,
)


@contextmanager
def translate(store: str, *, sink: str = "") -> Iterator[None]:
    """Raise what Kafka's errors mean to a store.

    Args:
        store: the store's label.
        sink: the sink's name when it is about its rows.
    """
    try:
        yield
    except KafkaError as error:
        raise error_for(error, store=store, sink=sink) from error


def error_for(error: KafkaError, *, store: str, sink: str = "") -> DirectKafkaError:
    """The store's error for one of Kafka's; the same error where it says all."""
    cause = " ".join(str(error).split())
    if isinstance(error, BrokerAccessError):
        return StoreAccessError(store=store, cause=error.cause, remedy=f"{error.remedy}.")
    # A batch of several records is written again as smaller ones: see directkafka.sinks.kafka.errors.
    if isinstance(error, _PASSING) or (isinstance(error, BatchTooLargeError) and error.records > 1):
        return StoreUnavailableError(store=store, cause=cause.rstrip("."))
    if isinstance(error, RecordTooLargeError | RecordRejectedError | BatchTooLargeError):
        return RowRejectedError(store=store, sink=sink or f"topic {error.topic}", detail=cause.rstrip("."))
    if isinstance(error, BrokerResponseError):
        return _answer(error, store, cause)
    if isinstance(error, TopicNotFoundError):
        return SchemaMismatchError(store=store, sink=sink or "the ledger", detail=cause)
    return error


def _answer(error: BrokerResponseError, store: str, cause: str) -> DirectKafkaError:
    if error.code in _ACCESS_CODES:
        refusal = f"{error.api} for {error.subject} was answered with error {error.code} ({error.name})"
        return StoreAccessError(store=store, cause=refusal, remedy=f"{error.remedy}.")
    if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        reason = "is more than the brokers' transaction.max.timeout.ms; lower it, or raise theirs"
        return OptionError(option="kafka.transaction.timeout.ms", reason=reason, where="a Kafka sink")
    if error.retriable:
        return StoreUnavailableError(store=store, cause=cause.rstrip("."))
    return StoreRequestError(store=store, code=f"{error.code} ({error.name})", cause=cause.rstrip("."))


#: The topic's setting, in bytes of a batch as it is sent.
SIZE_LIMIT = "max.message.bytes"


def refused_batch(error: BaseException | None) -> BatchTooLargeError | None:
    """The batch that a failure is about, if it is about one that can be made smaller."""
    while error is not None:
        if isinstance(error, BatchTooLargeError):
            return error if error.records > 1 else None
        error = error.__cause__
    return None


def with_smaller_batches(
    options: TransactionOptions, refused: BatchTooLargeError, limit_bytes: int | None
) -> TransactionOptions:
    """Options under which batches are at most half as large, or as much less as the limit asks for.

    Args:
        options: those under which the batch was made.
        refused: the batch.
        limit_bytes: what the topic takes, if that may be seen.
    """
    half = refused.raw_bytes // 2
    # Compressed batches shrink about as their content does.
    wanted = half if limit_bytes is None else min(half, refused.raw_bytes * limit_bytes // refused.size_bytes)
    return with_batch_size(options, max(1, wanted))


def with_batch_size(options: TransactionOptions, size_bytes: int) -> TransactionOptions:
    """Options under which batches have at most so many bytes before compression."""
    size_bytes = min(size_bytes, options.producer.batch_size_bytes)
    return replace(options, producer=replace(options.producer, batch_size_bytes=size_bytes))
