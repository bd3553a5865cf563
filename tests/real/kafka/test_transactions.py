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
        return [one.state for one in open_transactions(self.client, self.name)]

    def wait_until_ended(self) -> None:
        """EndTxn is answered while the transaction is still being ended."""
        until(lambda: self.states() == [], "a transaction stays open")


@pytest.fixture
def place(servers: str, create_topic: Callable[..., str]) -> Iterator[Place]:
    with closing(KafkaClient(options(servers))) as client:
        place = Place(servers, create_topic(), client)
        yield place
        place.wait_until_ended()


def test_a_take_over_ends_what_is_open_and_refuses_the_older_owner(place: Place) -> None:
    older = place.coordinator.take_over()
    place.coordinator.add_partitions(older, [place.partition])
    place.write(older)
    (found,) = open_transactions(place.client, place.name)
    assert (found.state, found.producer_id, found.epoch, found.partitions) == (
        "Ongoing",
        older.producer_id,
        older.epoch,
        (place.partition,),
    )
    newer = place.coordinator.take_over()
    assert newer.epoch > older.epoch
    place.wait_until_ended()
    with pytest.raises(ProducerFencedError):
        place.write(older)
    for step in (
        lambda: place.coordinator.add_partitions(older, [place.partition]),
        lambda: place.coordinator.end(older, commit=True),
        lambda: place.coordinator.bump_epoch(older),
    ):
        with pytest.raises(TransactionFencedError):
            step()


def test_a_bump_that_is_sent_again_gives_the_same_epoch(place: Place) -> None:
    """Its answer was lost: the epoch before the current one is taken for a repetition (KIP-360)."""
    first = place.coordinator.take_over()
    second = place.coordinator.bump_epoch(first)
    assert second.epoch == first.epoch + 1
    assert place.coordinator.bump_epoch(first) == second
    third = place.coordinator.bump_epoch(second)
    assert third.epoch == second.epoch + 1
    with pytest.raises(TransactionFencedError):
        place.coordinator.bump_epoch(first)


def test_an_older_owners_bump_aborts_the_newer_ones_transaction(place: Place) -> None:
    """The epoch is compared only while nothing is open: why a driver looks at the ledger before it asks."""
    older = place.coordinator.take_over()
    newer = place.coordinator.take_over()
    place.coordinator.add_partitions(newer, [place.partition])
    with pytest.raises(TransactionFencedError):
        place.coordinator.bump_epoch(older)
    place.wait_until_ended()
    with pytest.raises(TransactionFencedError):
        place.coordinator.end(newer, commit=True)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_sent_again_succeeds_again(place: Place, commit: bool) -> None:
    identity = place.coordinator.take_over()
    place.coordinator.add_partitions(identity, [place.partition])
    place.coordinator.end(identity, commit=commit)
    place.coordinator.end(identity, commit=commit)
    with pytest.raises(TransactionStateError):
        place.coordinator.end(identity, commit=not commit)


def test_a_second_transaction_of_one_epoch_is_ended_by_a_late_end_of_the_first(place: Place) -> None:
    """KAFKA-17754: why every transaction has an epoch of its own."""
    identity = place.coordinator.take_over()
    place.coordinator.add_partitions(identity, [place.partition])
    place.coordinator.end(identity, commit=True)
    place.coordinator.add_partitions(identity, [place.partition])
    assert place.states() == ["Ongoing"]
    place.coordinator.end(identity, commit=True)
    place.wait_until_ended()


def test_a_late_produce_is_refused(place: Place) -> None:
    """From Kafka 3.6 on: older brokers would take it, into a transaction that nobody ends (KIP-890)."""
    identity = place.coordinator.take_over()
    place.coordinator.add_partitions(identity, [place.partition])
    place.write(identity)
    place.coordinator.end(identity, commit=True)
    # The answer comes before the markers are written; until then the write would belong to the transaction.
    place.wait_until_ended()
    with pytest.raises((ProducerStateError, ProducerFencedError)):
        place.write(identity)


def test_nothing_can_be_ended_that_was_not_opened(place: Place) -> None:
    with pytest.raises(TransactionStateError):
        place.coordinator.end(place.coordinator.take_over(), commit=True)


def test_a_producer_that_nobody_knows_is_fenced(place: Place) -> None:
    identity = place.coordinator.take_over()
    with pytest.raises(TransactionFencedError, match="49"):
        place.coordinator.end(replace(identity, producer_id=identity.producer_id + 1_000_000), commit=True)


@pytest.mark.slow
def test_a_commit_that_meets_a_take_over_is_done_or_refused(place: Place, servers: str) -> None:
    """About one in a hundred meets the coordinator in the middle, which then fails by itself: UNKNOWN_SERVER_ERROR."""
    with closing(KafkaClient(options(servers))) as client:
        other = Coordinator(client, place.name, transaction_timeout_ms=30_000, retry_ms_max=10_000)
        for _ in range(500):
            identity = place.coordinator.take_over()
            place.coordinator.add_partitions(identity, [place.partition])
            ended, newer = run_together(partial(place.coordinator.end, identity, commit=True), other.take_over)
            assert ended is None or isinstance(ended, TransactionFencedError)
            assert (newer.producer_id, newer.epoch) > (identity.producer_id, identity.epoch)
