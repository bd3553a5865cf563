"""A driver of the Kafka store without Spark, as a process that can be killed or stopped at each fault point.

It numbers records from 0, ten a batch, and gives each batch's rows to two tasks. A record's value has its number, its
batch, and the try of the batch that wrote it: so a reader can tell an aborted try from the committed one. Exit codes
are those of ``directkafka run``: 0 at the end, 3 when a newer driver owns the pipeline.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from directkafka.errors import FencedError
from directkafka.fault_points import fault_point
from directkafka.sinks.kafka.sink import KafkaSink
from directkafka.sinks.kafka.store import KafkaStore
from directkafka.testing.store_driver import Job

BATCH = 10
FENCED = 3
PIPELINE = "numbers"
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
WAIT_S = 120.0
#: Of a driver's transactions, unless a test is about it: longer than any test stops one.
TIMEOUT_MS = 60_000

_SPAWN = multiprocessing.get_context("forkserver")
_SPAWN.set_forkserver_preload([__name__])


def rows_of(first: int, count: int, batch_id: int, attempt: str) -> pa.RecordBatch:
    """The records ``[first, first + count)`` of a try of a batch."""
    numbers = range(first, first + count)
    values = [json.dumps({"number": one, "batch": batch_id, "attempt": attempt}).encode() for one in numbers]
    return pa.record_batch([[str(one).encode() for one in numbers], values], schema=SCHEMA)


def drive(servers: str, prefix: str, topic: str, count: int, *, staged: bool, timeout_ms: int) -> None:
    """Fence, read, and commit batches until ``count`` records are written."""
    params = {"bootstrap.servers": servers, "transaction.timeout.ms": timeout_ms}
    sink = KafkaSink(params, topic, inline_bytes_max=-1 if staged else 1 << 20, name_prefix=prefix)
    with closing(KafkaStore(params, name_prefix=prefix)) as store, closing(sink.store):
        fault_point("fence.before")
        job = Job(store, PIPELINE)
        job.generation = store.fence(PIPELINE)
        fault_point("fence.done")
        job.last = store.read(PIPELINE)
        fault_point("ledger.read")
        sink.prepare(SCHEMA)
        if job.last is None:
            fault_point("origin.planned")
            job.last = store.commit(job.next_entry(0), previous=None)
            fault_point("origin.committed")
        while (first := job.last.progress[0].end) < count:
            entry = job.next_entry(BATCH)
            batch = job.batch(entry)
            fault_point("batch.planned")
            tasks = [[rows_of(one, BATCH // 2, entry.batch_id, batch.attempt)] for one in (first, first + BATCH // 2)]
            writer = sink.task_writer(batch, SCHEMA)
            reports = job.finish(sink, batch, tasks, [writer(iter(task)) for task in tasks])
            fault_point("batch.written")
            job.last = store.commit(entry, previous=job.last, writes=[(sink, batch, reports)])
            print(json.dumps({"batch": entry.batch_id, "generation": job.generation}), flush=True)
            fault_point("batch.reported")


class KafkaDriver:
    """The driver as a process under test; forked from a server that has imported everything and opened nothing."""

    def __init__(
        self,
        servers: str,
        prefix: str,
        topic: str,
        count: int,
        *,
        staged: bool,
        folder: Path,
        faults: str = "",
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._log = folder / f"driver-{os.urandom(3).hex()}.log"
        arguments = (str(self._log), faults, servers, prefix, topic, count, staged, timeout_ms)
        self.process = _SPAWN.Process(target=_run, args=arguments, daemon=True)
        self.process.start()

    def wait(self) -> int | None:
        """Its exit code; minus the signal's number when a signal ended it."""
        self.process.join(WAIT_S)
        return self.process.exitcode

    def wait_until_stopped(self) -> None:
        """Wait until it has stopped itself with SIGSTOP."""
        deadline = time.monotonic() + WAIT_S
        with suppress(psutil.NoSuchProcess):
            while psutil.Process(self.process.pid).status() != psutil.STATUS_STOPPED:
                assert time.monotonic() < deadline, f"it neither stopped nor ended in {WAIT_S:g} s"
                time.sleep(0.02)
            return
        pytest.fail(f"it ended instead of stopping:\n{self.messages()}")

    def go_on(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def messages(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def clean_up(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()


@contextmanager
def running(driver: KafkaDriver) -> Iterator[KafkaDriver]:
    try:
        yield driver
    finally:
        driver.clean_up()


def _run(
    log: str, faults: str, servers: str, prefix: str, topic: str, count: int, staged: bool, timeout_ms: int
) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if faults:
        os.environ["DIRECTKAFKA_FAULTS"] = faults
    try:
        drive(servers, prefix, topic, count, staged=staged, timeout_ms=timeout_ms)
    except FencedError as error:
        print(error, flush=True)
        sys.exit(FENCED)


def value_of(record: Any) -> dict[str, Any]:
    """A record's value as the driver made it."""
    found: dict[str, Any] = json.loads(record.value)
    return found
