"""Pipelines as processes that can be killed, and the check of what they left behind.

Every record carries a number. After any crash the rule is the same: the table has exactly the records of the
ranges that the ledger says are done, each once, and the totals table agrees with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg
from confluent_kafka import Producer
from tests.waiting import until

PARTITIONS = 3
#: More than enough on two loaded cores; a process that needs it has hung.
PATIENCE_S = 300.0

#: What every pipeline file of these tests begins with.
HEAD = """
[pipeline]
name = "{name}"
trigger = "{trigger}"

[spark]
master = "{master}"
conf."spark.ui.enabled" = "false"
conf."spark.driver.bindAddress" = "127.0.0.1"
conf."spark.driver.host" = "127.0.0.1"
conf."spark.sql.warehouse.dir" = "{folder}/warehouse"
conf."spark.local.dir" = "{folder}/local"
# Executors in processes of their own are killed at the end, and would leave what their JVMs wrote to /tmp.
conf."spark.executor.extraJavaOptions" = "-XX:-UsePerfData -Djava.io.tmpdir={folder}"
conf."spark.sql.shuffle.partitions" = "2"

[source]
"kafka.bootstrap.servers" = "${{KAFKA}}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = {batch}
"""

#: Who carries the rows of a batch from the task that reads them to the one that writes them: Spark, or nobody.
CARRIERS = ("spark", "native")

#: A transform of the source alone, whose batches overlap.
NUMBERS = {
    "spark": "sql = 'SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source'",
    "native": 'arrow = "numbers_job:native_numbers"',
}

#: One with two outputs: the numbers, and what is to be added to their totals.
TOTALS = {"spark": 'python = "numbers_job:transform"', "native": 'arrow = "numbers_job:native_transform"'}

#: A store's sinks for the outputs of :data:`TOTALS`; ``address`` is its line of the pipeline file.
SINKS = """
[[sink]]
type = "{store}"
{address} = "${{DSN}}"
table = "records"
from = "records"
inline_bytes_max = {inline_bytes_max}

[[sink]]
type = "{store}"
{address} = "${{DSN}}"
table = "totals"
mode = "merge"
key = ["partition"]
add = ["records", "numbers"]
from = "totals"
"""

FILE = HEAD + "\n[transform]\n{transform}\n" + SINKS

#: The argument that says where a store is.
ADDRESSES = {"postgres": "dsn", "mysql": "dsn", "sqlite": "path", "duckdb": "path"}

JOB = """
import pyarrow as pa
import pyarrow.compute as pc


def native_numbers(batch):
    number = pc.cast(pc.cast(batch.column("value"), pa.string()), pa.int64())
    place = [batch.column(name) for name in ("topic", "partition", "offset")]
    return pa.RecordBatch.from_arrays([*place, number], ["topic", "partition", "offset", "number"])


def native_transform(batch):
    records = native_numbers(batch)
    ones = pa.array([1] * batch.num_rows, pa.int64())
    columns = [records.column("partition"), ones, records.column("number")]
    return {"records": records, "totals": pa.RecordBatch.from_arrays(columns, ["partition", "records", "numbers"])}


def transform(source):
    from pyspark.sql import functions as f

    records = source.select(
        "topic", "partition", "offset", f.col("value").cast("string").cast("long").alias("number")
    )
    totals = records.groupBy("partition").agg(f.count("*").alias("records"), f.sum("number").alias("numbers"))
    return {"records": records, "totals": totals}
