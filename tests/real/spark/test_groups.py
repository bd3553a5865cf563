"""A query's offsets in a consumer group: for lag tools, off unless asked for, and never what a query depends on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.real.kafka.logs import produce
from tests.real.spark.queries import WAIT_S, Output, places
from tests.waiting import until

import directkafka
from directkafka.spark.datasource import query_groups

pytestmark = pytest.mark.real

Streaming = Callable[..., Any]


def committed(servers: str, group: str, topic: str, partitions: int = 2) -> dict[int, int]:
    """What another client sees of the group."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    positions = consumer.committed([Place(topic, partition) for partition in range(partitions)], timeout=30)
    consumer.close()
    return {position.partition: position.offset for position in positions}


@pytest.mark.slow
def test_the_last_batch_of_an_available_now_run_is_in_the_group_too(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    group = f"lag-{hundred}"
    output.run(streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=30, commitToGroup=group))
    assert output.all() == places(50)
    until(lambda: committed(servers, group, hundred) == {0: 50, 1: 50}, "the group does not hear of the last batch")


def test_a_batch_is_in_the_group_before_the_next_trigger(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    group = f"lag-{hundred}"
    stream = streaming(subscribe=hundred, startingOffsets="earliest", commitToGroup=group)
    output.run(stream)
    produce(servers, hundred, [b"more"] * 7)
    stopping.append(output.start(stream, processingTime="1 hour"))
    until(lambda: committed(servers, group, hundred) == {0: 57, 1: 50}, "the group waits for the next trigger")


def test_each_source_of_each_query_has_a_group_of_its_own(
    streaming: Streaming, servers: str, hundred: str, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    other = create_topic(2)
    produce(servers, other, [b"value"] * 3)

    def source(topic: str, group: str) -> Any:
        return streaming(subscribe=topic, startingOffsets="earliest", commitToGroup=group).load()

    def start(frame: Any, name: str) -> StreamingQuery:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name))
        query: StreamingQuery = writer.trigger(availableNow=True).start()
        return query

    left, right = source(hundred, f"left-{hundred}"), source(other, f"right-{hundred}")
    queries = [start(left.union(right).union(left), "both"), start(source(other, f"alone-{hundred}"), "alone")]
    assert all(query.awaitTermination(WAIT_S) for query in queries)
    for name, topic, ends in [("left", hundred, {0: 50, 1: 50}), ("right", other, {0: 3, 1: 0})]:
        until(lambda n=name, t=topic, e=ends: committed(servers, f"{n}-{hundred}", t) == e, f"{name} has no offsets")
    until(lambda: committed(servers, f"alone-{hundred}", other) == {0: 3, 1: 0}, "the second query has no offsets")


@pytest.mark.slow
def test_a_session_has_one_listener_and_it_forgets_a_query_that_has_ended(
    session: SparkSession, streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    def listeners() -> int:
        return len(session._jsparkSession.streams().listListeners())

    before = listeners()
    directkafka.register(session)
    assert listeners() == before
    group = f"lag-{hundred}"
    output.run(streaming(subscribe=hundred, startingOffsets="earliest", commitToGroup=group))
    until(lambda: committed(servers, group, hundred) == {0: 50, 1: 50}, "the group does not hear of the last batch")
    until(
        lambda: "directkafka query groups" not in {thread.name for thread in threading.enumerate()},
        "its thread goes on",
    )
    assert all(not listener._queries for listener in query_groups._listeners)


@pytest.mark.slow
def test_a_running_query_tells_the_group_how_far_it_is(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    group = f"lag-{hundred}"
    stream = streaming(subscribe=hundred, startingOffsets="latest", commitToGroup=group)
    stopping.append(output.start(stream, processingTime="100 milliseconds"))
    until(lambda: committed(servers, group, hundred) == {0: 50, 1: 50}, "the group does not hear where it starts")
    produce(servers, hundred, [b"more"] * 7)
    until(lambda: committed(servers, group, hundred) == {0: 57, 1: 50}, "the group does not hear of the batch")


@pytest.mark.slow
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
    until(lambda: committed(servers, group, hundred) == {0: 15, 1: 15}, "the group does not hear of the first batch")


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


_PROGRAM = """
import os, sys
from directkafka.testing.java import use_java
use_java()
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import directkafka
servers, topic, group, checkpoint = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(name, "127.0.0.1")
spark = builder.getOrCreate()
directkafka.register(spark)
options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "commitToGroup": group}
stream = spark.readStream.format("directkafka").options(startingOffsets="earliest", **options).load()
writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.slow
def test_a_program_that_ends_behind_its_last_batch_has_told_the_group(
    servers: str, hundred: str, tmp_path: Path
) -> None:
    group = f"lag-{hundred}"
    arguments = [servers, hundred, group, str(tmp_path / "checkpoint")]
    subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], check=True, timeout=300)
    assert committed(servers, group, hundred) == {0: 50, 1: 50}
