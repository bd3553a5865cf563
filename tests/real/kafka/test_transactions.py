"""What the transaction coordinator of a real broker does, as far as the Kafka store builds on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from tests.open_transactions import open_transactions
from tests.real.kafka.logs import options
from tests.waiting import until

from directkafka.errors.kafka import (
    ProducerFencedError,
    ProducerStateError,
    TransactionFencedError,
    TransactionStateError,
)
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.producer.producer import Producer
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.offsets import TopicPartition
from directkafka.options.producer import ProducerOptions
from directkafka.testing.store_driver import run_together

pytestmark = pytest.mark.real


class Place:
    """A partition, and the coordinator of a transactional id that nobody else has."""

    def __init__(self, servers: str, topic: str, client: KafkaClient) -> None:
        self.partition = TopicPartition(topic, 0)
        self.name = f"transactions-{uuid.uuid4().hex[:8]}"
        self.client = client
        self.coordinator = Coordinator(client, self.name, transaction_timeout_ms=30_000, retry_ms_max=10_000)

    def write(self, identity: ProducerIdentity, value: bytes = b"x") -> None:
        rows = pa.record_batch({"value": pa.array([value], pa.binary())})
        with Producer(self.client.options, ProducerOptions(), identity) as producer:
            producer.write(rows, [self.partition], np.zeros(1, np.int32))
            producer.flush()

    def states(self) -> list[str]:
        return [transaction.state for transaction in open_transactions(self.client, self.name)]

    def wait_until_ended(self) -> None:
        """EndTxn is answered while the transaction is still being ended."""
        until(lambda: self.states() == [], "a transaction stays open")


@pytest.fixture
def coordinated_partition(servers: str, create_topic: Callable[..., str]) -> Iterator[Place]:
    with closing(KafkaClient(options(servers))) as client:
        coordinated_partition = Place(servers, create_topic(), client)
        yield coordinated_partition
        coordinated_partition.wait_until_ended()


def test_a_take_over_ends_what_is_open_and_refuses_the_older_owner(coordinated_partition: Place) -> None:
    older = coordinated_partition.coordinator.take_over()
    coordinated_partition.coordinator.add_partitions(older, [coordinated_partition.partition])
    coordinated_partition.write(older)
    (transaction,) = open_transactions(coordinated_partition.client, coordinated_partition.name)
    assert (transaction.state, transaction.producer_id, transaction.epoch, transaction.partitions) == (
        "Ongoing",
        older.producer_id,
        older.epoch,
        (coordinated_partition.partition,),
    )
    newer = coordinated_partition.coordinator.take_over()
    assert newer.epoch > older.epoch
    coordinated_partition.wait_until_ended()
    with pytest.raises(ProducerFencedError):
        coordinated_partition.write(older)
    for step in (
        lambda: coordinated_partition.coordinator.add_partitions(older, [coordinated_partition.partition]),
        lambda: coordinated_partition.coordinator.end(older, commit=True),
        lambda: coordinated_partition.coordinator.bump_epoch(older),
    ):
        with pytest.raises(TransactionFencedError):
            step()


def test_a_bump_that_is_sent_again_gives_the_same_epoch(coordinated_partition: Place) -> None:
    """Its answer was lost: the epoch before the current one is taken for a repetition (KIP-360)."""
    first = coordinated_partition.coordinator.take_over()
    second = coordinated_partition.coordinator.bump_epoch(first)
    assert second.epoch == first.epoch + 1
    assert coordinated_partition.coordinator.bump_epoch(first) == second
    third = coordinated_partition.coordinator.bump_epoch(second)
    assert third.epoch == second.epoch + 1
    with pytest.raises(TransactionFencedError):
        coordinated_partition.coordinator.bump_epoch(first)


def test_an_older_owners_bump_aborts_the_newer_ones_transaction(coordinated_partition: Place) -> None:
    """The epoch is compared only while nothing is open: why a driver looks at the ledger before it asks."""
    older = coordinated_partition.coordinator.take_over()
    newer = coordinated_partition.coordinator.take_over()
    coordinated_partition.coordinator.add_partitions(newer, [coordinated_partition.partition])
    with pytest.raises(TransactionFencedError):
        coordinated_partition.coordinator.bump_epoch(older)
    coordinated_partition.wait_until_ended()
    with pytest.raises(TransactionFencedError):
        coordinated_partition.coordinator.end(newer, commit=True)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_sent_again_succeeds_again(coordinated_partition: Place, commit: bool) -> None:
    identity = coordinated_partition.coordinator.take_over()
    coordinated_partition.coordinator.add_partitions(identity, [coordinated_partition.partition])
    coordinated_partition.coordinator.end(identity, commit=commit)
    coordinated_partition.coordinator.end(identity, commit=commit)
    with pytest.raises(TransactionStateError):
        coordinated_partition.coordinator.end(identity, commit=not commit)


def test_a_second_transaction_of_one_epoch_is_ended_by_a_late_end_of_the_first(coordinated_partition: Place) -> None:
    """KAFKA-17754: why every transaction has an epoch of its own."""
    identity = coordinated_partition.coordinator.take_over()
    coordinated_partition.coordinator.add_partitions(identity, [coordinated_partition.partition])
    coordinated_partition.coordinator.end(identity, commit=True)
    coordinated_partition.coordinator.add_partitions(identity, [coordinated_partition.partition])
    assert coordinated_partition.states() == ["Ongoing"]
    coordinated_partition.coordinator.end(identity, commit=True)
    coordinated_partition.wait_until_ended()


def test_a_late_produce_is_refused(coordinated_partition: Place) -> None:
    """From Kafka 3.6 on: older brokers would take it, into a transaction that nobody ends (KIP-890)."""
    identity = coordinated_partition.coordinator.take_over()
    coordinated_partition.coordinator.add_partitions(identity, [coordinated_partition.partition])
    coordinated_partition.write(identity)
    coordinated_partition.coordinator.end(identity, commit=True)
    # The answer comes before the markers are written; until then the write would belong to the transaction.
    coordinated_partition.wait_until_ended()
    with pytest.raises((ProducerStateError, ProducerFencedError)):
        coordinated_partition.write(identity)


def test_nothing_can_be_ended_that_was_not_opened(coordinated_partition: Place) -> None:
    with pytest.raises(TransactionStateError):
        coordinated_partition.coordinator.end(coordinated_partition.coordinator.take_over(), commit=True)


def test_a_producer_that_nobody_knows_is_fenced(coordinated_partition: Place) -> None:
    identity = coordinated_partition.coordinator.take_over()
    with pytest.raises(TransactionFencedError, match="49"):
        coordinated_partition.coordinator.end(
            replace(identity, producer_id=identity.producer_id + 1_000_000), commit=True
        )


@pytest.mark.slow
def test_a_commit_that_meets_a_take_over_is_done_or_refused(coordinated_partition: Place, servers: str) -> None:
    """About one in a hundred meets the coordinator in the middle, which then fails by itself: UNKNOWN_SERVER_ERROR."""
    with closing(KafkaClient(options(servers))) as client:
        other = Coordinator(client, coordinated_partition.name, transaction_timeout_ms=30_000, retry_ms_max=10_000)
        for _ in range(500):
            identity = coordinated_partition.coordinator.take_over()
            coordinated_partition.coordinator.add_partitions(identity, [coordinated_partition.partition])
            ended, newer = run_together(
                partial(coordinated_partition.coordinator.end, identity, commit=True), other.take_over
            )
            assert ended is None or isinstance(ended, TransactionFencedError)
            assert (newer.producer_id, newer.epoch) > (identity.producer_id, identity.epoch)
