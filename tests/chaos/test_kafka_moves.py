"""Leaders and coordinators that are moved to other brokers in the middle of a batch, in good health.

Crash point 15: what an administrator does when brokers are replaced, or load is spread. The driver stands still while
the partition moves, and finds everything elsewhere when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.chaos.test_kafka_store import World
from tests.contract.kafka_harness import PARTITIONS
from tests.processes import running
from tests.real.kafka.cluster import NODES, partition_of, place_on
from tests.real.kafka.logs import create_topic_again

from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: Of one partition here, so every transactional id has the same coordinator: its leader.
TRANSACTION_STATE = "__transaction_state"


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaBroker]:
    with KafkaBroker(len(NODES)) as broker:
        yield broker


@pytest.fixture
def world(three: KafkaBroker, topic: Callable[[], str], tmp_path: Path) -> Iterator[World]:
    name = topic()
    create_topic_again(
        three.bootstrap_servers, name, PARTITIONS, replicas=len(NODES), config={"min.insync.replicas": "2"}
    )
    world = World(three.bootstrap_servers, name, tmp_path)
    yield world
    world.reader.stop()


def move_on(servers: str, topic: str) -> None:
    """Give partition 0 to the next broker."""
    leader = partition_of(servers, topic).leader
    following = leader % len(NODES) + 1
    place_on(servers, topic, [following, *(node for node in NODES if node != following)])


@pytest.mark.parametrize("moved", ["the leader of rows", "the ledger's leader", "the coordinator"])
@pytest.mark.parametrize("point", ["task.flushed@3", "commit.ledger_produced@3", "commit.answered@3"])
def test_what_moves_in_the_middle_of_a_batch_is_followed(world: World, point: str, moved: str) -> None:
    topics = {
        "the leader of rows": world.topic,
        "the ledger's leader": world.ledger,
        "the coordinator": TRANSACTION_STATE,
    }
    with running(world.driver(f"{point}=stop", staged=True)) as driver:
        driver.wait_until_stopped()
        move_on(world.servers, topics[moved])
        driver.go_on()
        assert driver.wait() == 0, driver.messages()
    world.check()
