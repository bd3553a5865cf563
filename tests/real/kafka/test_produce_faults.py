"""Rows written while brokers die, freeze and hand over: each is there once, and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.real.kafka.cluster import NODES, elect, frozen, heal, partition_of, place_on
from tests.real.kafka.logs import consume, create_topic_again, options
from tests.waiting import until

from directkafka.kafka.network.client import KafkaClient
from directkafka.kafka.producer.producer import Producer, new_identity
from directkafka.offsets import TopicPartition
from directkafka.options.producer import ProducerOptions
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: Rows that are written at a time, before and after what happens.
PART = 2_000


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaBroker]:
    with KafkaBroker(3) as broker:
        yield broker


@pytest.fixture
def cluster(three: KafkaBroker) -> Iterator[KafkaBroker]:
    """Three brokers in good health, before the test and after it."""
    yield three
    heal(three)


def placed(cluster: KafkaBroker, topic: str, nodes: list[int], config: dict[str, str] | None = None) -> None:
    create_topic_again(cluster.bootstrap_servers, topic, replicas=len(nodes), config=config)
    place_on(cluster.bootstrap_servers, topic, nodes)


def write_around(cluster: KafkaBroker, topic: str, event: Callable[[Producer], object], **client: object) -> None:
    """Write rows, in whose middle something happens, and see that all are there once and in order."""
    connection = options(cluster.bootstrap_servers, retry_backoff_ms=20, **client)
    asking = KafkaClient(connection)
    try:
        identity = new_identity(asking)
    finally:
        asking.close()
    partition = TopicPartition(topic, 0)
    with Producer(connection, ProducerOptions(batch_size_bytes=400), identity) as producer:
        for part in range(6):
            if part == 3:
                event(producer)
            values = [b"%d" % number for number in range(part * PART, (part + 1) * PART)]
            producer.write(pa.record_batch({"value": pa.array(values)}), [partition], np.zeros(PART, np.int32))
        assert producer.flush() == {partition: 6 * PART}
    assert [int(row[2] or b"-1") for row in consume(cluster.bootstrap_servers, topic)] == list(range(6 * PART))


def test_a_leader_that_is_killed_costs_nothing_but_time(cluster: KafkaBroker, topic: Callable[[], str]) -> None:
    name = topic()
    placed(cluster, name, [1, 2, 3], {"min.insync.replicas": "2"})
    write_around(cluster, name, lambda _: cluster.kill(1))
    assert partition_of(cluster.bootstrap_servers, name).leader != 1


def test_a_leader_that_freezes_is_left_once_its_silence_is_too_long(
    cluster: KafkaBroker, topic: Callable[[], str]
) -> None:
    """It has taken batches, and wakes when others have been written in its place."""
    name = topic()
    placed(cluster, name, [1, 2, 3], {"min.insync.replicas": "2"})
    quick = {"request_timeout_ms": 2_000, "socket_connection_setup_timeout_ms": 2_000}
    with frozen(cluster, 1):
        # The event is that it is frozen from the first request on.
        write_around(cluster, name, lambda _: None, **quick)


def test_a_leadership_that_moves_again_and_again_is_followed(cluster: KafkaBroker, topic: Callable[[], str]) -> None:
    name = topic()
    placed(cluster, name, [1, 2])

    def move(_: Producer) -> None:
        for nodes in ([2, 3], [3, 1], [2, 1]):
            place_on(cluster.bootstrap_servers, name, nodes)

    write_around(cluster, name, move)


def test_too_few_replicas_are_waited_for(cluster: KafkaBroker, topic: Callable[[], str]) -> None:
    name = topic()
    placed(cluster, name, [1, 2], {"min.insync.replicas": "2"})
    cluster.kill(2)
    until(lambda: len(partition_of(cluster.bootstrap_servers, name).isrs) == 1, "the dead replica stays in sync")
    reasons = set()

    def restart(producer: Producer) -> None:
        def reason() -> str:
            late = producer._accumulator._queues.overdue(float("inf"))
            return late.reason if late is not None else ""

        reasons.add(until(lambda: "NOT_ENOUGH_REPLICAS" in reason() and reason(), "the broker took it"))
        cluster.restart(2)

    write_around(cluster, name, restart)
    assert reasons
    assert set(NODES) == set(cluster.pids)
    elect(cluster.bootstrap_servers, name, 1)
