"""The book of who writes what in a transaction, and its time."""

from __future__ import annotations

from typing import Any

import pytest

from directkafka.errors import OptionError
from directkafka.errors.kafka import TransactionTooSlowError
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.offsets import TopicPartition
from directkafka.options.producer import TransactionOptions
from directkafka.sinks.kafka.transaction import DRIVER, KafkaTransaction

LEDGER = TopicPartition("directkafka.ledger.a", 0)
PARTITIONS = [TopicPartition("flights", number) for number in range(3)]


class FakeCoordinator:
    def __init__(self) -> None:
        self.added: list[set[TopicPartition]] = []
        self.ended: list[bool] = []

    def add_partitions(self, identity: ProducerIdentity, partitions: Any) -> None:
        self.added.append(set(partitions))

    def end(self, identity: ProducerIdentity, *, commit: bool) -> None:
        self.ended.append(commit)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def coordinator() -> FakeCoordinator:
    return FakeCoordinator()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def transaction(coordinator: FakeCoordinator, clock: Clock) -> KafkaTransaction:
    return KafkaTransaction(
        coordinator,
        ProducerIdentity(producer_id=1, epoch=2, transactional_id="directkafka.a"),
        TransactionOptions.from_kafka_params({"bootstrap.servers": "one:1", "transaction.timeout.ms": 10_000}),
        attempt="attempt",
        ledger=LEDGER,
        ledger_end=5,
        clock=clock,
    )


def test_the_ledger_is_taken_in_with_the_first_partitions(
    transaction: KafkaTransaction, coordinator: FakeCoordinator
) -> None:
    assert not transaction.is_open
    transaction.add(PARTITIONS[:2])
    transaction.add(PARTITIONS)
    transaction.add(PARTITIONS)
    transaction.add([LEDGER])
    assert coordinator.added == [{LEDGER, *PARTITIONS[:2]}, {PARTITIONS[2]}]
    assert transaction.is_open


def test_a_partition_has_one_writer(transaction: KafkaTransaction, coordinator: FakeCoordinator) -> None:
    assert not transaction.is_shared
    transaction.add(PARTITIONS[:1], writer="flights")
    assert transaction.is_shared
    with pytest.raises(OptionError, match=rf"flights-0 \(flights, {DRIVER}\)"):
        transaction.add(PARTITIONS)
    with pytest.raises(OptionError):
        transaction.add([LEDGER], writer="flights")
    assert coordinator.added == [{LEDGER, PARTITIONS[0]}]
    assert transaction.has_writer("flights")
    assert not transaction.has_writer("weather")


def test_a_topic_has_one_sink_however_few_rows_there_are(transaction: KafkaTransaction) -> None:
    transaction.reserve(["flights"], sink="flights")
    transaction.reserve(["flights", "weather"], sink="flights")
    with pytest.raises(OptionError, match=r"topic weather \(flights, kafka\).*UNION ALL"):
        transaction.reserve(["weather"], sink="kafka")
    with pytest.raises(OptionError, match=r"directkafka.ledger.a \(the ledger, kafka\)"):
        transaction.reserve([LEDGER.topic], sink="kafka")


def test_a_transaction_is_ended_before_the_broker_would(transaction: KafkaTransaction, clock: Clock) -> None:
    clock.now += 7.9
    assert transaction.budget_left_ms() == 100
    transaction.check_budget()
    clock.now += 0.2
    with pytest.raises(TransactionTooSlowError, match="open for 8100 ms, and has 8000 ms of the 10000 ms"):
        transaction.check_budget()
