"""How fast direct streams read, and what waits meanwhile, against a real broker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import RDD
from pyspark.streaming import StreamingContext
from tests.real.kafka.logs import produce
from tests.real.spark.dstreams import Collected, Settings, place_of, places, running
from tests.waiting import until

import directkafka as dk
from directkafka import OffsetRange, TopicPartition

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")]

CreateTopic = Callable[..., str]
BACKPRESSURE = "spark.streaming.backpressure.enabled"


@pytest.mark.slow
def test_topics_of_very_different_volume_get_their_share_of_each_batch(
    context: StreamingContext, params: dict[str, object], servers: str, create_topic: CreateTopic,
    settings: Settings,
) -> None:  # fmt: skip
    large, small = create_topic(1), create_topic(1)
    produce(servers, large, [b"x"] * 3_000)
    produce(servers, small, [b"y"] * 30)
    settings({BACKPRESSURE: True, "spark.streaming.backpressure.initialRate": 2_000})
    seen = Collected().of(dk.create_direct_stream(context, dk.Subscribe([large, small], params)).map(place_of))
    with running(context):
        records = seen.wait_for(3_030)
    assert Counter(records) == Counter(places(large, 3_000, partitions=1) | places(small, 30, partitions=1))
    # 600 records, shared by lag: the small topic is neither starved nor read first.
    assert {offset_range.topic: offset_range.count() for offset_range in seen.ranges[0]} == {large: 594, small: 5}


@pytest.mark.slow
def test_no_batch_has_more_than_the_maximum_rate_and_nothing_is_left_out(
    context: StreamingContext, params: dict[str, object], hundred: str, settings: Settings
) -> None:
    settings({"spark.streaming.kafka.maxRatePerPartition": 50})
    seen = Collected().of(dk.create_direct_stream(context, dk.Subscribe(hundred, params)).map(place_of))
    with running(context):
        records = seen.wait_for(100)
    assert Counter(records) == Counter(places(hundred, 50))
    assert {offset_range.count() for ranges in seen.not_empty() for offset_range in ranges} <= {15, 5}


class OnlyThird(dk.PerPartitionConfig):
    def max_rate_per_partition(self, topic_partition: TopicPartition) -> int | None:
        return 20 if topic_partition.partition == 0 else 1000


@pytest.mark.slow
def test_a_partition_may_have_a_rate_of_its_own(
    context: StreamingContext, params: dict[str, object], hundred: str
) -> None:
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params), per_partition_config=OnlyThird())
    seen = Collected().of(stream.map(place_of))
    with running(context):
        seen.wait_for(100)
    assert seen.ranges[0] == (OffsetRange(hundred, 0, 0, 6), OffsetRange(hundred, 1, 0, 50))


@pytest.mark.slow
def test_backpressure_starts_at_the_initial_rate_and_follows_what_batches_could_process(
    context: StreamingContext, params: dict[str, object], servers: str, create_topic: CreateTopic,
    settings: Settings,
) -> None:  # fmt: skip
    topic = create_topic(1)
    produce(servers, topic, [b"x"] * 3000)
    # Neither the controller's lowest rate, which is 100, nor what a first batch without any limit would have.
    settings({BACKPRESSURE: True, "spark.streaming.backpressure.initialRate": 200})
    seen = Collected().of(dk.create_direct_stream(context, dk.Subscribe(topic, params)).map(place_of))
    with running(context):
        seen.wait_for(3000)
    sizes = [sum(offset_range.count() for offset_range in ranges) for ranges in seen.not_empty()]
    assert sizes[0] == 60
    # Up on an idle machine; on a busy one, where a batch takes longer than the interval, down.
    assert any(size != 60 for size in sizes[1:-1])
    assert len(seen.records) == 3000


@pytest.mark.slow
def test_batches_that_wait_are_counted_and_bounded_by_choice(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params), waiting_batches_max=1)
    release, waiting = threading.Event(), []
    sizes: list[int] = []

    def slow(rdd: RDD[Any]) -> None:
        sizes.append(rdd.count())
        if len(sizes) == 1:
            produce(servers, hundred, [b"late"] * 10)
            until(lambda: stream.waiting_batches() >= 4, "batches that wait")
            waiting.append(stream.waiting_batches())
            release.set()

    stream.foreachRDD(slow)
    with running(context):
        until(lambda: sum(sizes) == 110, "all records")
    assert sizes[0] == 100
    # The batches that were due meanwhile are empty; the records come with a later one.
    assert [size for size in sizes[1:] if size] == [10]
    assert sizes[1] == 0
    assert release.is_set()


def test_a_trigger_says_which_of_spark_s_batches_have_records(
    context: StreamingContext, params: dict[str, object], servers: str, hundred: str
) -> None:
    moments: list[dk.Moment] = []

    def twenty_wait(moment: dk.Moment) -> float:
        moments.append(moment)
        return 0 if (moment.backlog or 0) >= 20 else 50

    stream = dk.create_direct_stream(context, dk.Subscribe(hundred, params), trigger=twenty_wait)
    seen = Collected().of(stream.map(place_of))
    with running(context):
        seen.wait_for(100)
        produce(servers, hundred, [b"late"] * 10, partition=0)
        until(lambda: [moment.backlog for moment in moments].count(10) >= 3, "batches of Spark's that could take ten")
        produce(servers, hundred, [b"late"] * 10, partition=1)
        seen.wait_for(120)
    assert [sum(offset_range.count() for offset_range in ranges) for ranges in seen.not_empty()] == [100, 20]
