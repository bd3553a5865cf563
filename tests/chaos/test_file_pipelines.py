"""Whole pipelines from Kafka through Spark into files: killed, and overtaken while they stand still."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.chaos import file_driver
from tests.chaos.file_driver import FENCED, pipeline
from tests.chaos.pipelines import PARTITIONS, PipelineProcess, produce_numbers
from tests.processes import running

import directkafka as dk
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 400


@pytest.fixture
def topic(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> str:
    name = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, name, COUNT)
    monkeypatch.setenv("KAFKA", kafka_broker.bootstrap_servers)
    return name


def driver(kind: str, folder: Path, topic: str, faults: str) -> PipelineProcess:
    command = [sys.executable, "-m", file_driver.__name__, kind, str(folder), topic, "100ms"]
    world = {**os.environ, "DIRECTKAFKA_FAULTS": faults, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    world["DIRECTKAFKA_FAULTS_ONCE"] = str(folder / "fired")
    return PipelineProcess(folder / kind, world, folder, command=command)


def numbers(kind: str, folder: Path, spark: SparkSession) -> list[int]:
    if kind.startswith("delta"):
        return sorted(DeltaTable(folder / "rows").to_pyarrow_table().column("number").to_pylist())
    return sorted(row.number for row in dk.read_parquet(spark, folder / "rows").select("number").collect())


@pytest.mark.parametrize("kind", ["files", "delta", "files-native", "delta-native"])
@pytest.mark.parametrize("point", ["batch.written@2", "log.entry_written@5", "log.slot_taken@5"])
def test_a_pipeline_killed_on_its_way_loses_and_doubles_nothing(
    kind: str, point: str, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    with running(driver(kind, tmp_path, topic, f"{point}=kill")) as process:
        assert process.wait() == -signal.SIGKILL, process.messages()
    assert len(numbers(kind, tmp_path, spark)) < COUNT
    pipeline(kind, tmp_path, topic, "available-now").run()
    assert numbers(kind, tmp_path, spark) == list(range(COUNT))


@pytest.mark.parametrize("kind", ["files", "delta", "files-native", "delta-native"])
@pytest.mark.parametrize("point", ["batch.written@2", "log.entry_written@5"])
def test_a_pipeline_that_stood_still_lands_nothing_after_a_newer_one(
    kind: str, point: str, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    with running(driver(kind, tmp_path, topic, f"{point}=stop")) as older:
        older.wait_until_stopped()
        pipeline(kind, tmp_path, topic, "available-now").run()
        assert numbers(kind, tmp_path, spark) == list(range(COUNT))
        older.go_on()
        assert older.wait() == FENCED, older.messages()
        assert "owned by a newer driver" in older.messages()
    assert numbers(kind, tmp_path, spark) == list(range(COUNT))


@pytest.mark.parametrize("kind", ["files", "files-native"])
@pytest.mark.parametrize("point", ["task.file_written", "task.staged"])
def test_a_worker_killed_with_its_file_half_reported_costs_a_batch_and_no_record(
    point: str, kind: str, topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    with running(driver(kind, tmp_path, topic, f"{point}=kill")) as process:
        process.wait_until_caught_up()
        process.process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "fired").exists(), "no worker was killed, so this proved nothing"
    assert numbers("files", tmp_path, spark) == list(range(COUNT))
