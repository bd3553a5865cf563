"""What a broker's answer to a batch means: one table of its error codes.

Sources: Kafka's ``Errors.java``, and what ``Sender.java`` and ``TransactionManager.java`` do with each.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

from directkafka.errors import BrokerResponseError, KafkaError
from directkafka.kafka.network.client import error_name, is_retriable
from directkafka.kafka.records.encoder import EncodedBatch, ProducerIdentity
from directkafka.producer_errors import BatchTooLargeError, ProducerFencedError, ProducerStateError

__all__ = ["Verdict", "judge", "refusal", "unknown_topic"]

_UNKNOWN_TOPIC: Final = 3
_OUT_OF_ORDER: Final = 45
_DUPLICATE: Final = 46

#: NOT_LEADER_OR_FOLLOWER and its like: somebody else leads the partition now, or nobody does.
_STALE_LEADER: Final = frozenset({3, 5, 6, 9, 56, 72, 74, 75, 100})
_MESSAGE_TOO_LARGE: Final = 10
#: And RECORD_LIST_TOO_LARGE.
_TOO_LARGE: Final = frozenset({_MESSAGE_TOO_LARGE, 18})
#: INVALID_PRODUCER_EPOCH, PRODUCER_FENCED.
_FENCED: Final = frozenset({47, 90})
#: And INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE.
_STATE: Final = frozenset({_OUT_OF_ORDER, _DUPLICATE, 48, 49, 59, 120})

_RECORD_REMEDY: Final = (
    "The topic takes no such record: one of a compacted topic must have a key, and its timestamp must be near enough "
    "to now (message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
)
_REMEDIES: Final = {
    10: "Lower kafka.batch.size, or raise the topic's max.message.bytes: a batch of {records} records has {size} bytes",
    17: "The topic's name is not one that Kafka allows",
    18: "Lower kafka.batch.size, or raise the topic's segment.bytes: a batch of {records} records has {size} bytes",
    29: "Give this user the rights (ACLs) DESCRIBE and WRITE on the topic, or log in as somebody else",
    35: "Brokers before Kafka 2.8 cannot be written to",
    43: "The brokers keep this topic in an older format: raise its message.format.version",
    53: "Give this user the right (ACL) WRITE on the transactional id, or log in as somebody else",
    76: "The brokers do not know this codec: choose another kafka.compression.type",
    32: _RECORD_REMEDY,
    87: _RECORD_REMEDY,
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
    if code == 0 or (code == _DUPLICATE and tries > 1):
        return Verdict.WRITTEN
    if code in _STALE_LEADER:
        return Verdict.AGAIN_ELSEWHERE
    # The earlier batch was refused for a passing reason, or is lost: this one has to wait for it.
    if is_retriable(code) or (code == _OUT_OF_ORDER and has_earlier):
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
    if code in _TOO_LARGE:
        return BatchTooLargeError(
            topic=place.topic, records=batch.records, size_bytes=size, raw_bytes=batch.raw_bytes, **said
        )
    return BrokerResponseError(**said)


def _remedy(code: int, records: int, size_bytes: int) -> str:
    if code in _TOO_LARGE and records == 1:
        setting = "max.message.bytes" if code == _MESSAGE_TOO_LARGE else "segment.bytes"
        return f"Raise the topic's {setting}: a single record has {size_bytes} bytes"
    return _REMEDIES.get(code, BrokerResponseError.remedy).format(records=records, size=size_bytes)


def unknown_topic(subject: str) -> BrokerResponseError:
    """The error for a topic, or a partition of it, that has not been there for as long as it was waited for."""
    return BrokerResponseError(
        api="Metadata",
        code=_UNKNOWN_TOPIC,
        name=error_name(_UNKNOWN_TOPIC),
        retriable=is_retriable(_UNKNOWN_TOPIC),
        subject=subject,
        remedy="Create the topic, or correct its name or the partition's number: topics are not created by writing to "
        "them, and one that this user has no DESCRIBE right on looks the same",
    )
