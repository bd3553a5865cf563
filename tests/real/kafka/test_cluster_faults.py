"""A range read from a cluster of three brokers while they die, freeze, lose their disks, or hand partitions over.

Every test says what confluent-kafka reads of the same log, and what is read here equals it; or there is an error
that names what is lost, with its numbers.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kafka.protocol.admin import ElectionType
from tests.real.kafka.cluster import NODES, address_of, elect, frozen, heal, lose_log, partition_of, place_on
from tests.real.kafka.logs import (
    Row,
    consume,
    create_topic_again,
    delete_records,
    offsets_of,
    options,
    produce,
    read,
    rows_of,
    set_topic_config,
    start_offset,
    task_for,
    within,
)
from tests.waiting import until

from directkafka.errors import DataLossError
from directkafka.kafka.consumer import fetch, range_reader
from directkafka.kafka.consumer.fetch import FetchResponse
from directkafka.kafka.consumer.range_reader import read_range
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network import connection_pool
from directkafka.kafka.network.client import Channel, KafkaClient
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 500
#: Responses of one batch of ten records each: a range takes fifty, of which three at most are fetched ahead.
SMALL = {"max_partition_fetch_bytes": 20_000, "retry_backoff_ms": 20}


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaBroker]:
    quick = {"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 200}
    near = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    racks = {node: {"broker.rack": f"rack-{node}"} for node in NODES}
    with KafkaBroker(3, config={**quick, **near}, node_config=racks) as broker:
        yield broker


@pytest.fixture
def cluster(three: KafkaBroker) -> Iterator[KafkaBroker]:
    """Three brokers in good health, before the test and after it."""
    yield three
    heal(three)


@pytest.fixture
def topic_on(cluster: KafkaBroker, topic: Callable[[], str]) -> Callable[..., str]:
    """``topic_on([1, 2, 3])`` makes a topic whose partition lies on these nodes, led by the first, with records."""

    def make(nodes: list[int], config: dict[str, str] | None = None) -> str:
        servers, name = cluster.bootstrap_servers, topic()
        create_topic_again(servers, name, replicas=len(nodes), config=config)
        place_on(servers, name, nodes)
        fill(servers, name)
        return name

    return make


def fill(servers: str, topic: str, count: int = COUNT) -> None:
    produce(servers, topic, [os.urandom(10_000) for _ in range(count)], batch_every=10, acks="all")


def planned(cluster: KafkaBroker, topic: str, end: int = COUNT, **fields: Any) -> RangeTask:
    client = options(cluster.bootstrap_servers, **SMALL, **fields.pop("params", {}))
    return task_for(client, topic, 0, end, **fields)


def read_around(task: RangeTask, event: Callable[[], object]) -> list[Row]:
    """Read a range in whose middle something happens."""
    reader = read_range(task)
    batches = [next(reader)]
    event()
    batches += reader
    return rows_of(batches)


# Brokers that die, freeze, or hand over.


def test_a_leader_that_is_killed_in_mid_range_costs_nothing_but_time(
    cluster: KafkaBroker, topic_on: Callable[..., str]
) -> None:
    topic = topic_on([1, 2, 3])
    expected = consume(cluster.bootstrap_servers, topic)
    assert len(expected) == COUNT
    assert read_around(planned(cluster, topic), lambda: cluster.kill(1)) == expected
    assert partition_of(cluster.bootstrap_servers, topic).leader != 1


def test_a_leader_that_freezes_in_mid_range_is_left_once_its_silence_is_too_long(
    cluster: KafkaBroker, topic_on: Callable[..., str]
) -> None:
    """It keeps the connection, and takes new ones, and never answers."""
    topic = topic_on([1, 2, 3])
    expected = consume(cluster.bootstrap_servers, topic)
    task = planned(cluster, topic, params={"request_timeout_ms": 2_000, "socket_connection_setup_timeout_ms": 2_000})
    reader = read_range(task)
    batches = [next(reader)]
    with frozen(cluster, 1):
        begun = time.monotonic()
        batches += reader
    assert time.monotonic() - begun < 30
    assert rows_of(batches) == expected


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_broker_that_freezes_is_left_where_any_other_will_do(
    cluster: KafkaBroker, monkeypatch: pytest.MonkeyPatch, is_connected: bool
) -> None:
    """It lets itself be connected to, as its kernel does that, and never answers. kafka-python may always choose it."""
    limits = {"socket_connection_setup_timeout_ms": 2_000, "request_timeout_ms": 2_000}
    client = KafkaClient(options(cluster.bootstrap_servers, **limits))
    with closing(client):
        client.call("Metadata", 1 if is_connected else 2, topics=[], allow_auto_topic_creation=False)
        monkeypatch.setattr(client._manager, "least_loaded_node", lambda: 1)
        with frozen(cluster, 1):
            assert client.call("Metadata", topics=[], allow_auto_topic_creation=False).brokers


def test_a_partition_that_moves_to_other_brokers_is_followed(
    cluster: KafkaBroker, topic_on: Callable[..., str]
) -> None:
    topic = topic_on([1])
    expected = consume(cluster.bootstrap_servers, topic)
    assert read_around(planned(cluster, topic), lambda: place_on(cluster.bootstrap_servers, topic, [2])) == expected
    place_on(cluster.bootstrap_servers, topic, [3, 1])
    assert consume(cluster.bootstrap_servers, topic) == expected


def test_a_leader_that_comes_back_with_an_empty_disk_is_filled_again_before_it_leads(
    cluster: KafkaBroker, topic_on: Callable[..., str]
) -> None:
    topic = topic_on([1, 2, 3])
    servers = cluster.bootstrap_servers
    expected = consume(servers, topic)

    def replace_disk() -> None:
        cluster.kill(1)
        lose_log(cluster, 1, topic)
        heal(cluster)
        place_on(servers, topic, [1, 2, 3])

    assert read_around(planned(cluster, topic), replace_disk) == expected


# Replicas that are near.


@dataclass
class Traffic:
    """What was asked of each broker: requests, and bytes of records in their answers, by port."""

    requests: Counter[int]
    record_bytes: Counter[int]


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    seen = Traffic(Counter(), Counter())

    def counted(channel: Channel, *arguments: Any, **named: Any) -> FetchResponse:
        seen.requests[channel.port] += 1
        response = fetch.send_fetch(channel, *arguments, **named)
        seen.record_bytes[channel.port] += response.records_end - response.records_start
        return response

    monkeypatch.setattr(range_reader, "send_fetch", counted)
    return seen


def test_records_come_from_the_replica_in_our_rack(
    cluster: KafkaBroker, topic_on: Callable[..., str], traffic: Traffic
) -> None:
    topic = topic_on([1, 2, 3])
    expected = consume(cluster.bootstrap_servers, topic)
    leader, near = address_of(cluster, 1)[1], address_of(cluster, 3)[1]
    for number in (1, 2):
        assert read(planned(cluster, topic, params={"client_rack": "rack-3"})) == expected
        # The leader is asked once for each range, and refers to the replica without a byte of records.
        assert traffic.requests[leader] == number
        # Both connections are there for the next range.
        assert {channel.port for _, channel in connection_pool._idle} == {leader, near}
    assert traffic.record_bytes[leader] == 0
    assert traffic.record_bytes[near] > 2 * COUNT * 10_000
    assert set(traffic.requests) == {leader, near}


@pytest.mark.parametrize("rack", ["", "nowhere", "rack-1"])
def test_records_come_from_the_leader_when_no_replica_is_nearer(
    cluster: KafkaBroker, topic_on: Callable[..., str], traffic: Traffic, rack: str
) -> None:
    topic = topic_on([1, 2, 3])
    assert len(read(planned(cluster, topic, params={"client_rack": rack}))) == COUNT
    assert set(traffic.requests) == {address_of(cluster, 1)[1]}


def test_a_near_replica_that_dies_is_replaced_by_the_leader_for_the_rest_of_the_range(
    cluster: KafkaBroker, topic_on: Callable[..., str], traffic: Traffic
) -> None:
    topic = topic_on([1, 2, 3])
    expected = consume(cluster.bootstrap_servers, topic)
    leader, near = address_of(cluster, 1)[1], address_of(cluster, 3)[1]
    rows = read_around(planned(cluster, topic, params={"client_rack": "rack-3"}), lambda: cluster.kill(3))
    assert rows == expected
    assert traffic.record_bytes[near] > 0
    assert traffic.record_bytes[leader] > 0
    # Not once more to the dead one: the leader still took it for alive.
    assert traffic.requests[near] + traffic.requests[leader] <= COUNT // 10 + 3


# Logs that are really lost.


def lose_only_replica(cluster: KafkaBroker, topic: str) -> None:
    cluster.kill(1)
    lose_log(cluster, 1, topic)
    heal(cluster)


def test_an_only_replica_that_lost_its_disk_is_a_loss_from_where_the_reader_is(
    cluster: KafkaBroker, topic_on: Callable[..., str]
) -> None:
    topic = topic_on([1])
    with pytest.raises(DataLossError) as caught:
        read_around(planned(cluster, topic), lambda: lose_only_replica(cluster, topic))
    loss = caught.value
    assert 0 < loss.lost_from < loss.lost_until == COUNT
    assert "the log ends at offset 0" in str(loss)


def test_an_empty_log_is_a_loss_also_at_its_first_offset(cluster: KafkaBroker, topic_on: Callable[..., str]) -> None:
    topic = topic_on([1])
    task = planned(cluster, topic, poll_timeout_ms=20_000)
    lose_only_replica(cluster, topic)
    begun = time.monotonic()
    with pytest.raises(DataLossError) as caught:
        read(task)
    assert (caught.value.lost_from, caught.value.lost_until) == (0, COUNT)
    assert time.monotonic() - begun < 10


def test_other_records_under_the_same_offsets_are_never_taken_for_the_lost_ones(
    cluster: KafkaBroker, topic_on: Callable[..., str]
) -> None:
    topic = topic_on([1])
    task = planned(cluster, topic)

    def lose_and_fill() -> None:
        lose_only_replica(cluster, topic)
        fill(cluster.bootstrap_servers, topic)

    with pytest.raises(DataLossError) as caught:
        read_around(task, lose_and_fill)
    assert 0 < caught.value.lost_from < caught.value.lost_until == COUNT
    with pytest.raises(DataLossError) as caught:
        read(task)
    assert (caught.value.lost_from, caught.value.lost_until) == (0, COUNT)
    assert read(replace(task, fail_on_data_loss=False)) == []
    # A range that is planned now means what is there now.
    assert read(planned(cluster, topic)) == consume(cluster.bootstrap_servers, topic)


def lose_last_hundred(cluster: KafkaBroker, topic: str) -> None:
    """The leader dies for good; the other replica, which lacks its last records, takes over."""
    cluster.kill(1)
    cluster.restart(2)
    elect(cluster.bootstrap_servers, topic, 2, ElectionType.UNCLEAN)


@pytest.fixture
def torn(cluster: KafkaBroker, topic_on: Callable[..., str]) -> str:
    """A topic whose last hundred records only its leader has, node 1; node 2 has the rest, and is dead."""
    topic = topic_on([1, 2], config={"min.insync.replicas": "1"})
    servers = cluster.bootstrap_servers
    cluster.kill(2)
    until(lambda: partition_of(servers, topic).isrs == [1], "the dead replica is still in sync")
    fill(servers, topic, 100)
    return topic


def test_an_unclean_election_is_a_loss_of_what_the_new_leader_never_had(cluster: KafkaBroker, torn: str) -> None:
    expected = consume(cluster.bootstrap_servers, torn)
    assert len(expected) == COUNT + 100
    task = planned(cluster, torn, end=COUNT + 100, poll_timeout_ms=20_000)
    lose_last_hundred(cluster, torn)
    begun = time.monotonic()
    with pytest.raises(DataLossError) as caught:
        read(task)
    assert (caught.value.lost_from, caught.value.lost_until) == (COUNT, COUNT + 100)
    assert time.monotonic() - begun < 10
    assert read(replace(task, fail_on_data_loss=False)) == expected[:COUNT]


def test_records_written_after_an_unclean_election_are_not_taken_for_those_before(
    cluster: KafkaBroker, torn: str
) -> None:
    expected = consume(cluster.bootstrap_servers, torn)
    task = planned(cluster, torn, end=COUNT + 100)
    lose_last_hundred(cluster, torn)
    fill(cluster.bootstrap_servers, torn, 150)
    with pytest.raises(DataLossError) as caught:
        read(task)
    assert (caught.value.lost_from, caught.value.lost_until) == (COUNT, COUNT + 100)
    assert read(replace(task, fail_on_data_loss=False)) == expected[:COUNT]


# Retention that overtakes.


def test_records_that_are_deleted_in_mid_range_are_a_loss_with_its_numbers(
    cluster: KafkaBroker, topic_on: Callable[..., str]
) -> None:
    topic = topic_on([1, 2, 3])
    task = planned(cluster, topic)
    with pytest.raises(DataLossError) as caught:
        read_around(task, lambda: delete_records(cluster.bootstrap_servers, topic, 455))
    loss = caught.value
    assert 0 < loss.lost_from < loss.lost_until == 455


def test_retention_that_overtakes_a_reader_leaves_a_gap_that_is_logged_and_what_is_left_is_read(
    cluster: KafkaBroker, topic_on: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = topic_on([1, 2, 3], config={"segment.bytes": "1048576"})
    servers = cluster.bootstrap_servers
    expected = consume(servers, topic)

    def expire() -> None:
        set_topic_config(servers, topic, {"retention.bytes": "1500000"})
        until(lambda: start_offset(servers, topic) > COUNT // 2, "retention deleted nothing")

    rows = read_around(planned(cluster, topic, fail_on_data_loss=False), expire)
    read_offsets = offsets_of(rows)
    (gap,) = [(offset, other) for offset, other in itertools.pairwise(read_offsets) if other != offset + 1]
    lost_from, lost_until = gap[0] + 1, gap[1]
    assert rows == [*within(expected, 0, lost_from), *within(expected, lost_until, COUNT)]
    assert lost_until == start_offset(servers, topic)
    assert f"offsets [{lost_from}, {lost_until})" in caplog.text


# Questions that any broker can answer.


def test_a_broker_that_has_just_died_is_passed_over_when_any_will_do(
    cluster: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has learned of it a moment ago, and its first choice is a matter of chance."""
    with closing(KafkaClient(options(cluster.bootstrap_servers))) as client:
        client.call("Metadata", topics=[], allow_auto_topic_creation=False)
        cluster.kill(3)
        chosen = client._manager.least_loaded_node
        dead = iter([3])
        monkeypatch.setattr(client._manager, "least_loaded_node", lambda: next(dead, None) or chosen())
        metadata = client.call("Metadata", topics=[], allow_auto_topic_creation=False)
        assert {broker.node_id for broker in metadata.brokers} >= {1, 2}
