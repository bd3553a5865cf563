"""A query's offsets in a consumer group: for lag tools, off unless asked for, and never what a query depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from pyspark.sql.streaming import StreamingQuery
from tests.real.kafka.logs import produce, until
from tests.real.sources.queries import Output, places

pytestmark = pytest.mark.real

Streaming = Callable[..., Any]


def committed(servers: str, group: str, topic: str, partitions: int = 2) -> dict[int, int]:
    """What another client sees of the group."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    found = consumer.committed([Place(topic, one) for one in range(partitions)], timeout=30)
    consumer.close()
    return {one.partition: one.offset for one in found}


def test_the_last_batch_of_an_available_now_run_is_in_the_group_too(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    group = f"lag-{hundred}"
    output.run(streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=30, commitToGroup=group))
    assert output.all() == places(50)
    assert committed(servers, group, hundred) == {0: 50, 1: 50}


def test_a_running_query_tells_the_group_how_far_it_is(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    group = f"lag-{hundred}"
    stream = streaming(subscribe=hundred, startingOffsets="latest", commitToGroup=group)
    stopping.append(output.start(stream, processingTime="100 milliseconds"))
    until(lambda: committed(servers, group, hundred) == {0: 50, 1: 50}, "the group does not hear where it starts")
    produce(servers, hundred, [b"more"] * 7)
    until(lambda: committed(servers, group, hundred) == {0: 57, 1: 50}, "the group does not hear of the batch")


def test_a_batch_that_failed_is_not_in_the_group(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    group = f"lag-{hundred}"

    def fail(batch_id: int) -> None:
        if batch_id == 2:
            raise ArithmeticError("the second batch with records fails")

    output.before_reading = fail
    stream = streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=30, commitToGroup=group)
    with pytest.raises(Exception, match="the second batch with records fails"):
        output.run(stream)
    assert committed(servers, group, hundred) == {0: 15, 1: 15}


def test_a_group_that_refuses_is_a_warning_and_the_query_goes_on(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    """A group with a member of its own takes offsets of nobody else."""
    group = f"lag-{hundred}"
    member = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    member.subscribe([hundred])
    until(lambda: member.poll(0.5), "the member was given no record")
    output.run(streaming(subscribe=hundred, startingOffsets="earliest", commitToGroup=group))
    assert output.all() == places(50)
    member.close()
