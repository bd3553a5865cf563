"""How large a batch is and how long it waits; and which columns are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.real.kafka.logs import produce
from tests.real.spark.queries import Output, places
from tests.waiting import until

from directkafka import lag

pytestmark = pytest.mark.real

Streaming = Callable[..., Any]


@pytest.mark.slow
def test_a_batch_waits_for_enough_offsets(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    stream = streaming(subscribe=hundred, startingOffsets="earliest", minOffsetsPerTrigger=30, maxTriggerDelay="1h")
    query = output.start(stream, processingTime="100 milliseconds")
    stopping.append(query)
    until(lambda: len(output.all()) == 100, "the first batch waits for nothing, but did not come")
    produce(servers, hundred, [b"few"] * 29)
    until(lambda: sum(lag(query.lastProgress).values()) == 29, "the progress does not tell of the new offsets")
    assert len(output.all()) == 100
    produce(servers, hundred, [b"enough"])
    until(lambda: len(output.all()) == 130, "there are enough offsets, and no batch came")


@pytest.mark.slow
def test_a_batch_waits_no_longer_than_the_delay(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    stream = streaming(subscribe=hundred, startingOffsets="earliest", minOffsetsPerTrigger=1000, maxTriggerDelay="2s")
    query = output.start(stream, processingTime="100 milliseconds")
    stopping.append(query)
    until(lambda: len(output.all()) == 100, "the first batch waits for nothing, but did not come")
    produce(servers, hundred, [b"few"] * 5)
    until(lambda: len(output.all()) == 105, "the delay is over, and no batch came")


def test_a_topic_and_a_partition_may_have_limits_of_their_own(
    streaming: Streaming, servers: str, output: Output, create_topic: Callable[..., str]
) -> None:
    slow, split, free = create_topic(1), create_topic(2), create_topic(1)
    for topic, partition in ((slow, 0), (split, 0), (split, 1), (free, 0)):
        produce(servers, topic, [b"value"] * 40, partition=partition)
    limits = json.dumps({slow: 10, split: {"1": 20}})
    topics = f"{slow},{split},{free}"
    output.run(streaming(subscribe=topics, startingOffsets="earliest", maxOffsetsPerTriggerByTopic=limits))
    sizes = [len(batch) for batch in output.batches.values() if batch]
    # 10 of the slow one each time; 40 + 20, then 20, of the split one; all of the free one at once.
    assert sizes == [10 + 60 + 40, 10 + 20, 10, 10]


def test_only_the_columns_that_are_asked_for_are_read(
    session: SparkSession, streaming: Streaming, servers: str, hundred: str
) -> None:
    frame = streaming(subscribe=hundred, startingOffsets="earliest", columns="offset,Value").load()
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("offset", "bigint"),
        ("value", "binary"),
    ]
    batch = session.read.format("directkafka").option("kafka.bootstrap.servers", servers).option("subscribe", hundred)
    rows = batch.option("columns", "offset,partition,headers").load().collect()
    assert sorted((row.partition, row.offset) for row in rows) == places(50)
    assert {row.headers is None for row in rows} == {True, False}
