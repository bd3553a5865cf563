"""Whom a range is fetched from: the leader, a replica that it refers to, and the leader again."""

from __future__ import annotations

import time
from typing import Any

import pytest

from directkafka.errors import BrokerUnreachableError
from directkafka.kafka.admin.admin_client import Leader, TopicDescription
from directkafka.kafka.consumer import partition_connection
from directkafka.kafka.consumer.partition_connection import LeaderState, PartitionConnection, TopicGone, TryAgain
from directkafka.kafka.consumer.range_task import RangeTask
from directkafka.kafka.network import connection_pool
from directkafka.offsets import OffsetRange, TopicPartition
from directkafka.options.client import ClientOptions
from directkafka.snapshot import ClusterSnapshot, EndedEpoch, PartitionSnapshot

PARTITION = TopicPartition("flights", 3)
TASK = RangeTask(
    range=OffsetRange("flights", 3, 10, 20),
    topic_id="id",
    host="leader",
    port=9092,
    client=ClientOptions(bootstrap_servers=("broker:9092",), client_rack="near"),
    leader_epoch=5,
)


class Channel:
    expires_at = float("inf")

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.closed = False

    def close(self) -> None:
        self.closed = True


class World:
    """Brokers, and what the leader says; stands for the client, for ``AdminClient`` and for the pool of channels."""

    def __init__(self) -> None:
        self.replicas = {1: ("leader", 9092), 2: ("replica", 9092)}
        self.dead: set[str] = set()
        self.kept: list[tuple[str, int]] = []
        self.topic_id, self.epoch = "id", 5
        self.is_there = True
        self.epochs_asked: list[int] = []

    def borrow(self, _: object, host: str, port: int, *, timeout_ms: int) -> Channel:
        if host in self.dead:
            raise BrokerUnreachableError(addresses=(f"{host}:{port}",), timeout_ms=timeout_ms, cause="refused")
        return Channel((host, port))

    def release(self, _: object, channel: Channel) -> None:
        self.kept.append(channel.address)

    def address(self, node_id: int) -> tuple[str, int]:
        return self.replicas.get(node_id, ("", 0))

    def topics(self, _: object) -> dict[str, TopicDescription]:
        leader = Leader(node_id=1, host="leader", port=9092, epoch=self.epoch)
        if not self.is_there:
            return {}
        return {"flights": TopicDescription(topic_id=self.topic_id, internal=False, leaders={3: leader})}

    def snapshot(self, *_: object) -> ClusterSnapshot:
        seen = PartitionSnapshot(
            topic_id="id",
            leader=1,
            leader_host="leader",
            leader_port=9092,
            leader_epoch=self.epoch,
            earliest=0,
            latest=9,
        )
        return ClusterSnapshot(cluster_id="c", partitions={PARTITION: seen}, taken_at_ms=0)

    def local_start(self, *_: object) -> int:
        return 4

    def ended_epochs(self, epochs: dict[TopicPartition, int], _: object) -> dict[TopicPartition, EndedEpoch]:
        self.epochs_asked += epochs.values()
        return {partition: EndedEpoch(epoch, 15) for partition, epoch in epochs.items()}

    def close(self) -> None:
        pass


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(partition_connection, "KafkaClient", lambda _: made)
    monkeypatch.setattr(partition_connection, "AdminClient", lambda *_, **__: made)
    monkeypatch.setattr(connection_pool, "borrow", made.borrow)
    monkeypatch.setattr(connection_pool, "release", made.release)
    return made


def opened(link: PartitionConnection) -> Any:
    return link.open(1_000)


def test_the_leader_that_was_planned_is_opened_first_and_once(world: World) -> None:
    link = PartitionConnection(TASK)
    assert opened(link).address == ("leader", 9092)
    assert opened(link) is opened(link)


