"""Claims in a real partition: who is first, what a compaction leaves of them, and which tasks they are for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.real.kafka.logs import consume, options

from directkafka.errors.kafka import SecondAttemptError
from directkafka.kafka.transactions.attempt_fencing import TransactionClaims
from directkafka.offsets import TopicPartition
from directkafka.testing import KafkaBroker

pytestmark = pytest.mark.real


@pytest.fixture
def claims(kafka_broker: KafkaBroker, create_topic: Callable[..., str]) -> TransactionClaims:
    topic_partition = TopicPartition(create_topic(1, {"cleanup.policy": "compact"}), 0)
    client = options(kafka_broker.bootstrap_servers)
    return TransactionClaims(client=client, ledger=topic_partition, from_offset=0, name="directkafka.a/1/2/flights")


def test_a_compaction_between_two_attempts_leaves_the_first_ones_claim(claims: TransactionClaims) -> None:
    """It keeps the newest record of each key, and drops none of these."""
    claims.claim_writing(0)
    with pytest.raises(SecondAttemptError, match="task write/0"):
        claims.claim_writing(0)
    records = consume(claims.client.bootstrap_servers[0], claims.ledger.topic)
    kept = {key: offset for offset, key, *_ in records}
    assert sorted(kept.values()) == [0, 1]
    assert all(value is not None for _, _, value, *_ in records), "null would be a tombstone"


def test_each_task_of_each_kind_is_claimed_by_itself(claims: TransactionClaims) -> None:
    for number in (10, 1):
        claims.claim_writing(number)
        claims.claim_routing(number)
    with pytest.raises(SecondAttemptError, match="task route/1 of"):
        claims.claim_routing(1)
