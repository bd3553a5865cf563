"""Drivers of the Kafka store that die at the last epoch of their producer id.

Crash point 20. A batch takes an epoch, so at one batch a second this is met every nine hours: the coordinator then
gives a new producer id, and whatever still writes under the old one must be refused.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.chaos.test_kafka_store import World
from tests.contract.kafka_harness import PARTITIONS
from tests.processes import running
from tests.real.kafka.logs import options

from directkafka.errors.kafka import TransactionFencedError
from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.records.encoder import ProducerIdentity
from directkafka.kafka.transactions.coordinator import Coordinator
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

LAST = 32_766


@pytest.fixture
def world(kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path) -> Iterator[World]:
    world = World(kafka_broker.bootstrap_servers, create_topic(PARTITIONS), tmp_path)
    yield world
    world.reader.stop()


@pytest.fixture
def client(kafka_broker: KafkaBroker) -> Iterator[KafkaClient]:
    with closing(KafkaClient(options(kafka_broker.bootstrap_servers))) as client:
        yield client


def used_up_to(coordinator: Coordinator, epoch: int) -> ProducerIdentity:
    """An owner of the transactional id that has this epoch."""
    identity = coordinator.take_over()
    while identity.epoch < epoch:
        identity = coordinator.bump_epoch(identity)
    return identity


def owner(client: KafkaClient, transactional_id: str) -> tuple[int, int]:
    """Producer id and epoch, as the coordinator has them."""
    described = client.call("DescribeTransactions", transactional_ids=[transactional_id]).transaction_states[0]
    return described.producer_id, described.producer_epoch


@pytest.mark.parametrize(
    ("point", "epochs_used"),
    [
        ("fence.taken@1", 1),
        # The fence's transaction, batch 0's, and the first one with rows.
        ("commit.ledger_produced@2", 3),
        ("commit.answered@2", 3),
    ],
)
def test_a_driver_killed_at_the_last_epoch_loses_and_doubles_nothing(
    world: World, client: KafkaClient, point: str, epochs_used: int
) -> None:
    # An id that was used is one whose ledger has a record.
    with running(world.driver("fence.done=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    coordinator = Coordinator(client, world.transactional_id, transaction_timeout_ms=60_000)
    old = used_up_to(coordinator, LAST - epochs_used)
    with running(world.driver(f"{point}=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    assert owner(client, world.transactional_id) == (old.producer_id, LAST), "it did not die at the last epoch"
    with running(world.driver()) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()
    assert owner(client, world.transactional_id)[0] != old.producer_id
    with pytest.raises(TransactionFencedError):
        coordinator.end(replace(old, epoch=LAST), commit=True)
