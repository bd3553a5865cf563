"""Where direct streams start that are told a time, and what a strategy of one's own makes them read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import pytest
from pyspark.streaming import StreamingContext
from tests.real.kafka.logs import produce
from tests.real.spark.dstreams import Collected, Place, place_of, running

import directkafka as dk
from directkafka import TopicPartition

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")]

HOUR_MS = 3_600_000


@pytest.fixture
def old_and_new(servers: str, create_topic: Callable[..., str]) -> str:
    """Three partitions of 20 records, half of them two hours old."""
    topic = create_topic(3, {"retention.ms": "-1"})
    for partition in range(3):
        for at_ms in (int(time.time() * 1000) - 2 * HOUR_MS, 0):
            produce(servers, topic, [b"value"] * 10, partition=partition, timestamp_ms=at_ms)
    return topic


def newer(topic: str, *partitions: int) -> set[Place]:
    return {(topic, partition, offset) for partition in partitions for offset in range(10, 20)}


class Chosen(dk.ConsumerStrategy):
    """The partitions of one topic whose number is even."""

    def __init__(self, topic: str, kafka_params: Mapping[str, object]) -> None:
        self.topic, self.kafka_params = topic, kafka_params

    def choose(self, topics: Mapping[str, int]) -> Iterable[TopicPartition]:
        return [TopicPartition(self.topic, partition) for partition in range(0, topics[self.topic], 2)]


def test_a_strategy_of_one_s_own_reads_what_it_chooses_from_a_duration_back(
    context: StreamingContext, params: dict[str, object], old_and_new: str
) -> None:
    reset = params | {"auto.offset.reset": "by_duration:PT1H"}
    stream = dk.create_direct_stream(context, Chosen(old_and_new, reset), message_handler=place_of)
    collected = Collected().of(stream)
    with running(context):
        collected.wait_for(20)
    assert set(collected.records) == newer(old_and_new, 0, 2)


@pytest.mark.slow
def test_each_partition_may_start_at_a_position_of_its_own_and_the_group_counts_before_a_duration(
    context: StreamingContext, params: dict[str, object], servers: str, old_and_new: str
) -> None:
    places = [TopicPartition(old_and_new, partition) for partition in range(3)]
    with dk.Cluster({"bootstrap.servers": servers}) as cluster:
        cluster.commit(f"group-{old_and_new}", {places[1]: 15})
    reset = params | {"auto.offset.reset": "by_duration:PT1H", "group.id": f"group-{old_and_new}"}
    strategy = dk.Subscribe(old_and_new, reset, {places[0]: "-3"})
    collected = Collected().of(dk.create_direct_stream(context, strategy, message_handler=place_of))
    with running(context):
        collected.wait_for(18)
    expected = {(old_and_new, 0, offset) for offset in range(17, 20)} | {
        (old_and_new, 1, offset) for offset in range(15, 20)
    }
    assert set(collected.records) == expected | newer(old_and_new, 2)
