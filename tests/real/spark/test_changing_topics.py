"""Topics that come, go and change under a query; and queries with more than one source."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery
from tests.real.kafka.logs import add_partitions, create_topic_again, delete_records, delete_topic, end_offset, produce
from tests.real.spark.queries import WAIT_S, Output, failure_of, places
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow]

Streaming = Callable[..., Any]
CreateTopic = Callable[..., str]

HOUR_MS = 3_600_000


# Where a query starts, in every form and under every strategy, and that a restart repeats nothing.

#: Of two partitions with 50 records each, an hour apart from the 25th on: what is read first of each.
STARTS = {
    "latest": ({"startingOffsets": "latest"}, 50),
    "earliest": ({"startingOffsets": "earliest"}, 0),
    "specific offsets": ({"startingOffsets": "{T: {'0': 20, '1': 20}}"}, 20),
    "specific timestamps": ({"startingOffsetsByTimestamp": "{T: {'0': MIDDLE, '1': MIDDLE}}"}, 25),
    "global timestamp": ({"startingTimestamp": "MIDDLE"}, 25),
}


@pytest.fixture(scope="module")
def middle_ms() -> int:
    """A time between the older and the younger half of the records."""
    return int(time.time() * 1000) - HOUR_MS


@pytest.fixture
def halves(servers: str, create_topic: CreateTopic, middle_ms: int) -> str:
    topic = create_topic(2)
    for partition in range(2):
        for at_ms in (middle_ms - HOUR_MS, middle_ms + 1000):
            produce(servers, topic, [b"value"] * 25, partition=partition, timestamp_ms=at_ms)
    return topic


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
@pytest.mark.parametrize("form", STARTS)
@pytest.mark.parametrize("strategy", ["assign", "subscribe", "subscribePattern"])
def test_a_query_starts_where_it_is_told_and_a_restart_repeats_nothing(
    streaming: Streaming,
    servers: str,
    output: Output,
    halves: str,
    middle_ms: int,
    strategy: str,
    form: str,
    fail_on_data_loss: str,
) -> None:
    strategies = {"assign": json.dumps({halves: [0, 1]}), "subscribe": halves, "subscribePattern": f"^{halves}$"}
    given, first = STARTS[form]
    filled = {
        name: text.replace("T", f"'{halves}'").replace("MIDDLE", str(middle_ms)).replace("'", '"')
        if "{" in text
        else text.replace("MIDDLE", str(middle_ms))
        for name, text in given.items()
    }
    stream = {strategy: strategies[strategy], "failOnDataLoss": fail_on_data_loss, **filled}
    output.run(streaming(**stream))
    assert output.all() == places(50, start=first)
    for partition in range(2):
        produce(servers, halves, [b"new"] * 5, partition=partition)
    output.run(streaming(**stream))
    assert output.all() == places(55, start=first)


@pytest.mark.parametrize("form", ["specific timestamps", "global timestamp"])
@pytest.mark.parametrize("strategy", ["subscribe", "subscribePattern"])
def test_a_start_behind_the_last_record_is_an_error_or_the_end_as_the_strategy_says(
    streaming: Streaming, servers: str, output: Output, hundred: str, strategy: str, form: str
) -> None:
    late = int(time.time() * 1000) + HOUR_MS
    forms: dict[str, dict[str, Any]] = {
        "specific timestamps": {"startingOffsetsByTimestamp": json.dumps({hundred: {"0": late, "1": late}})},
        "global timestamp": {"startingTimestamp": late},
    }
    stream = {strategy: hundred, **forms[form]}
    message = failure_of(output.start(streaming(**stream)))
    assert str(late) in message
    stream["startingOffsetsByTimestampStrategy"] = "latest"
    output.run(streaming(**stream))
    produce(servers, hundred, [b"new"] * 5)
    output.run(streaming(**stream))
    assert output.all() == [(0, offset) for offset in range(50, 55)]


# Topics that go.


def test_a_topic_that_goes_in_an_available_now_run_is_a_loss(
    streaming: Streaming, servers: str, output: Output, create_topic: CreateTopic
) -> None:
    stays, goes = create_topic(1), create_topic(1)
    for topic in (stays, goes):
        produce(servers, topic, [b"value"] * 40)
    output.after_reading = lambda batch_id: delete_topic(servers, goes) if batch_id == 1 else None
    stream = streaming(subscribe=f"{stays},{goes}", startingOffsets="earliest", maxOffsetsPerTrigger=20)
    message = failure_of(output.start(stream))
    assert "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW" in message
    assert goes in message


def test_records_that_go_in_an_available_now_run_are_a_loss(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    output.after_reading = lambda batch_id: delete_records(servers, hundred, 40) if batch_id == 1 else None
    stream = streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    message = failure_of(output.start(stream))
    assert "KAFKA_DATA_LOSS" in message
    assert f"topic {hundred}, partition 0, offsets [10, " in message


def test_a_topic_that_is_deleted_while_its_batch_is_read_ends_no_query_when_that_is_allowed(
    streaming: Streaming, servers: str, output: Output, create_topic: CreateTopic, stopping: list[StreamingQuery]
) -> None:
    stays, goes = create_topic(1), create_topic(1)
    for topic in (stays, goes):
        produce(servers, topic, [b"value"] * 10)
    # The batch is planned, and none of its records has been fetched.
    output.before_reading = lambda batch_id: delete_topic(servers, goes) if batch_id == 1 else None
    stream = streaming(subscribePattern=f"^({stays}|{goes})$", startingOffsets="earliest", failOnDataLoss="false")
    query = output.start(stream, processingTime="100 milliseconds")
    stopping.append(query)
    until(lambda: 1 in output.batches or query.exception(), "the batch did not end")
    produce(servers, stays, [b"later"] * 5)
    until(lambda: (stays, 0, 14) in output.named or query.exception(), "the topic that stays is not read on")
    assert query.exception() is None
    assert [record for record in output.named if record[0] == stays] == [(stays, 0, offset) for offset in range(15)]


def test_a_pattern_goes_on_when_one_of_its_topics_is_deleted_and_that_is_allowed(
    streaming: Streaming, servers: str, output: Output, topic: Callable[[], str], stopping: list[StreamingQuery]
) -> None:
    prefix = topic()
    for name in ("a", "b"):
        create_topic_again(servers, f"{prefix}-{name}")
        produce(servers, f"{prefix}-{name}", [b"value"] * 10)
    stream = streaming(subscribePattern=f"^{prefix}-.*", startingOffsets="earliest", failOnDataLoss="false")
    query = output.start(stream, processingTime="100 milliseconds")
    stopping.append(query)
    until(lambda: len(output.all()) == 20 or query.exception(), "the two topics were not read")
    delete_topic(servers, f"{prefix}-a")
    produce(servers, f"{prefix}-b", [b"more"] * 5)
    until(lambda: len(output.all()) == 25 or query.exception(), "the topic that is left was not read")
    create_topic_again(servers, f"{prefix}-c")
    produce(servers, f"{prefix}-c", [b"new"] * 3)
    until(lambda: len(output.all()) == 28 or query.exception(), "the new topic was not read")
    assert query.exception() is None


def test_a_query_whose_only_topic_is_deleted_stands_still_when_that_is_allowed(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    stream = streaming(subscribe=hundred, startingOffsets="earliest", failOnDataLoss="false")
    query = output.start(stream, processingTime="100 milliseconds")
    stopping.append(query)
    until(lambda: len(output.all()) == 100 or query.exception(), "nothing was read")
    delete_topic(servers, hundred)
    seen = len(query.recentProgress)
    until(lambda: len(query.recentProgress) > seen or query.exception(), "the query does not go on")
    assert query.exception() is None
    assert output.all() == places(50)


# More than one source.


def test_a_stream_without_new_records_does_not_hold_up_the_other_of_a_union(
    streaming: Streaming, session: SparkSession, servers: str, create_topic: CreateTopic, stopping: list[StreamingQuery]
) -> None:
    quiet, busy = create_topic(1), create_topic(1)
    quiet_frame, two = (streaming(subscribe=topic, startingOffsets="earliest").load() for topic in (quiet, busy))
    query = (
        quiet_frame.union(two)
        .writeStream.format("memory")
        .queryName("both")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    stopping.append(query)
    for count in (5, 10):
        produce(servers, busy, [b"value"] * 5)
        until(lambda count=count: session.table("both").count() == count or query.exception(), "no records came")
    assert query.exception() is None
    session.catalog.dropTempView("both")


def test_a_stream_joined_with_itself_agrees_with_itself(
    streaming: Streaming, session: SparkSession, hundred: str
) -> None:
    stream = streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=30).load()
    left, right = (stream.select("partition", "offset", f.lit(side).alias(side)) for side in ("left", "right"))
    joined = left.join(right, ["partition", "offset"])
    query = joined.writeStream.format("memory").queryName("joined").trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    assert sorted((row.partition, row.offset) for row in session.table("joined").collect()) == places(50)
    # Spark counts a Python source once for each side, and both sides are planned alike.
    ends = [[source.endOffset for source in progress.sources] for progress in query.recentProgress]
    assert all(left_end == right_end for left_end, right_end in ends)
    session.catalog.dropTempView("joined")


def test_a_watermark_follows_the_records_timestamps(
    streaming: Streaming, session: SparkSession, servers: str, create_topic: CreateTopic
) -> None:
    topic, start_ms = create_topic(1, {"retention.ms": "-1"}), 1_700_000_040_000
    for minute in range(5):
        produce(servers, topic, [b"value"] * (minute + 1), timestamp_ms=start_ms + minute * 60_000 + 30_000)
    stream = streaming(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4).load()
    counted = stream.withWatermark("timestamp", "1 second").groupBy(f.window("timestamp", "1 minute")).count()
    query = counted.writeStream.format("memory").queryName("minutes").trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    rows = session.table("minutes").orderBy("window").collect()
    # The last window is open: no later record has closed it.
    assert [row["count"] for row in rows] == [1, 2, 3, 4]
    session.catalog.dropTempView("minutes")


# Everything at once.


def test_topics_that_come_go_and_grow_at_random_give_no_record_twice(
    streaming: Streaming, servers: str, output: Output, topic: Callable[[], str], stopping: list[StreamingQuery]
) -> None:
    prefix, chance = topic(), random.Random(7)
    partitions: dict[str, int] = {}
    stream = streaming(subscribePattern=f"^{prefix}-", startingOffsets="earliest", failOnDataLoss="false")
    query = output.start(stream, processingTime="50 milliseconds")
    stopping.append(query)
    until(lambda: query.lastProgress or query.exception(), "the query did not start")
    for step in range(40):
        action = chance.random()
        if not partitions or action < 0.2:
            name = f"{prefix}-{os.urandom(3).hex()}"
            partitions[name] = chance.randint(1, 3)
            create_topic_again(servers, name, partitions[name])
        elif action < 0.3:
            name = chance.choice(sorted(partitions))
            partitions[name] += 1
            add_partitions(servers, name, partitions[name])
        elif action < 0.4 and len(partitions) > 1:
            name = chance.choice(sorted(partitions))
            del partitions[name]
            delete_topic(servers, name)
        else:
            name = chance.choice(sorted(partitions))
            produce(servers, name, [b"%d" % step] * 20, partition=chance.randrange(partitions[name]))
    expected = {
        (name, partition, offset)
        for name, count in partitions.items()
        for partition in range(count)
        for offset in range(end_offset(servers, name, partition))
    }
    until(lambda: query.exception() or expected <= set(output.named), "the query did not catch up")
    assert query.exception() is None
    assert len(output.named) == len(set(output.named))
