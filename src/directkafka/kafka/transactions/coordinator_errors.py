"""Meanings of a transaction coordinator's error codes for the request that they answer.

Source: ``Errors.java`` of Kafka 4.3, and how ``TransactionManager`` of its Java client takes each.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

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
    # UNKNOWN_SERVER_ERROR. What an EndTxn gets (Kafka 4.3) that comes while the coordinator is ending the transaction
    # for another producer's InitProducerId: it prepares a second transition while one is pending, which throws. Asked
    # again, it says which. All requests here may be sent twice.
    -1: Meaning.AGAIN,
    0: Meaning.DONE,
    3: Meaning.AGAIN,  # UNKNOWN_TOPIC_OR_PARTITION: metadata on its way; a topic that is gone ends the time
    5: Meaning.AGAIN,  # LEADER_NOT_AVAILABLE
    6: Meaning.AGAIN,  # NOT_LEADER_OR_FOLLOWER
    7: Meaning.AGAIN,  # REQUEST_TIMED_OUT: the coordinator's own log was slow; perhaps done
    13: Meaning.MOVED,  # NETWORK_EXCEPTION
    14: Meaning.AGAIN,  # COORDINATOR_LOAD_IN_PROGRESS
    15: Meaning.MOVED,  # COORDINATOR_NOT_AVAILABLE
    16: Meaning.MOVED,  # NOT_COORDINATOR
    19: Meaning.AGAIN,  # NOT_ENOUGH_REPLICAS
    20: Meaning.AGAIN,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    51: Meaning.AGAIN,  # CONCURRENT_TRANSACTIONS: the one before is being ended
    47: Meaning.FENCED,  # INVALID_PRODUCER_EPOCH
    49: Meaning.FENCED,  # INVALID_PRODUCER_ID_MAPPING: a newer producer id, or the transactional id has expired
    52: Meaning.FENCED,  # TRANSACTION_COORDINATOR_FENCED
    90: Meaning.FENCED,  # PRODUCER_FENCED
    48: Meaning.STATE,  # INVALID_TXN_STATE
    120: Meaning.STATE,  # TRANSACTION_ABORTABLE
}


def meaning_of(code: int) -> Meaning:
    """What a coordinator's error code means; those not in the table are refusals (50: the timeout, 53: the rights)."""
    return _MEANINGS.get(code, Meaning.REFUSED)
