"""What it costs to look at pipelines: the command `offsets`, the page and its memory, metrics in a pipeline's way."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from figures import Figure, alternately, told
from publish import publish_values

import directkafka
from directkafka import Pipeline, SQLiteSink
from directkafka.monitoring.dashboard.board import Board, BoardPipeline
from directkafka.monitoring.dashboard.conditions import Limits, Observation
from directkafka.monitoring.http import Address
from directkafka.monitoring.http_server import HttpServer
from directkafka.operations.positions import PartitionPosition

__all__ = ["operate"]

_PARTITIONS = 1_000
_PIPELINES = 50
_BATCHES = 60
_BATCH_RECORDS = 2_000
_DAY_S = 86_400
_OBSERVED_EVERY_S = 5

_FILE = """
[pipeline]
name = "wide"
trigger = "available-now"
[source]
"kafka.bootstrap.servers" = "{servers}"
subscribe = "wide"
startingOffsets = "earliest"
[[sink]]
type = "sqlite"
path = "rows.db"
table = "rows"
"""


def operate(spark: Any, servers: str, *, repeat: int) -> list[Figure]:
    """Measure all of it.

    Args:
        spark: a session, in which pipelines run.
        servers: a broker.
        repeat: timed runs of each side.
    """
    return [*_offsets(servers, repeat), *_page(), _memory(), _metrics(servers, repeat)]


def _offsets(servers: str, repeat: int) -> Iterator[Figure]:
    """The command as an engineer runs it: a new process, a ledger in SQLite, Kafka asked for 1,000 partitions."""
    values = [b"%d" % number for number in range(20 * _PARTITIONS)]
    publish_values(servers, "wide", values, partitions=_PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
        file = Path(folder) / "wide.toml"
        file.write_text(_FILE.format(servers=servers).replace("rows.db", f"{folder}/rows.db"))
        command = [str(Path(sys.executable).with_name("directkafka")), "offsets", str(file), "--format", "json"]

        def run() -> None:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
            assert done.stdout.count("\n") == _PARTITIONS

        for what in ("never run", "all read"):
            if what == "all read":
                Pipeline.from_toml(file).run()
            seconds = alternately({what: run}, repeat, always_warm={what})[what]
            yield told(
                Figure(
                    name=f"directkafka offsets, {_PARTITIONS:,} partitions, {what}",
                    value=statistics.median(seconds),
                    unit="s",
                    required=2,
                    at_most=True,
                    detail=f"{min(seconds):.2f}-{max(seconds):.2f} s",
                )
            )


def _observation(at_s: int, partitions: int) -> Observation:
    return Observation(
        at_ms=at_s * 1_000,
        positions=tuple(
            PartitionPosition(
                topic="wide", partition=number, earliest=0, current=at_s, end=at_s + number, lag=number, lag_seconds=1.0
            )
            for number in range(partitions)
        ),
        batch_id=at_s,
        generation=1,
        committed_at_ms=at_s * 1_000,
        records=at_s,
        rows=at_s,
    )


class _Observer:
    """Observes what is given, without a look at anything."""

    def observe(self) -> Observation:
        return _observation(int(time.time()), _PARTITIONS // _PIPELINES)

    def close(self) -> None:
        pass


def _page() -> Iterator[Figure]:
    """The server's answers about 50 pipelines with 1,000 partitions in all, and a day of history."""
    server = HttpServer(Address(host="127.0.0.1", port=0), stalled_after_s=600)
    board: Board = server._board
    now_s = int(time.time())
    with server:
        for number in range(_PIPELINES):
            pipeline = BoardPipeline(f"pipeline-{number}", _Observer())
            for at_s in range(now_s - _DAY_S, now_s, 60):
                pipeline.add(_observation(at_s, _PARTITIONS // _PIPELINES), Limits(stalled_after_s=600))
            board._pipelines[pipeline.name] = pipeline
        for what, path in (("all pipelines", "pipelines"), ("one of them", "pipeline?name=pipeline-7")):
            milliseconds = sorted(_answer_ms(f"http://{server.address}/api/{path}") for _ in range(100))
            yield told(
                Figure(
                    name=f"the page's server, {_PIPELINES} pipelines, {_PARTITIONS:,} partitions: {what}",
                    value=milliseconds[94],
                    unit="ms",
                    required=100,
                    at_most=True,
                    detail=f"the 95th of 100 answers; median {milliseconds[49]:.1f} ms, slowest {milliseconds[-1]:.1f}",
                )
            )


def _answer_ms(url: str) -> float:
    begun = time.perf_counter()
    with urlopen(url, timeout=30) as answer:
        answer.read()
    return 1_000 * (time.perf_counter() - begun)


_DAY = f"""
import psutil, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from operate import day_of_history
before = psutil.Process().memory_info().rss
kept = day_of_history()
print(psutil.Process().memory_info().rss - before)
"""


def day_of_history() -> list[BoardPipeline]:
    """What a board keeps of 50 pipelines with 1,000 partitions in all after a day."""
    kept = [BoardPipeline(f"pipeline-{number}", _Observer()) for number in range(_PIPELINES)]
    limits = Limits(stalled_after_s=600)
    for pipeline in kept:
        for at_s in range(0, _DAY_S, _OBSERVED_EVERY_S):
            pipeline.add(_observation(at_s, _PARTITIONS // _PIPELINES), limits)
    return kept


def _memory() -> Figure:
    """In a process of its own, which has nothing else in it."""
    done = subprocess.run([sys.executable, "-c", _DAY], capture_output=True, text=True, check=True, timeout=1_200)
    return told(
        Figure(
            name=f"memory of a day's history, {_PIPELINES} pipelines, {_PARTITIONS:,} partitions, observed every "
            f"{_OBSERVED_EVERY_S} s",
            value=int(done.stdout) / 1e6,
            unit="MB",
            required=50,
            at_most=True,
        )
    )


@contextmanager
def _scraped() -> Iterator[None]:
    """Metrics that are asked for every second, and the page's look at lag."""
    ended = threading.Event()

    def scrape(url: str) -> None:
        while not ended.wait(1.0):
            with urlopen(url, timeout=30) as answer:
                answer.read()

    with directkafka.serve_http("127.0.0.1:0") as server:
        thread = threading.Thread(target=scrape, args=(f"http://{server.address}/metrics",))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _metrics(servers: str, repeat: int) -> Figure:
    """The time of small batches, with a server that is scraped every second and without."""
    values = [b"%d" % number for number in range(_BATCHES * _BATCH_RECORDS)]
    publish_values(servers, "scraped", values, partitions=4)

    def run() -> float:
        with tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder:
            source = {
                "kafka.bootstrap.servers": servers, "subscribe": "scraped", "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(_BATCH_RECORDS),
            }  # fmt: skip
            times: list[float] = []
            pipeline = Pipeline(
                "scraped", source=source, sinks=SQLiteSink(Path(folder) / "rows.db", "rows"), trigger="available-now",
                report=lambda report: times.append(time.perf_counter()),
            )  # fmt: skip
            pipeline.run()
            assert len(times) == _BATCHES
            return times[-1] - times[0]

    def watched() -> float:
        with _scraped():
            return run()

    runs: dict[str, Callable[[], float | None]] = {"alone": run, "scraped": watched}
    seconds = alternately(runs, repeat)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    detail = ", ".join(
        f"{name} {1_000 * medians[name] / (_BATCHES - 1):.1f} ms a batch "
        f"({1_000 * min(found) / (_BATCHES - 1):.1f}-{1_000 * max(found) / (_BATCHES - 1):.1f})"
        for name, found in seconds.items()
    )
    return told(
        Figure(
            name=f"time of batches of {_BATCH_RECORDS:,} records with metrics scraped every second, over without",
            value=medians["scraped"] / medians["alone"],
            unit="x",
            required=1.01,
            at_most=True,
            detail=detail,
        )
    )