"""


def produce_numbers(servers: str, topic: str, count: int, first: int = 0) -> None:
    """Produce the numbers ``[first, first + count)``, spread over the partitions."""
    producer = Producer({"bootstrap.servers": servers})
    for number in range(first, first + count):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@dataclass
class Job:
    """One pipeline file with the world it runs in."""

    folder: Path
    name: str
    kafka: str
    dsn: str
    topic: str
    batch: int = 100
    trigger: str = "100ms"
    master: str = "local[2]"
    #: 0 makes every task stage its rows.
    inline_bytes_max: int = 64 * 1024 * 1024
    environment: dict[str, str] = field(default_factory=dict)
    #: The structured engine's folder; None is the direct engine.
    checkpoint: Path | None = None
    #: More of Spark's settings.
    conf: Mapping[str, str] = field(default_factory=dict)
    #: One of :data:`CARRIERS`.
    carrier: str = "spark"
    #: One of :data:`ADDRESSES`; ``dsn`` is its address.
    store: str = "postgres"

    def write_file(self, *, trigger: str | None = None) -> Path:
        (self.folder / "numbers_job.py").write_text(JOB)
        path = self.folder / f"{self.name}-{trigger or self.trigger}.toml".replace("/", "_")
        text = FILE.format(
            name=self.name,
            trigger=trigger or self.trigger,
            master=self.master,
            folder=self.folder,
            topic=self.topic,
            batch=self.batch,
            inline_bytes_max=self.inline_bytes_max,
            transform=TOTALS[self.carrier],
            store=self.store,
            address=ADDRESSES[self.store],
        )
        if self.checkpoint is not None:
            text = text.replace("[spark]", f'engine = "structured"\ncheckpoint = "{self.checkpoint}"\n\n[spark]', 1)
        conf = "".join(f'conf."{name}" = "{value}"\n' for name, value in self.conf.items())
        path.write_text(text.replace("[source]", f"{conf}\n[source]", 1))
        return path

    def start(self, *, faults: str = "", **environment: str) -> PipelineProcess:
        """Run it as ``directkafka run`` in a process of its own."""
        world = {**os.environ, "SPARK_WORKER_DIR": str(self.folder / "work"), "KAFKA": self.kafka, "DSN": self.dsn}
        world |= {**self.environment, **environment}
        if faults:
            world["DIRECTKAFKA_FAULTS"] = faults
            world["DIRECTKAFKA_FAULTS_ONCE"] = str(self.folder / f"fired-{len(list(self.folder.iterdir()))}")
        return PipelineProcess(self.write_file(), world, self.folder)

    def run_in_process(self, monkeypatch: Any) -> None:
        """Run it to the end of what there is, in this process and its Spark."""
        from directkafka import Pipeline

        monkeypatch.setenv("KAFKA", self.kafka)
        monkeypatch.setenv("DSN", self.dsn)
        Pipeline.from_toml(self.write_file(trigger="available-now")).run()

    def state(self) -> State:
        """What the database says now."""
        return State.read(self.dsn, self.name)


class Watcher:
    """A reader of the database that looks again and again: it must never see a part of a batch, nor lose a row.

    Attributes:
        looks: how many times it has looked.
        problem: what it saw that may not be.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.looks = 0
        self.problem = ""

    def _look(self) -> None:
        before = 0
        try:
            while not self._is_over.wait(0.02):
                state = self._job.state()
                state.check()
                assert len(state.rows) >= before, "rows that were committed are gone"
                before = len(state.rows)
                self.looks += 1
        except Exception as error:  # noqa: BLE001 - told by the test
            self.problem = repr(error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


class PipelineProcess:
    """``directkafka run`` under test; its JVM is in the same process group and goes with it."""

    def __init__(
        self, file: Path, environment: Mapping[str, str], folder: Path, *, command: Sequence[str] = ()
    ) -> None:
        self.log = folder / f"{file.stem}-{os.urandom(3).hex()}.log"
        self._log = self.log.open("wb")
        self.process = subprocess.Popen(
            command or [sys.executable, "-m", "directkafka", "run", str(file), "--format", "json"],
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
        )
        self.reports: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Its exit code; minus the signal's number when a signal ended it."""
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def wait_until_stopped(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until it has stopped itself with SIGSTOP."""
        _, status = _waitpid(self.process.pid, os.WUNTRACED, timeout_s)
        assert os.WIFSTOPPED(status), f"ended with status {status} instead of stopping:\n{self.messages()}"

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def wait_for_batches(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        with self._news:
            enough = self._news.wait_for(
                lambda: len(self.reports) >= count or self.process.poll() is not None, timeout_s
            )
        assert enough, f"no {count} batches in {timeout_s} s:\n{self.messages()}"
        assert len(self.reports) >= count, f"ended after {len(self.reports)} batches:\n{self.messages()}"

    def wait_until_caught_up(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until a batch has left nothing for later ones."""
        with self._news:
            self._news.wait_for(
                lambda: any(report["backlog"] == 0 for report in self.reports) or self.process.poll() is not None,
                timeout_s,
            )
        assert any(report["backlog"] == 0 for report in self.reports), f"it did not catch up:\n{self.messages()}"

    def end_caught_up(self) -> None:
        """Wait until it has read all, and have it end."""
        self.wait_until_caught_up()
        self.process.send_signal(signal.SIGTERM)
        assert self.wait() == 0, self.messages()

    def messages(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def clean_up(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.reports.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()


def _waitpid(pid: int, options: int, timeout_s: float) -> tuple[int, int]:
    """``os.waitpid`` in a thread, so that a process that never stops does not hang the test."""
    statuses: list[tuple[int, int]] = []
    waiter = threading.Thread(target=lambda: statuses.append(os.waitpid(pid, options)), daemon=True)
    waiter.start()
    waiter.join(timeout_s)
    assert statuses, f"process {pid} neither stopped nor ended in {timeout_s} s"
    return statuses[0]


#: The first task of a local cluster has begun by then, also where the tests of a whole run start theirs beside it.
CLUSTER_START_S = 400.0


def wait_until_stopped_below(pid: int) -> psutil.Process:
    """Wait for a process under this one that is stopped."""
    process: psutil.Process = until(lambda: _stopped_below(pid), "no worker stood still", CLUSTER_START_S)
    return process


def executor_above(worker: psutil.Process) -> psutil.Process:
    """The executor of a local cluster that has started a Python worker."""
    return next(
        process for process in worker.parents() if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    )


def _stopped_below(pid: int) -> psutil.Process | None:
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if child.status() == psutil.STATUS_STOPPED:
                return child
        except psutil.NoSuchProcess:
            continue
    return None


@dataclass(frozen=True)
class State:
    """The tables and the ledger at one moment, read in one snapshot."""

    rows: list[tuple[str, int, int, int]]
    totals: dict[int, tuple[int, int]]
    ledger: dict[str, Any] | None
    staging: list[str]

    @classmethod
    def read(cls, dsn: str, pipeline: str) -> State:
        with psycopg.connect(dsn) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            tables = {name for (name,) in connection.execute("SELECT relname::text FROM pg_class WHERE relkind = 'r'")}

            def select(table: str, query: str) -> list[Any]:
                return connection.execute(query).fetchall() if table in tables else []  # type: ignore[call-overload]

            entries = select(
                "directkafka_ledger",
                "SELECT lineage, batch_id, generation, progress, total_rows FROM directkafka_ledger "
                f"WHERE pipeline = '{pipeline}' AND batch_id >= 0",
            )
            names = ("lineage", "batch_id", "generation", "progress", "total_rows")
            return cls(
                rows=sorted(select("records", 'SELECT topic, partition, "offset", number FROM records')),
                totals={
                    partition: (int(records), int(numbers))
                    for partition, records, numbers in select("totals", "SELECT * FROM totals")
                },
                ledger=dict(zip(names, entries[0], strict=True)) if entries else None,
                staging=sorted(name for name in tables if name.startswith("directkafka_stage")),
            )

    def check(self) -> None:
        """Rows are exactly the records that the ledger says are done, each once, and totals agree."""
        progress = self.ledger["progress"] if self.ledger else []
        expected = [
            (partition_progress["topic"], partition_progress["partition"], offset)
            for partition_progress in progress
            for offset in range(partition_progress["origin"], partition_progress["end"])
        ]
        assert [row[:3] for row in self.rows] == sorted(expected)
        totals: dict[int, tuple[int, int]] = {}
        for _, partition, _, number in self.rows:
            records, numbers = totals.get(partition, (0, 0))
            totals[partition] = (records + 1, numbers + number)
        assert self.totals == totals

    def check_complete(self, count: int) -> None:
        """Also: all the records are there, and nothing is left over."""
        self.check()
        assert sorted(row[3] for row in self.rows) == list(range(count))
        assert self.staging == []
