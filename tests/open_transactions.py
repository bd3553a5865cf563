"""Transactions of a cluster that are open: what a test must not leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is neither committed nor aborted, as KIP-664 describes it.

    Attributes:
        transactional_id: whose.
        state: ``Ongoing``, ``PrepareCommit``, ``PrepareAbort`` or ``PrepareEpochFence``.
        producer_id, epoch: of its producer.
        started_at_ms: when, in milliseconds since 1970.
        partitions: what it has been given so far.
    """

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    started_at_ms: int
    partitions: tuple[TopicPartition, ...]


_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def open_transactions(client: KafkaClient, prefix: str = "") -> list[OpenTransaction]:
    """Every open transaction of the cluster whose transactional id begins so (ListTransactions, DescribeTransactions).

    Needs the right (ACL) DESCRIBE on the transactional ids; others are left out.

    Raises:
        BrokerUnreachableError, BrokerResponseError: a broker did not say.
    """
    brokers = client.call("Metadata", topics=[], allow_auto_topic_creation=False).brokers
    transactions = []
    for broker in brokers:
        listed = client.call(
            "ListTransactions", broker.node_id, state_filters=list(_OPEN_STATES), producer_id_filters=[]
        )
        ids = [state.transactional_id for state in listed.transaction_states]
        names = [name for name in ids if name.startswith(prefix)]
        if names:
            described = client.call("DescribeTransactions", broker.node_id, transactional_ids=names)
            states = described.transaction_states
            transactions += [_described(state) for state in states if state.transaction_state in _OPEN_STATES]
    return sorted(transactions, key=lambda transaction: transaction.transactional_id)


def _described(state: Any) -> OpenTransaction:
    return OpenTransaction(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        epoch=state.producer_epoch,
        started_at_ms=state.transaction_start_time_ms,
        partitions=tuple(
            sorted(TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions)
        ),
    )
