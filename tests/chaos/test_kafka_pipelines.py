"""A pipeline from Kafka to Kafka whose executors are processes of their own, and die."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.chaos.pipelines import HEAD, PARTITIONS, PATIENCE_S, PipelineProcess, produce_numbers
from tests.contract.kafka_harness import read_committed, still_open, wait_until_stable
from tests.processes import running

from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 300

FILE = (
    HEAD
    + """
[transform]
sql = "SELECT value AS key, value FROM source"

[[sink]]
type = "kafka"
"kafka.bootstrap.servers" = "${{KAFKA}}"
topic = "{target}"
inline_bytes_max = 0
"""
)


def stopped_worker(driver: psutil.Process) -> psutil.Process:
    """The Python worker that has stopped itself, once there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(psutil.NoSuchProcess):
            for child in driver.children(recursive=True):
                if child.status() == psutil.STATUS_STOPPED:
                    return child
        time.sleep(0.05)
    raise AssertionError("no worker has stopped")


def executor_of(worker: psutil.Process) -> psutil.Process:
    return next(
        process for process in worker.parents() if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    )


def test_an_executor_killed_after_a_task_wrote_its_rows_costs_a_batch_and_no_record(
    kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The task's rows are acknowledged when it dies with its executor, and its worker lives on for a moment."""
    servers, source, target = kafka_broker.bootstrap_servers, create_topic(PARTITIONS), create_topic(PARTITIONS)
    produce_numbers(servers, source, COUNT)
    name = f"lost-{target[-8:]}"
    file = tmp_path / "job.toml"
    file.write_text(
        FILE.format(
            name=name, trigger="available-now", master="local-cluster[2,1,1024]", folder=tmp_path, topic=source,
            batch=100, target=target,
        )
    )  # fmt: skip
    faults = {"DIRECTKAFKA_FAULTS": "task.flushed=stop", "DIRECTKAFKA_FAULTS_ONCE": str(tmp_path / "fired")}
    with running(PipelineProcess(file, {**os.environ, "KAFKA": servers, **faults}, tmp_path)) as driver:
        worker = stopped_worker(psutil.Process(driver.process.pid))
        executor = executor_of(worker)
        executor.kill()
        with suppress(psutil.NoSuchProcess):
            worker.resume()
        assert driver.wait() == 0, driver.messages()
    wait_until_stable(servers, target)
    numbers = sorted(int(record.value) for record in read_committed(servers, target))
    assert numbers == list(range(COUNT))
    assert still_open(servers, f"directkafka.{name}") == []
