"""Metrics of pipelines that run in this process, over HTTP, against what is in topic and tables."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession
from tests.chaos.pipelines import PARTITIONS
from tests.real.monitoring.conftest import Web
from tests.real.pipeline.conftest import COUNT, World
from tests.real.pipeline.structured_world import Streams
from tests.waiting import until

import directkafka
from directkafka import PostgresSink, SQLiteSink

pytestmark = pytest.mark.real

REJECTING = """
SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number,
    IF(CAST(CAST(value AS STRING) AS BIGINT) % 10 = 0, 'ten', NULL) AS dead_letter_reason FROM source
"""


def produce(world: World, partition: int, *ages_s: float, transactional: bool = False) -> None:
    """Records of these ages."""
    options = {"bootstrap.servers": world.kafka}
    producer = Producer(options | ({"transactional.id": f"t-{world.topic}"} if transactional else {}))
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    for age_s in ages_s:
        written_ms = int((time.time() - age_s) * 1000)
        producer.produce(world.topic, b"7", partition=partition, timestamp=written_ms)
    if transactional:
        producer.commit_transaction(30)
    assert producer.flush(30) == 0


def test_counts_of_a_pipeline_are_those_of_topic_and_tables(world: World, web: Web, tmp_path: Path) -> None:
    letters = SQLiteSink(tmp_path / "letters.db", "letters")
    world.pipeline(REJECTING, dead_letters=letters).run()
    samples = web.samples("numbers")
    store = PostgresSink(world.dsn, "records").store
    assert samples["directkafka_batches_total", ()] == COUNT / 30
    assert samples["directkafka_records_read_total", (world.topic,)] == COUNT
    assert COUNT < samples["directkafka_bytes_read_total", (world.topic,)] < 100 * COUNT
    assert samples["directkafka_rows_written_total", (store.identity, "records")] == COUNT * 9 / 10
    assert samples["directkafka_rows_written_total", (letters.store.identity, "letters")] == COUNT / 10
    assert samples["directkafka_dead_letters_total", ()] == COUNT / 10
    assert samples["directkafka_generation", ()] == 1
    assert samples["directkafka_paused", ()] == 0
    assert time.time() - 60 < samples["directkafka_last_commit_timestamp_seconds", ()] <= time.time()
    assert [samples["directkafka_batch_duration_seconds_count", (step,)] for step in ("plan", "write", "commit")] == [
        3
    ] * 3
    assert all(value >= 0 and not math.isnan(value) for value in samples.values())
    store.close()


def test_an_arrow_transform_is_counted_as_a_query_is(world: World, web: Web, tmp_path: Path) -> None:
    world.pipeline(None, sinks=SQLiteSink(tmp_path / "numbers.db", "numbers")).run()
    samples = web.samples("numbers")
    assert samples["directkafka_records_read_total", (world.topic,)] == COUNT
    assert COUNT < samples["directkafka_bytes_read_total", (world.topic,)] < 100 * COUNT


@pytest.mark.slow
def test_the_structured_engine_has_the_same_counts(
    world: World, web: Web, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="directkafka")
    world.pipeline(engine="structured", checkpoint=tmp_path / "checkpoint").run()
    assert world.numbers() == list(range(COUNT))
    samples = web.samples("numbers")
    store = PostgresSink(world.dsn, "records").store
    assert samples.get(("directkafka_rows_written_total", (store.identity, "records"))) == COUNT, samples
    assert samples["directkafka_records_read_total", (world.topic,)] == COUNT
    assert samples["directkafka_generation", ()] == 1
    assert web.lag(world, 0) == (0, 0)
    store.close()


def test_lag_is_zero_when_all_is_read_and_grows_with_the_first_unread_record(world: World, web: Web) -> None:
    world.pipeline().run()
    assert [web.lag(world, partition) for partition in range(PARTITIONS)] == [(0, 0)] * PARTITIONS
    produce(world, 0, 100.0, 50.0, 1.0)
    until(lambda: web.lag(world, 0)[0] == 3, "the records are not seen")
    offsets, seconds = web.lag(world, 0)
    assert offsets == 3
    assert seconds is not None
    assert 100 <= seconds < 130
    assert web.lag(world, 1) == (0, 0)
    samples = web.samples("numbers")
    assert samples["kafka_consumergroup_group_max_lag", ()] == 3
    assert samples["kafka_consumergroup_group_max_lag_seconds", ()] >= 100
    assert samples["kafka_consumergroup_group_offset", (world.topic, "0")] == COUNT / PARTITIONS


def test_a_record_from_the_future_is_not_older_than_nothing(world: World, web: Web) -> None:
    world.pipeline().run()
    produce(world, 0, -3600.0)
    until(lambda: web.lag(world, 0)[0] == 1, "the record is not seen")
    assert web.lag(world, 0) == (1, 0)


def test_lag_behind_markers_of_transactions_alone_has_no_age(world: World, web: Web) -> None:
    """The end of a partition lies behind the marker, and no record is there to be late."""
    world.pipeline().run()
    produce(world, 0, 100.0, transactional=True)
    world.pipeline().run()
    offsets, seconds = web.lag(world, 0)
    assert seconds == 0
    assert offsets in {0, 1}


def test_a_partition_that_is_added_is_behind_from_its_first_record_on(world: World, web: Web) -> None:
    world.pipeline().run()
    admin = AdminClient({"bootstrap.servers": world.kafka})
    for done in admin.create_partitions([NewPartitions(world.topic, PARTITIONS + 1)]).values():
        done.result(30)
    until(lambda: web.lag(world, PARTITIONS) == (0, 0), "the partition is not seen")
    produce(world, PARTITIONS, 20.0)
    until(lambda: web.lag(world, PARTITIONS)[0] == 1, "its record is not seen")
    assert 20 <= (web.lag(world, PARTITIONS)[1] or 0) < 60


@pytest.mark.slow
def test_a_pipeline_that_is_set_back_is_behind_again(world: World, web: Web, tmp_path: Path) -> None:
    database = tmp_path / "numbers.db"
    pipeline = world.pipeline(name="set-back", sinks=SQLiteSink(database, "numbers"), trigger="100ms")
    pipeline.start()
    until(lambda: web.samples("set-back").get(("directkafka_batches_total", ())) == 3, "the batches")
    pipeline.stop()
    text = f"""
