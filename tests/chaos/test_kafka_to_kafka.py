"""Whole pipelines from Kafka through Spark into Kafka: killed, overtaken while they stand still, changed between runs.

The store's own steps, one by one, are in ``test_kafka_store.py``. Here each number of the commit protocol is met once,
with Spark's processes around it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import CARRIERS, HEAD, PARTITIONS, PipelineProcess, produce_numbers, wait_until_stopped_below
from tests.contract.kafka_harness import read_committed, still_open, wait_until_stable
from tests.processes import running
from tests.real.kafka.logs import add_partitions

from directkafka import Pipeline
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 400
FENCED = 3

#: A fence waits 30 s for another one at most (``fence_timeout_s``); the rest is the batches' own.
TAKE_OVER_S_MAX = 60.0

FILE = (
    HEAD
    + """
[transform]
{transform}

[[sink]]
type = "kafka"
"kafka.bootstrap.servers" = "${{KAFKA}}"
topic = "{target}"
inline_bytes_max = {inline_bytes_max}
"""
)


TRANSFORM = {
    "spark": "sql = \"SELECT key, concat('{word} ', CAST(value AS STRING)) AS value FROM source\"",
    "native": 'arrow = "words_job_{word}:transform"',
}

JOB = """
import pyarrow as pa
import pyarrow.compute as pc


def transform(batch):
    value = pc.binary_join_element_wise(b"{word}", batch.column("value"), b" ")
    return pa.RecordBatch.from_arrays([batch.column("key"), value], ["key", "value"])
"""


@dataclass
class World:
    """A topic of numbers, one for the output, and a pipeline between them."""

    servers: str
    folder: Path
    source: str
    target: str
    #: One of CARRIERS.
    carrier: str

    @property
    def name(self) -> str:
        """Of this test alone: the ledger's topic is named after it."""
        return f"numbers-{self.target[-8:]}"

    def write_file(
        self, trigger: str, *, word: str = "number", master: str = "local[2]", inline_bytes_max: int = 0, more: str = ""
    ) -> Path:
        path = self.folder / f"{trigger}-{word}.toml"
        (self.folder / f"words_job_{word}.py").write_text(JOB.format(word=word))
        text = FILE.format(
            name=self.name,
            trigger=trigger,
            master=master,
            folder=self.folder,
            topic=self.source,
            target=self.target,
            batch=100,
            transform=TRANSFORM[self.carrier].format(word=word),
            inline_bytes_max=inline_bytes_max,
        )
        path.write_text(text.replace("[transform]", f"{more}\n[transform]", 1))
        return path

    def start(self, faults: str, *, master: str = "local[2]", inline_bytes_max: int = 0) -> PipelineProcess:
        """``directkafka run``, with faults that happen once."""
        file = self.write_file("100ms", master=master, inline_bytes_max=inline_bytes_max)
        world = {**os.environ, "KAFKA": self.servers, "DIRECTKAFKA_FAULTS": faults}
        world["DIRECTKAFKA_FAULTS_ONCE"] = str(self.folder / "fired")
        return PipelineProcess(file, world, self.folder)

    def run(self, **options: object) -> None:
        """Run to the end of what there is, in this process and its Spark."""
        Pipeline.from_toml(self.write_file("available-now", **options)).run()  # type: ignore[arg-type]

    def visible(self) -> list[str]:
        """What a reader sees, whatever is open."""
        return sorted(record.value.decode() for record in read_committed(self.servers, self.target))

    def values(self) -> list[str]:
        """What is committed; nothing else may be there or be open."""
        assert still_open(self.servers, f"directkafka.{self.name}") == []
        wait_until_stable(self.servers, self.target)
        wait_until_stable(self.servers, f"directkafka.ledger.{self.name}")
        return self.visible()


@pytest.fixture(params=CARRIERS)
def world(
    request: pytest.FixtureRequest,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.setenv("KAFKA", kafka_broker.bootstrap_servers)
    topics = create_topic(PARTITIONS), create_topic(PARTITIONS)
    world = World(kafka_broker.bootstrap_servers, tmp_path, *topics, request.param)
    produce_numbers(world.servers, world.source, COUNT)
    return world


EXPECTED = sorted(f"number {number}" for number in range(COUNT))


@pytest.mark.parametrize("inline_bytes_max", [1 << 20, 0], ids=["inline", "by tasks"])
@pytest.mark.parametrize("point", ["transaction.opened@4", "batch.written@2", "commit.ledger_produced@3"])
def test_a_pipeline_killed_on_its_way_loses_and_doubles_nothing(
    world: World, point: str, inline_bytes_max: int
) -> None:
    with running(world.start(f"{point}=kill", inline_bytes_max=inline_bytes_max)) as process:
        assert process.wait() == -signal.SIGKILL, process.messages()
    world.run(inline_bytes_max=inline_bytes_max)
    assert world.values() == EXPECTED


@pytest.mark.parametrize(
    "point", ["fence.done@1", "ledger.read@1", "batch.written@2", "commit.ledger_produced@3", "batch.reported@2"]
)
def test_a_pipeline_that_stood_still_lands_nothing_after_a_newer_one(world: World, point: str) -> None:
    with running(world.start(f"{point}=stop")) as older:
        older.wait_until_stopped()
        begun = time.monotonic()
        world.run()
        assert time.monotonic() - begun < TAKE_OVER_S_MAX
        assert world.values() == EXPECTED
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
    assert world.values() == EXPECTED


def test_a_pipeline_whose_worker_stood_still_lands_nothing_after_a_newer_one(world: World) -> None:
    """Its rows are acknowledged; the driver waits for it, and is passed by a newer one."""
    with running(world.start("task.flushed@1=stop")) as older:
        worker = wait_until_stopped_below(older.process.pid)
        world.run()
        assert world.values() == EXPECTED
        # The driver aborts a transaction that takes too long, and finds out then; the worker ends with the job.
        with suppress(psutil.NoSuchProcess):
            worker.resume()
        assert older.wait() == FENCED, older.messages()
    assert world.values() == EXPECTED


def test_a_pipeline_changed_between_a_crash_and_its_restart_has_every_record_once(world: World) -> None:
    """More partitions on both sides, more tasks, other code, another way to write: nothing of the killed batch counts.

    The second batch was being written when the driver died. It is done again as the new code and the new layout will
    have it; what was committed before stays as it is.
    """
    with running(world.start("commit.ledger_produced@3=kill", master="local[1]")) as process:
        assert process.wait() == -signal.SIGKILL, process.messages()
    before = world.visible()
    assert 0 < len(before) < COUNT
    add_partitions(world.servers, world.target, PARTITIONS + 2)
    add_partitions(world.servers, world.source, PARTITIONS + 1)
    world.run(word="changed", inline_bytes_max=1 << 20, more='minPartitions = "7"')
    values = world.values()
    assert {value for value in values if value.startswith("number")} == set(before)
    assert sorted(int(value.partition(" ")[2]) for value in values) == list(range(COUNT))
