"""What the driver asks a real cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from tests.real.kafka.logs import delete_records, delete_topic, end_offset, options, produce, transactional
from tests.waiting import WAIT_S, until

from directkafka.errors import BrokerResponseError, BrokerUnreachableError
from directkafka.kafka.admin.admin_client import AdminClient
from directkafka.kafka.network.client import KafkaClient
from directkafka.offsets import TopicPartition

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]


@pytest.fixture
def admin(servers: str) -> Iterator[AdminClient]:
    with closing(KafkaClient(options(servers))) as client:
        yield AdminClient(client, retry_interval_ms=50)


@pytest.fixture
def committed_admin(servers: str) -> Iterator[AdminClient]:
    with closing(KafkaClient(options(servers, isolation_level="read_committed"))) as client:
        yield AdminClient(client, retry_interval_ms=50)


def test_topics_are_described_with_their_ids_and_leaders(
    servers: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic(3)
    described = admin.topics([topic])[topic]
    assert sorted(described.leaders) == [0, 1, 2]
    assert len(described.topic_id) == 36
    assert not described.internal
    assert {f"{leader.host}:{leader.port}" for leader in described.leaders.values()} == {servers}
    assert {leader.node_id for leader in described.leaders.values()} == {1}
    assert admin.cluster_id


def test_a_topic_that_does_not_exist_is_left_out_and_not_made(admin: AdminClient, topic: Callable[[], str]) -> None:
    name = topic()
    assert admin.topics([name]) == {}
    assert name not in admin.topics()


def test_no_topics_are_none_and_not_all(admin: AdminClient, create_topic: CreateTopic) -> None:
    create_topic()
    assert admin.topics([]) == {}


def test_a_name_that_no_topic_can_have_is_an_error_at_once(admin: AdminClient) -> None:
    begun = time.monotonic()
    with pytest.raises(BrokerResponseError, match="INVALID_TOPIC") as caught:
        admin.topics(["no blanks, please"])
    assert not caught.value.retriable
    assert time.monotonic() - begun < 5.0


def test_internal_topics_are_marked(admin: AdminClient, servers: str, create_topic: CreateTopic) -> None:
    topic = create_topic()
    admin.commit(f"group-{topic}", {TopicPartition(topic, 0): 0})
    assert admin.topics()["__consumer_offsets"].internal


def test_a_view_has_both_ends_of_every_partition(servers: str, admin: AdminClient, create_topic: CreateTopic) -> None:
    topic = create_topic(2)
    produce(servers, topic, [b"value"] * 30)
    delete_records(servers, topic, 10)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 7)]
    snapshot = admin.snapshot(places, admin.topics([topic]))
    assert snapshot.earliest() == {places[0]: 10, places[1]: 0}
    assert snapshot.latest() == {places[0]: 30, places[1]: 0}
    assert snapshot.partitions[places[0]].leader == 1
    assert snapshot.partitions[places[0]].leader_epoch >= 0
    assert snapshot.cluster_id
    assert abs(snapshot.taken_at_ms - time.time() * 1000) < 60_000


def test_a_topic_that_is_deleted_while_it_is_looked_at_is_left_out(
    servers: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    stays, goes = create_topic(2), create_topic(1)
    described = admin.topics([stays, goes])
    delete_topic(servers, goes)
    wanted = [TopicPartition(stays, 0), TopicPartition(stays, 1), TopicPartition(goes, 0)]
    assert sorted(admin.snapshot(wanted, described).partitions) == wanted[:2]


def test_latest_respects_the_isolation_level_while_a_transaction_is_open(
    servers: str, admin: AdminClient, committed_admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    partition = TopicPartition(topic, 0)
    produce(servers, topic, [b"value"] * 5)
    producer = transactional(servers, topic)
    producer.begin_transaction()
    producer.produce(topic, value=b"open")
    producer.flush()
    produce(servers, topic, [b"value"] * 5)
    described = admin.topics([topic])
    assert admin.snapshot([partition], described).latest() == {partition: 11}
    assert committed_admin.snapshot([partition], described).latest() == {partition: 5}
    producer.commit_transaction()
    until(
        lambda: committed_admin.snapshot([partition], described).latest() == {partition: 12}, "the commit does not show"
    )


def test_timestamps_find_the_first_record_at_or_after_them(
    servers: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic(2, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers})
    for number in range(10):
        producer.produce(topic, value=b"value", partition=0, timestamp=1_700_000_000_000 + number * 1_000)
    producer.flush()
    partition, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def at(timestamp_ms: int) -> dict[TopicPartition, int | None]:
        return admin.at_timestamp({partition: timestamp_ms, empty: timestamp_ms})

    assert at(0) == {partition: 0, empty: None}
    assert at(1_700_000_003_000) == {partition: 3, empty: None}
    assert at(1_700_000_003_001) == {partition: 4, empty: None}
    assert at(1_700_000_009_001) == {partition: None, empty: None}
    assert admin.at_timestamp({}) == {}


def test_offsets_of_a_partition_that_is_not_there_are_an_error_that_names_it(
    admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    with pytest.raises(BrokerResponseError, match=f"{topic}-9"):
        admin.offsets_at({TopicPartition(topic, 9): 0})


def test_what_is_committed_is_seen_by_confluent_kafka_and_back(
    servers: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic(2)
    group = f"group-{topic}"
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert admin.committed(group, places) == {places[0]: None, places[1]: None}
    admin.commit(group, {places[0]: 7})
    assert admin.committed(group, places) == {places[0]: 7, places[1]: None}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    theirs = consumer.committed([Place(topic, 0), Place(topic, 1)], timeout=WAIT_S)
    assert theirs[0].offset == 7
    consumer.commit(offsets=[Place(topic, 1, 9)], asynchronous=False)
    consumer.close()
    assert admin.committed(group, places) == {places[0]: 7, places[1]: 9}


def test_committing_to_a_group_with_members_is_refused(
    servers: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    group = f"group-{topic}"
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the consumer got no partitions")
    with pytest.raises(BrokerResponseError, match=group):
        admin.commit(group, {TopicPartition(topic, 0): 0})
    consumer.close()


def test_a_broker_that_does_not_answer_is_asked_as_often_as_the_options_say(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(KafkaClient(options(servers))) as client:
        calls: list[str] = []

        def refuse(api: str, node_id: int | None = None, **values: object) -> None:
            calls.append(api)
            raise BrokerUnreachableError(addresses=(servers,), timeout_ms=1, cause="refused by the test")

        monkeypatch.setattr(client, "call", refuse)
        with pytest.raises(BrokerUnreachableError, match="refused by the test"):
            AdminClient(client, retries=2, retry_interval_ms=1).topics(["flights"])
        assert calls == ["Metadata"] * 3


def test_a_leader_that_moved_is_asked_anew(
    servers: str, admin: AdminClient, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic()
    produce(servers, topic, [b"value"] * 3)
    partition = TopicPartition(topic, 0)
    stale = admin.topics([topic])
    asked: list[int | None] = []
    call = admin._client.call

    def moved_once(api: str, node_id: int | None = None, **values: object) -> object:
        response = call(api, node_id, **values)
        if api == "ListOffsets":
            asked.append(node_id)
            if len(asked) == 1:
                response.topics[0].partitions[0].error_code = 6
        return response

    monkeypatch.setattr(admin._client, "call", moved_once)
    assert admin.snapshot([partition], stale).latest() == {partition: end_offset(servers, topic)}
    assert len(asked) == 3