[pipeline]
name = "set-back"
[source]
"kafka.bootstrap.servers" = "{world.kafka}"
subscribe = "{world.topic}"
[[sink]]
type = "sqlite"
path = "{database}"
table = "numbers"
"""
    (tmp_path / "numbers.toml").write_text(text)
    command = [str(Path(sys.executable).parent / "directkafka"), "reset", str(tmp_path / "numbers.toml")]
    options = ["--to-offset", "10", "--rows", "delete", "--yes"]
    subprocess.run([*command, *options], check=True, timeout=60, stdout=subprocess.DEVNULL)
    again = world.pipeline(
        name="set-back", sinks=SQLiteSink(database, "numbers"), source={"maxOffsetsPerTrigger": "3"}, trigger="1 hour"
    )
    again.start()
    try:
        # Set back to 10 in each partition, it has read three offsets of all.
        behind = COUNT - 10 * PARTITIONS - 3

        def lag() -> float:
            return sum(web.lag(world, partition, "set-back")[0] or 0 for partition in range(PARTITIONS))

        until(lambda: lag() == behind, "it is not as far behind as it was set back")
    finally:
        again.stop()


def test_several_pipelines_of_a_process_are_told_apart(world: World, web: Web) -> None:
    world.pipeline(name="left", sinks=PostgresSink(world.dsn, "left_side")).run()
    right = "SELECT * FROM source WHERE offset % 2 = 0"
    world.pipeline(right, name="right", sinks=PostgresSink(world.dsn, "right_side")).run()
    store = PostgresSink(world.dsn, "left_side").store
    written = "directkafka_rows_written_total"
    assert web.samples("left")[written, (store.identity, "left_side")] == COUNT
    assert web.samples("right")[written, (store.identity, "right_side")] == COUNT / 2
    assert web.get("/metrics")[1].count("# TYPE directkafka_batches_total counter") == 1
    store.close()


@pytest.mark.slow
def test_nothing_is_said_of_lag_where_kafka_does_not_answer(world: World, web: Web, tmp_path: Path) -> None:
    pipeline = world.pipeline(sinks=SQLiteSink(tmp_path / "numbers.db", "numbers"))
    pipeline.run()
    assert web.lag(world, 0) == (0, 0)
    # Another collector has not looked before.
    elsewhere = directkafka.Pipeline(
        "elsewhere",
        source={
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": world.topic,
            "kafka.default.api.timeout.ms": "1000",
            "kafka.request.timeout.ms": "1000",
            "fetchOffset.numRetries": "1",
        },
        sinks=SQLiteSink(tmp_path / "other.db", "other"),
    )
    pipeline.status.sources = (elsewhere.source_options,)
    with directkafka.serve_http("127.0.0.1:0") as server:
        samples = Web(server).samples("numbers")
    assert samples["directkafka_batches_total", ()] == 3
    assert not [name for name, _ in samples if name.startswith("kafka_")]
    until(lambda: "lag of numbers" not in {thread.name for thread in threading.enumerate()}, "a look never ends")


@pytest.mark.slow
def test_a_query_of_the_format_alone_has_metrics_under_its_name(
    world: World, web: Web, spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    directkafka.register(session)
    options = {"kafka.bootstrap.servers": world.kafka, "subscribe": world.topic, "startingOffsets": "earliest"}
    frame = session.readStream.format("directkafka").options(**options).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).queryName("plain")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    records: Any = ("directkafka_records_read_total", (world.topic,))
    until(lambda: web.samples("plain").get(records) == COUNT, "its batch is in no metric")
    produce(world, 0, 30.0)
    until(lambda: web.lag(world, 0, "plain")[0] == 1, "it is not behind")
    assert 30 <= (web.lag(world, 0, "plain")[1] or 0) < 60
    samples = web.samples("plain")
    assert samples["directkafka_batch_duration_seconds_count", ("write",)] >= 1
    assert ("directkafka_generation", ()) not in samples


@pytest.mark.slow
def test_a_query_of_write_stream_has_counts_of_its_own_and_lag(world: World, web: Web, streams: Streams) -> None:
    streams.run(name="stream")
    records: Any = ("directkafka_records_read_total", (world.topic,))
    assert web.samples("stream")[records] == COUNT
    produce(world, 0, 30.0)
    until(lambda: web.lag(world, 0, "stream")[0] == 1, "it is not behind")
    samples = web.samples("stream")
    assert samples[records] == COUNT
    assert samples["directkafka_generation", ()] == 1


def test_only_names_of_this_machine_are_answered(world: World, web: Web) -> None:
    """A page of another site can lead its own name here, and would read the answer as its own."""
    assert web.get("/metrics")[0] == 200
    assert web.get("/metrics", Host="evil.example")[0] == 400


@pytest.mark.slow
def test_prometheus_own_tool_has_nothing_to_complain_of(world: World, web: Web, promtool: Callable[..., Any]) -> None:
    world.pipeline(REJECTING, dead_letters=PostgresSink(world.dsn, "letters")).run()
    produce(world, 0, 5.0)
    completed = promtool("check", "metrics", given=web.get("/metrics")[1])
    assert (completed.returncode, completed.stdout + completed.stderr) == (0, "")
