"""What a broker's answer to a batch means: one table of its error codes.

Sources: Kafka's ``Errors.java``, and what ``Sender.java`` and ``TransactionManager.java`` do with each.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

from directkafka.errors import BrokerResponseError, KafkaError
from directkafka.kafka.protocol.error_codes import STALE_METADATA, ErrorCode, error_name, is_retriable
from directkafka.kafka.records.encoder import EncodedBatch, ProducerIdentity
from directkafka.producer_errors import BatchTooLargeError, ProducerFencedError, ProducerStateError

__all__ = ["Verdict", "judge", "refusal", "unknown_topic"]

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


class Verdict(Enum):
    """What becomes of a batch."""

    WRITTEN = auto()
    AGAIN = auto()
    AGAIN_ELSEWHERE = auto()
    REFUSED = auto()


def judge(code: int, *, tries: int, has_earlier: bool) -> Verdict:
    """What an answer means for the batch.

    Args:
        code: the error code, 0 for success.
        tries: how often the batch was sent.
        has_earlier: whether an earlier batch of its partition is not acknowledged.
    """
    # A first try is no duplicate of ours: somebody else writes under this identity.
    if code == ErrorCode.NONE or (code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER and tries > 1):
        return Verdict.WRITTEN
    if code in STALE_METADATA:
        return Verdict.AGAIN_ELSEWHERE
    # The earlier batch was refused for a passing reason, or is lost: this one has to wait for it.
    if is_retriable(code) or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and has_earlier):
        return Verdict.AGAIN
    return Verdict.REFUSED


def refusal(code: int, words: str | None, batch: EncodedBatch, identity: ProducerIdentity) -> KafkaError:
    """The error for a batch that is refused.

    Args:
        code: the broker's.
        words: its own message, if it has one.
        batch: what was refused.
        identity: who wrote it.
    """
    name = error_name(code)
    place = batch.target
    if code in _FENCED:
        return ProducerFencedError(
            topic=place.topic,
            partition=place.partition,
            producer_id=identity.producer_id,
            epoch=identity.epoch,
            code=code,
            name=name,
        )
    if code in _STATE:
        return ProducerStateError(
            topic=place.topic,
            partition=place.partition,
            producer_id=identity.producer_id,
            epoch=identity.epoch,
            base_sequence=batch.base_sequence,
            code=code,
            name=name,
        )
    size = len(batch.data)
    said: dict[str, Any] = {
        "api": "Produce",
        "code": code,
        "name": name,
        "retriable": is_retriable(code),
        "subject": f"{place}: {words}" if words else str(place),
        "remedy": _remedy(code, batch.records, size),
    }
    if code in _SIZE_SETTINGS:
        return BatchTooLargeError(
            topic=place.topic, records=batch.records, size_bytes=size, raw_bytes=batch.raw_bytes, **said
        )
    return BrokerResponseError(**said)


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
    return BrokerResponseError(
        api="Metadata",
        code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=error_name(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        retriable=is_retriable(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        subject=subject,
        remedy="Create the topic, or correct its name or the partition's number: topics are not created by writing to "
        "them, and one that this user has no DESCRIBE right on looks the same",
    )