def test_a_broker_that_knows_only_an_earlier_election_is_passed_over(world: World) -> None:
    """It is cut off from its cluster, and takes itself for the leader."""
    link = PartitionConnection(TASK)
    world.epoch = 4
    with pytest.raises(TryAgain, match="leader epoch 4, and the range was planned under 5"):
        link.leader_state(1_000)
    with pytest.raises(TryAgain, match="leader epoch 4"):
        opened(link)
    world.epoch = 5
    assert link.leader_state(1_000).latest == 9


def test_a_referral_leads_to_the_replica_and_keeps_the_leader_s_channel(world: World) -> None:
    link = PartitionConnection(TASK)
    opened(link)
    link.move_to(2, 1_000)
    assert opened(link).address == link.address == ("replica", 9092)
    assert world.kept == [("leader", 9092)]
    assert link.rack == "near"


def test_a_replica_that_is_left_is_not_gone_back_to(world: World) -> None:
    link = PartitionConnection(TASK)
    link.move_to(2, 1_000)
    channel = opened(link)
    link.forget()
    assert channel.closed
    assert opened(link).address == ("leader", 9092)
    assert link.rack == ""


def test_a_replica_that_cannot_be_reached_is_left(world: World) -> None:
    world.dead.add("replica")
    link = PartitionConnection(TASK)
    link.move_to(2, 1_000)
    with pytest.raises(TryAgain, match="replica:9092"):
        opened(link)
    assert (opened(link).address, link.rack) == (("leader", 9092), "")


def test_a_replica_that_no_broker_knows_is_not_asked_for_again(world: World) -> None:
    link = PartitionConnection(TASK)
    with pytest.raises(TryAgain, match="replica 7, which no broker knows"):
        link.move_to(7, 1_000)
    assert (opened(link).address, link.rack) == (("leader", 9092), "")


def test_a_leader_that_is_looked_up_again_is_still_told_where_we_are(world: World) -> None:
    link = PartitionConnection(TASK)
    link.forget()
    assert (opened(link).address, link.rack) == (("leader", 9092), "near")


def test_the_leader_s_state_has_the_end_of_the_planned_epoch_only_after_a_later_one(world: World) -> None:
    link = PartitionConnection(TASK)
    same = LeaderState(address=("leader", 9092), earliest=0, latest=9, local_start=4, planned_end=None)
    assert link.leader_state(1_000) == same
    world.epoch = 6
    assert link.leader_state(1_000).planned_end == 15
    assert world.epochs_asked == [5]


def test_a_topic_that_was_made_again_is_said_to_be_that(world: World) -> None:
    world.topic_id = "another"
    link = PartitionConnection(TASK)
    for question in (lambda: link.leader_state(1_000), lambda: link.move_to(2, 1_000)):
        with pytest.raises(TopicGone, match="topic id id, now another") as caught:
            question()
        assert caught.value.error_type.condition == "TOPIC_RECREATED"


def test_a_topic_is_deleted_when_it_has_been_missing_for_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    link = PartitionConnection(TASK)
    world.is_there = False
    for now[0] in (100.0, 109.9):
        with pytest.raises(TryAgain, match="the topic flights is not there"):
            link.leader_state(1_000)
    world.is_there = True
    link.leader_state(1_000)
    world.is_there = False
    for now[0] in (111.0, 120.9):
        with pytest.raises(TryAgain):
            link.leader_state(1_000)
    now[0] = 121.0
    with pytest.raises(TopicGone, match="no broker that was asked has had it for 10 s") as caught:
        link.leader_state(1_000)
    assert caught.value.error_type.condition == "COULD_NOT_READ_OFFSET_RANGE"


def test_a_broker_that_serves_the_partition_ends_what_was_missed_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two brokers that were behind, minutes apart, and records in between."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    link = PartitionConnection(TASK)
    world.is_there = False
    with pytest.raises(TryAgain):
        link.leader_state(1_000)
    link.served()
    now[0] = 400.0
    with pytest.raises(TryAgain):
        link.leader_state(1_000)
