"""Streaming queries on the format ``directkafka``: a real Spark, a real broker, real checkpoints."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.real.kafka.logs import (
    add_partitions,
    create_topic_again,
    delete_records,
    delete_topic,
    host_and_port,
    produce,
)
from tests.real.kafka.proxy import KafkaProxy, advertise
from tests.real.spark.conftest import QUICK
from tests.real.spark.queries import WAIT_S, Output, failure_of, places
from tests.waiting import until

pytestmark = pytest.mark.real

CreateTopic = Callable[..., str]
Streaming = Callable[..., Any]

ROOT = Path(__file__).parents[3]
#: The number of the Fetch API.
FETCH = 1

# What is read.


def test_records_have_spark_s_seven_columns(streaming: Streaming, session: SparkSession, hundred: str) -> None:
    stream = streaming(subscribe=hundred, startingOffsets="earliest").load()
    query = stream.writeStream.format("memory").queryName("records").trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    table = session.table("records")
    assert table.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert table.count() == 100
    session.catalog.dropTempView("records")


def test_without_a_limit_everything_there_is_comes_in_one_batch(
    streaming: Streaming, output: Output, hundred: str
) -> None:
    output.run(streaming(subscribe=hundred, startingOffsets="earliest"))
    assert [len(batch) for batch in output.batches.values() if batch] == [100]
    assert output.all() == places(50)


def test_a_limit_cuts_an_available_now_run_into_batches(streaming: Streaming, output: Output, hundred: str) -> None:
    output.run(streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=30))
    sizes = [len(batch) for batch in output.batches.values() if batch]
    assert len(sizes) >= 4
    assert max(sizes) <= 31
    assert output.all() == places(50)


def test_an_available_now_run_leaves_what_comes_after_its_start(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    output.before_reading = lambda _: produce(servers, hundred, [b"later"] * 10)
    output.run(streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=30))
    assert output.all() == places(50)
    output.before_reading = lambda _: None
    output.run(streaming(subscribe=hundred))
    assert len(output.all()) == len(set(output.all())) > 100


def test_a_query_goes_on_from_its_checkpoint_without_a_gap_or_a_repeat(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    stream = streaming(subscribe=hundred, startingOffsets="earliest")
    output.run(stream)
    for partition in range(2):
        produce(servers, hundred, [b"later"] * 20, partition=partition)
    output.run(streaming(subscribe=hundred, startingOffsets="latest"))
    assert output.all() == places(70)
    output.run(stream)
    assert output.all() == places(70)


def test_a_partition_that_is_added_while_the_query_runs_is_read_from_its_start(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    query = output.start(streaming(subscribe=hundred, startingOffsets="latest"), processingTime="100 milliseconds")
    stopping.append(query)
    until((output.checkpoint / "offsets" / "0").exists, "the query did not start")
    add_partitions(servers, hundred, 3)
    produce(servers, hundred, [b"new"] * 5, partition=2)
    until(lambda: len(output.all()) == 5 or query.exception(), "the new partition was not read")
    assert query.exception() is None
    assert output.all() == [(2, offset) for offset in range(5)]


@pytest.mark.slow
def test_a_topic_that_a_pattern_finds_later_is_read_from_its_start(
    streaming: Streaming, servers: str, output: Output, topic: Callable[[], str], stopping: list[StreamingQuery]
) -> None:
    name = topic()
    query = output.start(
        streaming(subscribePattern=f"^{name}$", startingOffsets="latest"), processingTime="100 milliseconds"
    )
    stopping.append(query)
    until(lambda: query.lastProgress or query.exception(), "the query did not start")
    create_topic_again(servers, name)
    produce(servers, name, [b"value"] * 5)
    until(lambda: len(output.all()) == 5 or query.exception(), "the topic was not read")
    assert query.exception() is None


# What the checkpoint says.


def test_the_start_and_each_batch_are_in_the_offset_log_before_anything_is_fetched(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    logged: list[set[str]] = []

    def note(api: int) -> None:
        if api == FETCH:
            logged.append({path.name for path in (output.checkpoint / "offsets").glob("[0-9]*")})

    with KafkaProxy(*host_and_port(servers)) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        proxy.change, proxy.before_request = advertise(servers, address), note
        options = {"kafka__bootstrap__servers": address, "maxOffsetsPerTrigger": 50}
        output.run(streaming(subscribe=hundred, startingOffsets="earliest", **options))
    assert output.offsets(0) == {hundred: {"0": 0, "1": 0}}
    assert output.offsets(1) == {hundred: {"0": 25, "1": 25}}
    assert output.offsets(2) == {hundred: {"0": 50, "1": 50}}
    assert not output.batches.get(0)
    assert output.all() == places(50)
    # The first fetch is of batch 1; those of batch 2 come when its entry is there too.
    assert {"0", "1"} <= logged[0]
    assert {"0", "1", "2"} <= logged[-1]


@pytest.mark.slow
def test_a_query_on_latest_that_is_killed_in_its_first_batch_loses_nothing(
    session: SparkSession, servers: str, tmp_path: Path, hundred: str
) -> None:
    keys = ("spark.driver.extraJavaOptions", "spark.sql.warehouse.dir", "spark.ui.enabled", "spark.driver.bindAddress")
    spark = {key: session.conf.get(key) for key in keys} | {"spark.local.dir": str(tmp_path / "local")}
    config: dict[str, Any] = {
        "spark": spark,
        "options": {"kafka.bootstrap.servers": servers, "subscribe": hundred, "startingOffsets": "latest", **QUICK},
        "checkpoint": str(tmp_path / "checkpoint"),
        "output": str(tmp_path / "output"),
        "kill": True,
    }

    def start(**changed: Any) -> subprocess.Popen[bytes]:
        arguments = ["-m", "tests.real.spark.killed_query", json.dumps(config | changed)]
        return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stderr=subprocess.DEVNULL)

    victim = start()
    first = tmp_path / "checkpoint" / "offsets" / "0"
    until(lambda: first.exists() or victim.poll() is not None, "the query did not start")
    produce(servers, hundred, [b"after the start"] * 5)
    assert victim.wait(WAIT_S) == -signal.SIGKILL
    assert not (tmp_path / "output").exists()
    produce(servers, hundred, [b"after the crash"] * 5)
    assert start(kill=False).wait(WAIT_S) == 0
    assert (tmp_path / "output").read_text().splitlines() == [f"0 {offset}" for offset in range(50, 60)]


def test_no_consumer_group_is_left_in_kafka(streaming: Streaming, servers: str, output: Output, hundred: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})

    def groups_of_the_topic() -> list[str]:
        """Other tests make groups on this broker meanwhile."""
        groups = [group.group_id for group in admin.list_consumer_groups().result(WAIT_S).valid]
        offsets = [admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group] for group in groups]
        return [
            group
            for group, answer in zip(groups, offsets, strict=True)
            if any(partition.topic == hundred for partition in answer.result(WAIT_S).topic_partitions or ())
        ]

    output.run(streaming(subscribe=hundred, startingOffsets="earliest"))
    assert len(output.all()) == 100
    assert groups_of_the_topic() == []
    Consumer({"bootstrap.servers": servers, "group.id": hundred}).commit(
        offsets=[TopicPartition(hundred, 0, 1)], asynchronous=False
    )
    assert groups_of_the_topic() == [hundred]


def test_executors_fetch_and_only_the_driver_lists_offsets(
    streaming: Streaming, servers: str, tmp_path: Path, hundred: str
) -> None:
    """Five times the tasks ask five times for records, and the cluster no more often where its logs end."""
    fetch, list_offsets = 1, 2

    def requests(tasks: int) -> Counter[int]:
        with KafkaProxy(*host_and_port(servers)) as proxy:
            proxy.change = advertise(servers, address := f"127.0.0.1:{proxy.port}")
            output, options = Output(tmp_path / str(tasks)), {"kafka.bootstrap.servers": address}
            output.run(streaming(subscribe=hundred, startingOffsets="earliest", minPartitions=tasks, **options))
            assert output.all() == places(50)
            return proxy.requests

    few, many = requests(2), requests(10)
    assert many[fetch] >= few[fetch] + 8
    assert many[list_offsets] == few[list_offsets] > 0


def test_progress_tells_how_far_the_log_goes(streaming: Streaming, output: Output, hundred: str) -> None:
    query = output.run(streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=30))
    sources = [progress["sources"][0] for progress in query.recentProgress]
    read = [source for source in sources if source["numInputRows"]]
    assert sum(source["numInputRows"] for source in read) == 100
    for source in read:
        assert _as_offsets(source["latestOffset"]) == {hundred: {"0": 50, "1": 50}}
    assert _as_offsets(read[-1]["endOffset"]) == {hundred: {"0": 50, "1": 50}}


def _as_offsets(told: Any) -> Any:
    return json.loads(told) if isinstance(told, str) else told


@pytest.mark.slow
def test_once_reads_nothing_in_a_new_query_and_in_a_later_one_all_there_is_whatever_the_limit(
    streaming: Streaming, output: Output, hundred: str
) -> None:
    """The first batch of a new query is empty: its start has to be durable before anything is read."""
    stream = streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    for expected in ([], places(50)):
        assert output.start(stream, once=True).awaitTermination(WAIT_S)
        assert output.all() == expected


@pytest.mark.slow
def test_a_running_query_stops_when_it_is_told_whether_or_not_there_is_something_to_read(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    query = output.start(streaming(subscribe=hundred, startingOffsets="earliest"), processingTime="100 milliseconds")
    until(lambda: len(output.all()) == 100 or query.exception(), "nothing was read")
    begun = time.monotonic()
    query.stop()
    # Far below every timeout of the client; a batch that is under way is waited for.
    assert time.monotonic() - begun < WAIT_S / 4
    assert not query.isActive
    assert query.exception() is None


@pytest.mark.slow
def test_a_batch_that_failed_in_an_available_now_run_is_repeated_by_the_next_run_which_comes_to_its_end(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    stream = streaming(subscribe=hundred, startingOffsets="earliest", maxOffsetsPerTrigger=40)

    def fail(batch_id: int) -> None:
        if batch_id == 2:
            raise RuntimeError("this batch fails")

    output.after_reading = fail
    assert "this batch fails" in failure_of(output.start(stream))
    failed = output.batches[2]
    output.after_reading = lambda batch_id: None
    # What comes meanwhile belongs to the next run's end, and not to the batch that is repeated.
    add_partitions(servers, hundred, 3)
    produce(servers, hundred, [b"late"] * 10, partition=2)
    output.run(stream)
    assert output.batches[2] == failed
    assert output.all() == sorted([*places(50), *((2, offset) for offset in range(10))])


# What is lost.


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["subscribe", "subscribePattern"])
def test_a_topic_made_again_between_two_runs_is_a_loss_and_not_a_continuation(
    streaming: Streaming, servers: str, output: Output, hundred: str, strategy: str
) -> None:
    output.run(streaming(**{strategy: hundred}, startingOffsets="earliest"))
    delete_topic(servers, hundred)
    create_topic_again(servers, hundred, 2)
    produce(servers, hundred, [b"new"] * 10)
    message = failure_of(output.start(streaming(**{strategy: hundred})))
    # As Spark names it in a run of what is there now.
    assert "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED]" in message
    assert f"topic {hundred}, partition 0, offsets [10, 50)" in message


def test_a_topic_made_again_while_the_query_runs_is_noticed_by_its_id(
    streaming: Streaming, servers: str, output: Output, hundred: str, stopping: list[StreamingQuery]
) -> None:
    """The new topic is longer than the old one: offsets alone would look like a continuation."""
    query = output.start(streaming(subscribe=hundred, startingOffsets="earliest"), processingTime="100 milliseconds")
    stopping.append(query)
    until(lambda: len(output.all()) == 100 or query.exception(), "nothing was read")
    delete_topic(servers, hundred)
    # The query may see the topic gone before it is back; both are losses.
    create_topic_again(servers, hundred, 2)
    for partition in range(2):
        produce(servers, hundred, [b"new"] * 80, partition=partition)
    message = failure_of(query)
    assert "KAFKA_DATA_LOSS.TOPIC_RECREATED" in message or "KAFKA_DATA_LOSS.PARTITION" in message
    assert output.all() == places(50)


@pytest.mark.slow
def test_records_that_expired_before_they_were_read_are_a_loss_unless_that_is_allowed(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    output.run(streaming(subscribe=hundred, startingOffsets="earliest"))
    produce(servers, hundred, [b"later"] * 20)
    delete_records(servers, hundred, 60)
    message = failure_of(output.start(streaming(subscribe=hundred)))
    assert f"topic {hundred}, partition 0, offsets [50, 60)" in message
    output.run(streaming(subscribe=hundred, failOnDataLoss="false"))
    assert output.all() == sorted(places(50) + [(0, offset) for offset in range(60, 70)])


def test_a_loss_on_an_executor_reaches_the_caller_with_its_text(
    streaming: Streaming, servers: str, output: Output, hundred: str
) -> None:
    output.before_reading = lambda batch_id: batch_id and delete_records(servers, hundred, 20)
    message = failure_of(output.start(streaming(subscribe=hundred, startingOffsets="earliest")))
    assert "CouldNotReadOffsetRangeError" in message
    assert f"topic {hundred}, partition 0, offsets [0, 20)" in message


# Bad input.


def test_a_broker_that_is_not_there_is_named_in_bounded_time(streaming: Streaming, output: Output) -> None:
    begun = time.monotonic()
    query = output.start(streaming(subscribe="flights", kafka__bootstrap__servers="127.0.0.1:1"))
    assert "no Kafka broker answered at ('127.0.0.1:1',)" in failure_of(query)
    assert time.monotonic() - begun < 20.0


def test_a_topic_that_is_not_there_is_named(streaming: Streaming, output: Output, topic: Callable[[], str]) -> None:
    name = topic()
    message = failure_of(output.start(streaming(subscribe=name)))
    assert "TopicNotFoundError" in message
    assert name in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "found none"),
        ({"subscribe": "a", "endingOffsets": "latest"}, "a stream has no end"),
        *(
            pytest.param(options, message, marks=pytest.mark.slow)
            for options, message in (
                ({"subscribe": "a", "subscribePattern": "b"}, "found subscribe and subscribePattern"),
                ({"subscribe": "a", "startingOffsets": "[1]"}, "startingOffsets"),
                ({"subscribe": "a", "maxOffsetPerTrigger": "5"}, "maxOffsetsPerTrigger"),
            )
        ),
    ],
)
def test_options_that_are_wrong_are_named_with_what_to_write(
    streaming: Streaming, output: Output, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception) as caught:
        output.run(streaming(**options))
    assert message in str(caught.value)
