"""Meanings of a transaction coordinator's error codes for the request that they answer.

Source: ``Errors.java`` of Kafka 4.3, and how ``TransactionManager`` of its Java client takes each.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from directkafka.kafka.protocol.error_codes import ErrorCode

__all__ = ["Meaning", "meaning_of"]


class Meaning(Enum):
    """What an error code says about the request that it answers."""

    DONE = "done"
    AGAIN = "not yet; the same request may succeed"
    MOVED = "not this broker; the coordinator is to be found anew"
    FENCED = "another producer owns the transactional id, or the broker gave the transaction up"
    STATE = "the transaction is in another state than the request is for"
    REFUSED = "no, and it will stay no"


_MEANINGS: Final[dict[int, Meaning]] = {
    # What an EndTxn gets (Kafka 4.3) that comes while the coordinator is ending the transaction for another producer's
    # InitProducerId: it prepares a second transition while one is pending, which throws. Asked again, it says which.
    # All requests here may be sent twice.
    ErrorCode.UNKNOWN_SERVER_ERROR: Meaning.AGAIN,
    ErrorCode.NONE: Meaning.DONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Meaning.AGAIN,  # metadata on its way; a topic that is gone ends the time
    ErrorCode.LEADER_NOT_AVAILABLE: Meaning.AGAIN,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Meaning.AGAIN,
    ErrorCode.REQUEST_TIMED_OUT: Meaning.AGAIN,  # the coordinator's own log was slow; perhaps done
    ErrorCode.NETWORK_EXCEPTION: Meaning.MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Meaning.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Meaning.MOVED,
    ErrorCode.NOT_COORDINATOR: Meaning.MOVED,
    ErrorCode.NOT_ENOUGH_REPLICAS: Meaning.AGAIN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Meaning.AGAIN,
    ErrorCode.CONCURRENT_TRANSACTIONS: Meaning.AGAIN,  # the one before is being ended
    ErrorCode.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Meaning.FENCED,  # a newer producer id, or the transactional id has expired
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Meaning.FENCED,
    ErrorCode.PRODUCER_FENCED: Meaning.FENCED,
    ErrorCode.INVALID_TXN_STATE: Meaning.STATE,
    ErrorCode.TRANSACTION_ABORTABLE: Meaning.STATE,
}


def meaning_of(code: int) -> Meaning:
    """What a coordinator's error code means; one that is not in the table is a refusal, of the timeout for example."""
    return _MEANINGS.get(code, Meaning.REFUSED)
