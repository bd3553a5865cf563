"""The pipeline's process: started, watched, killed, started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from soak.world import COPIES, TOPIC, World

__all__ = ["PIPELINE", "STORES", "Driver", "write_pipeline"]

PIPELINE = "soak"

#: The stores of the pipeline, in the order in which they commit, as the audit names them.
STORES = ("postgres", "kafka", "duckdb", "sqlite")

_FILE = """
[pipeline]
name = "{pipeline}"
trigger = "{trigger}"

[spark]
master = "{master}"
conf."spark.ui.enabled" = "false"
conf."spark.driver.bindAddress" = "127.0.0.1"
conf."spark.driver.host" = "127.0.0.1"
conf."spark.sql.warehouse.dir" = "{folder}/warehouse"
conf."spark.local.dir" = "{folder}/local"
conf."spark.executor.extraJavaOptions" = "-XX:-UsePerfData -Djava.io.tmpdir={folder}"
conf."spark.sql.shuffle.partitions" = "2"
# A worker that is killed fails its task; a lost executor fails several.
conf."spark.task.maxFailures" = "8"

[source]
"kafka.bootstrap.servers" = "{servers}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = {batch}

[transform]
python = "soak_transform:transform"

[[sink]]
type = "postgres"
dsn = "{dsn}"
table = "records"
from = "records"
inline_bytes_max = {inline_bytes_max}

[[sink]]
type = "postgres"
dsn = "{dsn}"
table = "totals"
mode = "merge"
key = ["partition"]
add = ["records", "numbers"]
from = "totals"

[[sink]]
type = "kafka"
"kafka.bootstrap.servers" = "{servers}"
topic = "{copies}"
from = "copies"
inline_bytes_max = {inline_bytes_max}

[[sink]]
type = "duckdb"
path = "{folder}/soak.duckdb"
table = "records"
from = "records"

[[sink]]
type = "sqlite"
path = "{folder}/soak.sqlite"
table = "records"
from = "records"
"""

_TRANSFORM = """
from pyspark.sql import functions as f


def transform(source):
    records = source.select(
        "topic", "partition", "offset", f.col("value").cast("string").cast("long").alias("number")
    )
    totals = records.groupBy("partition").agg(f.count("*").alias("records"), f.sum("number").alias("numbers"))
    text = f.concat_ws(",", "partition", "offset", "number").alias("value")
    return {"records": records, "totals": totals, "copies": records.select(text)}
"""

#: Forked by Spark for Python code: their parent is one of these.
_WORKER = "worker_daemon"
_EXECUTOR = "CoarseGrainedExecutorBackend"


def write_pipeline(world: World, *, name: str, **values: object) -> Path:
    """A pipeline file with the transform's module beside it.

    Args:
        world: whose servers it uses.
        name: of the file.
        values: ``trigger``, ``master``, ``batch``, ``inline_bytes_max`` where they are not the usual ones.
    """
    (world.folder / "soak_transform.py").write_text(_TRANSFORM)
    usual = {"trigger": "50ms", "master": "local[2]", "batch": 400, "inline_bytes_max": 64 * 1024 * 1024}
    path = world.folder / f"{name}.toml"
    path.write_text(
        _FILE.format(
            pipeline=PIPELINE, topic=TOPIC, copies=COPIES, servers=world.kafka.bootstrap_servers,
            dsn=world.dsn, folder=world.folder, **(usual | values),
        )
    )  # fmt: skip
    return path


class Driver:
    """``directkafka run`` in a process group of its own.

    Args:
        file: the pipeline file.
        folder: for its log.
        number: of this life.
        faults: armed fault points.
    """

    def __init__(self, file: Path, folder: Path, *, number: int, faults: str = "") -> None:
        self.number = number
        self.batches = 0
        self._log = (folder / f"driver-{number}.log").open("wb")
        environment = dict(os.environ)
        if faults:
            environment |= {"DIRECTKAFKA_FAULTS": faults, "DIRECTKAFKA_FAULTS_ONCE": str(folder / f"fired-{number}")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "directkafka", "run", str(file), "--format", "json"],
            env=environment, stdout=subprocess.PIPE, stderr=self._log, stdin=subprocess.DEVNULL, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended; one that is stopped runs."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Minus the signal's number when a signal ended it; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None when it runs on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self.exit_code

    def wait_for_batches(self, count: int, timeout_s: float) -> bool:
        """Whether it has committed so many batches in time."""
        deadline = time.monotonic() + timeout_s
        while self.batches < count and self.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.batches >= count

    def kill(self) -> None:
        """SIGKILL to the driver, and to its JVM, which would notice only later."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """A signal to the driver alone."""
        self._process.send_signal(number)

    def workers(self) -> list[psutil.Process]:
        """Spark's Python workers, of the executors too."""
        workers = self._descendants(_WORKER)
        daemons = {worker.pid for worker in workers}
        return [worker for worker in workers if _parent(worker) in daemons]

    def executors(self) -> list[psutil.Process]:
        """Executors in processes of their own."""
        return self._descendants(_EXECUTOR)

    def messages(self) -> str:
        """The end of its log."""
        return Path(self._log.name).read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """End it, however it stands."""
        self.kill()
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def _descendants(self, part: str) -> list[psutil.Process]:
        processes = []
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if any(part in argument for argument in process.cmdline()):
                        processes.append(process)
        return processes

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):
                report: dict[str, Any] = json.loads(line)
                self.batches += "batch_id" in report


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.Error:
        return 0
