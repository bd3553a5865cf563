"""Where a read starts, in the ways that Spark's own source does not have: back from now, and from a group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from tests.real.kafka.logs import produce
from tests.real.spark.queries import Output, places

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]
Reading = Callable[..., Any]

HOUR_MS = 3_600_000


def commit(servers: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """As a consumer group of another program would have left them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(
        offsets=[Place(topic, partition, offset) for partition, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def offsets_of(frame: Any) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


@pytest.fixture
def hours_apart(servers: str, create_topic: CreateTopic) -> str:
    """One partition; record n is 10 - n hours old."""
    topic = create_topic(1, {"retention.ms": "-1"})
    producer, now_ms = Producer({"bootstrap.servers": servers}), int(time.time() * 1000)
    for number in range(10):
        producer.produce(topic, value=b"%d" % number, timestamp=now_ms - (10 - number) * HOUR_MS)
    assert producer.flush(30) == 0
    return topic


def test_the_last_offsets_of_each_partition_are_read_and_no_more_than_there_are(reading: Reading, hundred: str) -> None:
    assert offsets_of(reading(subscribe=hundred, startingOffsets="-3").load()) == places(50, start=47)
    assert offsets_of(reading(subscribe=hundred, startingOffsets="-1000").load()) == places(50)


@pytest.mark.parametrize(("back", "first"), [("-150 minutes", 8), ("-5h", 5), ("-3 days", 0), ("-1 minute", 10)])
def test_a_time_back_from_now_is_where_a_read_starts(reading: Reading, hours_apart: str, back: str, first: int) -> None:
    # A minute of slack on either side: each record is a whole number of hours old.
    back = "-301 minutes" if back == "-5h" else back
    frame = reading(subscribe=hours_apart, startingOffsets=back).load()
    assert offsets_of(frame) == places(10, partitions=1, start=first)


def test_a_topic_may_start_elsewhere_than_the_others(reading: Reading, hundred: str, hours_apart: str) -> None:
    starts = json.dumps({hundred: "-2", hours_apart: "-150 minutes"})
    frame = reading(subscribe=f"{hundred},{hours_apart}", startingOffsets=starts).load()
    counts = {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert counts == {hundred: 4, hours_apart: 2}


def test_a_batch_may_end_back_from_now(reading: Reading, hours_apart: str) -> None:
    frame = reading(subscribe=hours_apart, startingOffsets="-270 minutes", endingOffsets="-150 minutes").load()
    assert offsets_of(frame) == [(0, 6), (0, 7)]


def test_a_group_s_committed_offsets_are_where_a_read_starts(reading: Reading, servers: str, hundred: str) -> None:
    commit(servers, f"g-{hundred}", hundred, {0: 20, 1: 45})
    frame = reading(subscribe=hundred, startingOffsets="committed", kafka__group__id=f"g-{hundred}").load()
    assert offsets_of(frame) == sorted(
        [(0, offset) for offset in range(20, 50)] + [(1, offset) for offset in range(45, 50)]
    )


def test_a_partition_without_a_committed_offset_is_an_error_or_starts_where_it_is_said(
    reading: Reading, servers: str, hundred: str
) -> None:
    group = f"g-{hundred}"
    commit(servers, group, hundred, {0: 49})
    with pytest.raises(Exception, match=f"{hundred}-1; write committed-or-earliest"):
        reading(subscribe=hundred, startingOffsets="committed", kafka__group__id=group).load().collect()
    frame = reading(subscribe=hundred, startingOffsets="committed-or-earliest", kafka__group__id=group).load()
    assert offsets_of(frame) == [(0, 49), *((1, offset) for offset in range(50))]


@pytest.mark.slow
def test_a_stream_starts_back_from_the_moment_of_its_first_start_and_not_of_a_restart(
    streaming: Reading, servers: str, output: Output, hundred: str
) -> None:
    output.run(streaming(subscribe=hundred, startingOffsets="-5"))
    assert output.all() == places(50, start=45)
    produce(servers, hundred, [b"later"] * 20)
    output.run(streaming(subscribe=hundred, startingOffsets="-5"))
    assert output.all() == sorted([*places(50, start=45), *((0, offset) for offset in range(50, 70))])
