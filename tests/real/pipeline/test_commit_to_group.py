"""A pipeline's offsets in a consumer group: what Kafka's own tools see of it, whatever the engine."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.real.pipeline.conftest import COUNT, World
from tests.real.spark.test_groups import committed
from tests.waiting import until

import directkafka
from directkafka import SQLiteSink, TopicPartition
from directkafka.pipeline.progress import BatchReport
from directkafka.testing.broker_jars import KAFKA_VERSION, broker_jars
from directkafka.testing.java import java_home
from directkafka.testing.maven_jars import Module, fetch_jars

pytestmark = pytest.mark.real

ALL = dict.fromkeys(range(PARTITIONS), COUNT // PARTITIONS)


def engine_options(engine: str, folder: Path) -> dict[str, Any]:
    return {"engine": engine} | ({"checkpoint": folder / "checkpoint"} if engine == "structured" else {})


def test_a_batch_is_in_the_group_when_it_is_reported(world: World) -> None:
    group, seen = f"lag-{world.topic}", []

    def report(_: BatchReport) -> None:
        seen.append(sum(committed(world.kafka, group, world.topic, PARTITIONS).values()))

    world.pipeline(commit_to_group=group, report=report).run()
    assert seen == [30, 60, 90]


@pytest.mark.parametrize("engine", ["direct", pytest.param("structured", marks=pytest.mark.slow)])
def test_the_last_batch_is_in_the_group_when_the_pipeline_has_ended(engine: str, world: World, tmp_path: Path) -> None:
    group = f"lag-{world.topic}"
    sink = SQLiteSink(tmp_path / "numbers.db", "numbers")
    world.pipeline(sinks=sink, commit_to_group=group, **engine_options(engine, tmp_path)).run()
    until(lambda: committed(world.kafka, group, world.topic, PARTITIONS) == ALL, "the group lacks the last batch")


def test_a_start_with_nothing_new_tells_the_group_where_the_ledger_is(world: World) -> None:
    """A killed driver has perhaps not told of its last batch, and a reset leads elsewhere."""
    group = f"lag-{world.topic}"
    world.pipeline(commit_to_group=group).run()
    with directkafka.Cluster({"bootstrap.servers": world.kafka}) as cluster:
        cluster.commit(group, {TopicPartition(world.topic, 0): 1})
    assert committed(world.kafka, group, world.topic, PARTITIONS) == ALL | {0: 1}
    world.pipeline(commit_to_group=group).run()
    assert committed(world.kafka, group, world.topic, PARTITIONS) == ALL


@pytest.mark.slow
def test_a_group_that_refuses_is_a_warning_and_is_told_when_it_can_be(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"lag-{world.topic}"
    member = Consumer({"bootstrap.servers": world.kafka, "group.id": group, "auto.offset.reset": "earliest"})
    member.subscribe([world.topic])
    until(lambda: member.poll(0.5), "the member was given no record")
    pipeline = world.pipeline(commit_to_group=group, trigger="100ms")
    try:
        with caplog.at_level(logging.WARNING, "directkafka"):
            pipeline.start()
            until(lambda: world.query("SELECT to_regclass('records')") != [(None,)], "its table")
            until(lambda: len(world.numbers()) == COUNT, "the rows")
        assert f"offsets were not committed to the group {group}; the query goes on" in caplog.text
        member.close()
        # No record comes; the idle driver tries again.
        until(lambda: committed(world.kafka, group, world.topic, PARTITIONS) == ALL, "the group is never told")
    finally:
        member.close()
        pipeline.request_stop()
        pipeline.wait()


@pytest.mark.slow
def test_kafka_s_own_tool_sees_the_lag(world: World) -> None:
    group = f"lag-{world.topic}"
    world.pipeline(commit_to_group=group).run()
    produce_numbers(world.kafka, world.topic, 30, first=COUNT)
    tools = Module(organisation="org.apache.kafka", name="kafka-tools", revision=KAFKA_VERSION, transitive=False)
    folders = [fetch_jars(f"kafka-tools/{KAFKA_VERSION}", [tools], what="Kafka's tools (1 jar)"), broker_jars()]
    command = [
        *(str(java_home() / "bin" / "java"), "-XX:-UsePerfData", "-cp", ":".join(f"{folder}/*" for folder in folders)),
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", world.kafka, "--group", group, "--describe"),
    ]
    shown = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout
    lines = [line.split() for line in shown.splitlines() if world.topic in line]
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG ...
    assert sorted(line[2:6] for line in lines) == [
        [str(partition), str(COUNT // PARTITIONS), str((COUNT + 30) // PARTITIONS), str(30 // PARTITIONS)]
        for partition in range(PARTITIONS)
    ]
