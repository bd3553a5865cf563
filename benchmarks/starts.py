"""A pipeline's start: `directkafka run` of one batch of ten records, beside a Spark that counts ten numbers.

The difference is what the library adds to Spark's own start. A third run shows how much of Spark's own start can be
saved: its JVM takes Spark's classes from an archive (class data sharing, JEP 350), and need not parse and verify them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
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

#: Words of a line that is printed, and the name of the part of the run that is over when it is.
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
    """Compare a run of one batch of ten records with a Spark alone, and with a run that uses an archive of classes.

    Each run is timed from its process's start to its end. The seconds of its parts are printed.
    """
    publish_values(servers, "ten", [b"%d" % number for number in range(10)], partitions=1)
    pipeline = [str(Path(sys.executable).with_name("directkafka")), "run", "ten.toml"]
    bare = [sys.executable, "-c", _BARE]
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        archive = Path(folder) / "spark.jsa"
        _seconds(pipeline, servers, f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable")
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
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, parts_of_runs in parts.items():
        shares = {part: statistics.median(run.get(part, 0.0) for run in parts_of_runs) for part in parts_of_runs[0]}
        console.print(f"{name}: " + ", ".join(f"{part} {share:.2f} s" for part, share in shares.items()))
    detail = ", ".join(
        f"{name} {medians[name]:.2f} s ({min(times):.2f}-{max(times):.2f})" for name, times in seconds.items()
    )
    return [
        told(
            Figure(
                name="time of a run of one batch of ten records, over that of a Spark that counts ten numbers",
                value=medians["a pipeline"] / medians["bare"],
                unit="x",
                required=None,
                detail=detail,
            )
        ),
        told(
            Figure(
                name=f"time of that run with Spark's classes from an archive ({size_mb:.0f} MB), over its time without",
                value=medians["a pipeline, archive"] / medians["a pipeline"],
                unit="x",
                required=None,
                detail=detail,
            )
        ),
    ]


def _wait_for_jvm(options: str) -> None:
    """Wait for the JVM that was started with these options: it ends after its driver, and is no child of this process.

    Args:
        options: a part of its command line.
    """
    processes = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(options in word for word in process.info["cmdline"] or ())
    ]
    _, alive = psutil.wait_procs(processes, _TIMEOUT_S)
    assert not alive, f"the JVM does not end: {alive}"


def _seconds(command: list[str], servers: str, jvm_options: str) -> dict[str, float]:
    """Run a program in a folder of its own.

    Returns:
        The seconds of each part of ``_PARTS``, and of what came after the last one, until the program's end.
    """
    run = f"-Ddirectkafka.run={time.monotonic_ns()}"
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {jvm_options} {run}".strip()
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        Path(folder, "ten.toml").write_text(_FILE.format(servers=servers))
        begun = time.perf_counter()
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "SPARK_SUBMIT_OPTS": options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            lines: list[tuple[float, str]] = []
            # Not until the pipe's end: a JVM that has inherited it may end later than the program.
            reading = threading.Thread(target=_read_lines, args=(process, lines))
            reading.start()
            try:
                code = process.wait(_TIMEOUT_S)
                ended = time.perf_counter()
            finally:
                process.kill()
                # Nothing of this run may take time from the next one.
                _wait_for_jvm(run)
                reading.join()
        assert code == 0, "".join(line for _, line in lines)
    taken: dict[str, float] = {}
    last = begun
    for at, line in lines:
        for words, part in _PARTS.items():
            if words in line:
                taken[part] = taken.get(part, 0.0) + at - last
                last = at
    taken["the end"] = ended - last
    return taken


def _read_lines(process: subprocess.Popen[str], lines: list[tuple[float, str]]) -> None:
    """Keep each line that a program prints, and when it came."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.append((time.perf_counter(), line))
