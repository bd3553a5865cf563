"""Drivers of the Kafka store for whom time runs out: transactions that the broker gives up, ids that it forgets.

A broker of their own, which does both within seconds. What must hold afterwards is what
:meth:`tests.chaos.test_kafka_store.World.check` says.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.chaos.kafka_driver import BATCH, PIPELINE
from tests.chaos.test_kafka_store import World
from tests.contract.kafka_harness import PARTITIONS, still_open
from tests.processes import running
from tests.real.kafka.logs import consume, create_topic_again, options, set_topic_config
from tests.waiting import until

from directkafka.kafka.network.client import KafkaClient
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: Of a driver's transactions: long enough for a batch on a busy machine.
TIMEOUT_MS = 3_000

CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "transactional.id.expiration.ms": 2_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
    "log.cleaner.backoff.ms": 100,
}
_ID_NOT_FOUND = 105


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(config=CONFIG) as broker:
        yield broker


@pytest.fixture
def world(broker: KafkaBroker, topic: Callable[[], str], tmp_path: Path) -> Iterator[World]:
    name = topic()
    create_topic_again(broker.bootstrap_servers, name, PARTITIONS)
    world = World(broker.bootstrap_servers, name, tmp_path)
    yield world
    world.reader.stop()


def wait_until_given_up(world: World) -> None:
    until(lambda: still_open(world.servers, world.prefix) == [], "the broker does not give the transaction up")


def wait_until_forgotten(world: World) -> None:
    def is_forgotten() -> bool:
        with closing(KafkaClient(options(world.servers))) as client:
            described = client.call("DescribeTransactions", transactional_ids=[world.transactional_id])
            return bool(described.transaction_states[0].error_code == _ID_NOT_FOUND)

    until(is_forgotten, "the transactional id does not expire")


@pytest.mark.parametrize("staged", [False, True], ids=["inline", "by tasks"])
@pytest.mark.parametrize("point", ["transaction.opened@4", "commit.rows_moved@3", "commit.ledger_produced@3"])
def test_a_driver_that_stood_still_beyond_its_time_commits_nothing_of_that_batch(
    world: World, point: str, staged: bool
) -> None:
    """The broker has aborted its transaction; nobody else has come. Its error is one that may pass, and is no fence."""
    with running(world.driver(f"{point}=stop", staged=staged, timeout_ms=TIMEOUT_MS)) as driver:
        driver.wait_until_stopped()
        wait_until_given_up(world)
        driver.go_on()
        assert driver.wait() == 1, driver.messages()
        assert "owned by a newer driver" not in driver.messages()
    world.check_committed_until(BATCH)
    with running(world.driver(staged=staged)) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()


def test_a_task_that_stood_still_beyond_the_time_costs_a_batch_and_no_record(world: World) -> None:
    """Its rows were acknowledged before, and the transaction that they are in is over when it goes on."""
    with running(world.driver("task.flushed@3=stop", staged=True, timeout_ms=TIMEOUT_MS)) as driver:
        driver.wait_until_stopped()
        wait_until_given_up(world)
        driver.go_on()
        assert driver.wait() == 1, driver.messages()
    world.check_committed_until(BATCH)
    with running(world.driver(staged=True)) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()


def test_a_driver_that_stood_still_in_its_fence_until_its_id_was_forgotten_fences_anew(world: World) -> None:
    with running(world.driver("fence.taken=stop", timeout_ms=TIMEOUT_MS)) as driver:
        driver.wait_until_stopped()
        wait_until_forgotten(world)
        driver.go_on()
        assert driver.wait() == 0, driver.messages()
    world.check()


def test_a_pipeline_that_was_down_until_its_id_was_forgotten_goes_on_from_its_ledger(world: World) -> None:
    """A driver died with its transaction open, the broker aborted that, and days later nobody knows the id."""
    with running(world.driver("commit.ledger_produced@3=kill", timeout_ms=TIMEOUT_MS)) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    wait_until_given_up(world)
    wait_until_forgotten(world)
    with running(world.driver()) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()


def test_a_ledger_whose_older_records_are_compacted_away_says_all_the_same(world: World) -> None:
    with running(world.driver()) as driver:
        assert driver.wait() == 0, driver.messages()
    set_topic_config(
        world.servers,
        world.ledger,
        {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0"},
    )
    with running(world.driver(count=6 * BATCH)) as driver:
        assert driver.wait() == 0, driver.messages()
    # Two fences, batch 0, and six batches with rows.
    until(lambda: len(ledger_records(world)) < 9, "nothing was compacted away")
    with running(world.driver(count=8 * BATCH)) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check(8 * BATCH)


def ledger_records(world: World) -> list[bytes | None]:
    records = consume(world.servers, world.ledger, isolation_level="read_committed")
    return [value for _, key, value, *_ in records if key == PIPELINE.encode()]
