"""A pipeline's start: `directkafka run` of one batch of ten records, beside a Spark that counts ten numbers.

What the library adds to Spark's own start is the difference. What could go of Spark's own is measured too: a JVM that
has Spark's classes from an archive (class data sharing, JEP 350) loads and verifies none.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psutil
from figures import Figure, alternately, console, told
from publish import publish_values

__all__ = ["starts"]

_TIMEOUT_S = 300

_FILE = """
[pipeline]
name = "ten"
trigger = "available-now"
[source]
"kafka.bootstrap.servers" = "{servers}"
subscribe = "ten"
startingOffsets = "earliest"
[transform]
sql = "SELECT topic, partition, offset, string(value) AS text FROM source"
[[sink]]
type = "sqlite"
path = "rows.db"
table = "rows"
"""

#: With the settings of ``directkafka run`` that count for its start, and a task in a Python worker.
_BARE = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR").getOrCreate()
print("Spark runs", flush=True)
assert spark.sparkContext.parallelize(range(10), 2).map(str).count() == 10
print("a task in Python has run", flush=True)
spark.stop()
"""

#: What a line says, and the name of the part that ends with it.
_PARTS = {
    "starting Spark": "Python and its imports",
    "Spark runs": "Python and the JVM",
    " runs after ": "the JVM",
    "the executors answered": "the first job, in Python workers",
    "a task in Python has run": "the first job, in Python workers",
    " starts at ": "topics, tables and ledger",
    " batch 1: ": "the batch",
}


def starts(servers: str, *, repeat: int) -> list[Figure]:
    """Seconds of one batch of ten records, from the process's start to its end, and what they are made of."""
    publish_values(servers, "ten", [b"%d" % number for number in range(10)], partitions=1)
    pipeline = [str(Path(sys.executable).with_name("directkafka")), "run", "ten.toml"]
    bare = [sys.executable, "-c", _BARE]
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        archive = Path(folder) / "spark.jsa"
        _seconds(pipeline, servers, f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable")
        _wait_for_jvm(archive)
        size_mb = archive.stat().st_size / 1e6
        archived = f"-XX:SharedArchiveFile={archive}"
        sides = {"a pipeline": (pipeline, ""), "bare": (bare, ""), "a pipeline, archive": (pipeline, archived)}
        parts: dict[str, list[Mapping[str, float]]] = {name: [] for name in sides}

        def timed(name: str) -> float:
            command, jvm_options = sides[name]
            parts[name].append(_seconds(command, servers, jvm_options))
            return sum(parts[name][-1].values())

        runs = {name: partial(timed, name) for name in sides}
        seconds = alternately(runs, repeat, always_warm=set(sides))
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    for name, found in parts.items():
        shares = {part: statistics.median(run.get(part, 0.0) for run in found) for part in found[0]}
        console.print(f"{name}: " + ", ".join(f"{part} {share:.2f} s" for part, share in shares.items()))
    detail = ", ".join(
        f"{name} {medians[name]:.2f} s ({min(found):.2f}-{max(found):.2f})" for name, found in seconds.items()
    )
    return [
        told(
            Figure(
                name="one batch of ten records, start to end, of the time of a Spark that counts ten numbers",
                value=medians["a pipeline"] / medians["bare"],
                unit="x",
                required=None,
                detail=detail,
            )
        ),
        told(
            Figure(
                name=f"the same with Spark's classes from an archive of {size_mb:.0f} MB, of the time without",
                value=medians["a pipeline, archive"] / medians["a pipeline"],
                unit="x",
                required=None,
                detail=detail,
            )
        ),
    ]


def _wait_for_jvm(archive: Path) -> None:
    """Wait for the JVM that writes the archive: it does so when its driver is gone, and no pipe or child tells."""
    writers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(archive) in word for word in process.info["cmdline"] or ())
    ]
    _, alive = psutil.wait_procs(writers, _TIMEOUT_S)
    assert not alive, f"the JVM does not end: {alive}"


def _seconds(command: list[str], servers: str, jvm_options: str) -> dict[str, float]:
    """Run a program in a folder of its own; the seconds of each part that its lines end, and of the rest."""
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {jvm_options}".strip()
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        Path(folder, "ten.toml").write_text(_FILE.format(servers=servers))
        last = time.perf_counter()
        # The JVM inherits the pipe: its end is the JVM's.
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "SPARK_SUBMIT_OPTS": options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            taken: dict[str, float] = {}
            said = []
            for line in process.stdout:
                said.append(line)
                now = time.perf_counter()
                for words, part in _PARTS.items():
                    if words in line:
                        taken[part] = taken.get(part, 0.0) + now - last
                        last = now
            code = process.wait(_TIMEOUT_S)
        assert code == 0, "".join(said)
    taken["the end"] = time.perf_counter() - last
    return taken
