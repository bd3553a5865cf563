"""What a program asks of a cluster, and windows made into ranges and DataFrames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession
from tests.real.kafka.logs import delete_records, host_and_port, produce
from tests.real.kafka.proxy import KafkaProxy, advertise
from tests.real.spark.test_groups import committed as seen_of
from tests.real.spark.test_starts import commit
from tests.waiting import until

import directkafka as dk
from directkafka import Cluster, OffsetRange, TopicPartition
from directkafka.errors import BrokerResponseError, DataLossError, OptionError, TopicNotFoundError

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]

START_MS = 1_700_000_000_000


@pytest.fixture
def cluster(servers: str) -> Iterator[Cluster]:
    with Cluster({"bootstrap.servers": servers}) as opened_cluster:
        yield opened_cluster


@pytest.fixture
def minutes(servers: str, create_topic: CreateTopic) -> str:
    """Two partitions of 30 records each, a minute apart, years ago, 2,000 bytes each in a batch of its own."""
    topic = create_topic(2, {"retention.ms": "-1"})
    # Without idempotence a batch that is sent again, because the leader is new, comes after those behind it.
    settings = {"batch.num.messages": 1, "compression.type": "none", "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": servers, **settings})
    for number in range(60):
        producer.produce(topic, os.urandom(2_000), partition=number % 2, timestamp=START_MS + (number // 2) * 60_000)
    assert producer.flush(30) == 0
    return topic


# Asking, and setting a group's offsets.


def test_a_group_s_offsets_are_set_and_moved_while_it_has_no_members(
    cluster: Cluster, servers: str, hundred: str
) -> None:
    group, places = f"moved-{hundred}", cluster.partitions(hundred)
    cluster.commit(group, cluster.latest(places))
    assert seen_of(servers, group, hundred) == {0: 50, 1: 50}
    cluster.commit(group, {places[1]: 7})
    assert seen_of(servers, group, hundred) == {0: 50, 1: 7}
    assert cluster.committed(group) == {places[0]: 50, places[1]: 7}


def test_a_group_that_has_members_keeps_its_offsets(cluster: Cluster, servers: str, hundred: str) -> None:
    group, places = f"used-{hundred}", cluster.partitions(hundred)
    member = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})
    member.subscribe([hundred])
    until(lambda: member.poll(0.1) is None and member.assignment(), "the consumer is a member")
    with pytest.raises(BrokerResponseError, match=r"UNKNOWN_MEMBER_ID.*The group has members") as caught:
        cluster.commit(group, dict.fromkeys(places, 9))
    assert not caught.value.retriable
    assert set(cluster.committed(group, places).values()) == {None}
    member.close()
    cluster.commit(group, dict.fromkeys(places, 9))
    assert seen_of(servers, group, hundred) == {0: 9, 1: 9}


def test_offsets_of_what_is_not_there_are_refused_before_any_is_set(cluster: Cluster, hundred: str) -> None:
    group, partition = f"strange-{hundred}", TopicPartition(hundred, 0)
    with pytest.raises(OptionError, match=f"partitions that are not there: {hundred}-7"):
        cluster.commit(group, {partition: 1, TopicPartition(hundred, 7): 1})
    with pytest.raises(TopicNotFoundError):
        cluster.commit(group, {partition: 1, TopicPartition("nowhere", 0): 1})
    with pytest.raises(OptionError, match="expected an offset from 0"):
        cluster.commit(group, {partition: -1})
    assert cluster.committed(group) == {}
    cluster.commit(group, {})


def test_topics_and_partitions_are_listed_without_kafka_s_own(cluster: Cluster, hundred: str) -> None:
    assert hundred in cluster.topics()
    assert "__consumer_offsets" not in cluster.topics()
    assert cluster.partitions(hundred) == [TopicPartition(hundred, 0), TopicPartition(hundred, 1)]


def test_a_topic_that_is_not_there_is_named(cluster: Cluster) -> None:
    nowhere = TopicPartition("no-such-topic", 0)
    for ask in (
        lambda: cluster.partitions("no-such-topic"),
        lambda: cluster.latest([nowhere]),
        lambda: cluster.at_timestamp([nowhere], 0),
        lambda: cluster.offset_ranges("no-such-topic"),
    ):
        with pytest.raises(TopicNotFoundError, match="no-such-topic"):
            ask()


def test_the_ends_of_the_log_are_told(cluster: Cluster, servers: str, hundred: str) -> None:
    delete_records(servers, hundred, 10)
    zero, partition_one = cluster.partitions(hundred)
    assert cluster.earliest([zero, partition_one]) == {zero: 10, partition_one: 0}
    assert cluster.latest([zero, partition_one]) == {zero: 50, partition_one: 50}


def test_a_group_s_offsets_are_told_for_some_partitions_or_for_all(
    cluster: Cluster, servers: str, hundred: str
) -> None:
    zero, partition_one = cluster.partitions(hundred)
    commit(servers, f"g-{hundred}", hundred, {0: 20})
    assert cluster.committed(f"g-{hundred}") == {zero: 20}
    assert cluster.committed(f"g-{hundred}", [zero, partition_one]) == {zero: 20, partition_one: None}


def test_a_time_is_looked_up(cluster: Cluster, minutes: str) -> None:
    zero, partition_one = cluster.partitions(minutes)
    assert cluster.at_timestamp([zero, partition_one], START_MS + 5 * 60_000 - 1) == {zero: 5, partition_one: 5}
    assert cluster.at_timestamp([zero], START_MS + 30 * 60_000) == {zero: None}


def test_leaders_are_addresses(cluster: Cluster, servers: str, hundred: str) -> None:
    assert set(cluster.leaders(cluster.partitions(hundred)).values()) == {servers}


# Windows.


def test_a_window_is_ranges_within_the_log(cluster: Cluster, servers: str, hundred: str) -> None:
    delete_records(servers, hundred, 10)
    assert cluster.offset_ranges(hundred) == [OffsetRange(hundred, 0, 10, 50), OffsetRange(hundred, 1, 0, 50)]
    assert cluster.offset_ranges([hundred], start="-7", partitions=[1]) == [OffsetRange(hundred, 1, 43, 50)]
    assert cluster.offset_ranges(hundred, start=20, end=30, partitions=[0]) == [OffsetRange(hundred, 0, 20, 30)]


def test_a_window_of_time_has_the_records_of_that_time(cluster: Cluster, minutes: str) -> None:
    start = datetime.fromtimestamp(START_MS / 1000, UTC)
    ranges = cluster.offset_ranges(minutes, start=start.replace(minute=start.minute + 5), end=start.replace(minute=23))
    assert [(offset_range.from_offset, offset_range.until_offset) for offset_range in ranges] == [(5, 10), (5, 10)]


def test_a_window_after_the_last_record_is_empty(cluster: Cluster, minutes: str) -> None:
    ranges = cluster.offset_ranges(minutes, start="-10 minutes")
    assert [(offset_range.from_offset, offset_range.until_offset) for offset_range in ranges] == [(30, 30), (30, 30)]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"start": "soon"}, "found 'soon'"),
        ({"end": -5}, "found -5"),
        ({"start": datetime(2026, 1, 1)}, "no time zone"),
        ({"start": 30, "end": 20}, "starts at 30"),
    ],
)
def test_what_is_no_window_is_refused(cluster: Cluster, hundred: str, window: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        cluster.offset_ranges(hundred, **window)  # type: ignore[arg-type]


# DataFrames.


def test_a_frame_has_exactly_its_ranges_and_its_partitions_are_theirs(
    session: SparkSession, servers: str, hundred: str
) -> None:
    ranges = [OffsetRange(hundred, 1, 5, 8), OffsetRange(hundred, 0, 0, 0), OffsetRange(hundred, 0, 40, 50)]
    frame = dk.create_dataframe(session, {"bootstrap.servers": servers}, ranges)
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = frame.selectExpr("spark_partition_id() AS task", "partition", "offset").collect()
    assert sorted((row.task, row.partition, row.offset) for row in rows) == [
        *((0, 1, offset) for offset in range(5, 8)),
        *((2, 0, offset) for offset in range(40, 50)),
    ]


def test_two_actions_and_a_self_join_agree_whatever_comes_in_between(
    session: SparkSession, servers: str, cluster: Cluster, hundred: str
) -> None:
    frame = dk.create_dataframe(session, {"bootstrap.servers": servers}, cluster.offset_ranges(hundred))
    assert frame.count() == 100
    produce(servers, hundred, [b"later"] * 10)
    assert frame.count() == 100
    assert frame.alias("a").join(frame.alias("b"), ["partition", "offset"]).count() == 100


def test_headers_come_when_they_are_asked_for(session: SparkSession, servers: str, hundred: str) -> None:
    frame = dk.create_dataframe(
        session, {"bootstrap.servers": servers}, [OffsetRange(hundred, 0, 0, 1)], include_headers=True
    )
    assert [(header.key, bytes(header.value) if header.value else None) for header in frame.collect()[0].headers] == [
        ("n", b"0"),
        ("null", None),
    ]


def test_ranges_that_overlap_are_refused_before_anything_runs(
    session: SparkSession, servers: str, hundred: str
) -> None:
    ranges = [OffsetRange(hundred, 0, 0, 10), OffsetRange(hundred, 1, 0, 10), OffsetRange(hundred, 0, 9, 20)]
    with pytest.raises(OptionError, match=rf"{hundred}-0\[0, 10\) and {hundred}-0\[9, 20\) overlap"):
        dk.create_dataframe(session, {"bootstrap.servers": servers}, ranges)


@pytest.mark.parametrize(
    ("partition", "start", "end", "lost"), [(0, 5, 20, (5, 10)), (0, 40, 60, (50, 60)), (7, 0, 5, (0, 5))]
)
def test_a_range_that_is_not_in_the_log_is_refused_with_the_log_s_bounds(
    session: SparkSession, servers: str, hundred: str, partition: int, start: int, end: int, lost: tuple[int, int]
) -> None:
    delete_records(servers, hundred, 10)
    with pytest.raises(DataLossError) as caught:
        dk.create_dataframe(session, {"bootstrap.servers": servers}, [OffsetRange(hundred, partition, start, end)])
    assert (caught.value.lost_from, caught.value.lost_until) == lost
    assert partition == 7 or "[10, 50)" in str(caught.value)


def test_a_window_of_time_fetches_its_own_bytes_and_not_the_topic_s(
    session: SparkSession, servers: str, minutes: str
) -> None:
    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        proxy.change = advertise(servers, address)
        params = {"bootstrap.servers": address, "max.partition.fetch.bytes": "4000"}

        def fetched(**window: str | datetime) -> tuple[int, int]:
            before = proxy.response_bytes
            with Cluster(params) as cluster:
                ranges = cluster.offset_ranges(minutes, **window)
            rows = dk.create_dataframe(session, params, ranges).collect()
            return len(rows), proxy.response_bytes - before

        start = datetime.fromtimestamp(START_MS / 1000, UTC)
        whole, whole_bytes = fetched()
        window, window_bytes = fetched(start=start.replace(minute=18), end=start.replace(minute=20))
    assert (whole, window) == (60, 4)
    assert whole_bytes > 60 * 2_000
    assert window_bytes < whole_bytes / 4
