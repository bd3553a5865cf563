"""What it costs to look at pipelines: the command `offsets`, the page and its memory, metrics in a pipeline's way."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from figures import Figure, alternately, told
from publish import publish_values

import directkafka
from directkafka import Pipeline, SQLiteSink
from directkafka.monitoring.address import Address
from directkafka.monitoring.dashboard.board import Board, BoardPipeline
from directkafka.monitoring.dashboard.conditions import Limits, Observation
from directkafka.monitoring.dashboard.observers import StatusObserver
from directkafka.monitoring.http_server import HttpServer
from directkafka.operations.positions import PartitionPosition
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.status import Step

__all__ = ["operate"]

_PARTITIONS = 1_000
_PIPELINES = 50
_BATCHES = 60
_BATCH_RECORDS = 2_000
_DAY_S = 86_400
_OBSERVED_EVERY_S = 5
_SCRAPED_EVERY_S = 15
#: An answer about lag is used again for a second.
_LAG_STALE_AFTER_S = 1.1

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
    # Metrics come before the wide pipeline, which every scrape after it shows as well.
    small = list(_metrics(servers))
    return [*_offsets(servers, repeat), *_page(), _memory(), *small, _wide_metrics()]


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


def _metrics(servers: str) -> Iterator[Figure]:
    """Processor time that metrics and the page take from the driver: too little to be seen in the time of a batch.

    A scrape is counted with the client's part, which is in the same process here.
    """
    values = [b"%d" % number for number in range(_BATCHES * _BATCH_RECORDS)]
    publish_values(servers, "scraped", values, partitions=4)
    source = {
        "kafka.bootstrap.servers": servers, "subscribe": "scraped", "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(_BATCH_RECORDS),
    }  # fmt: skip
    reports: list[BatchReport] = []
    with (
        tempfile.TemporaryDirectory(prefix="directkafka-bench-") as folder,
        directkafka.serve_http("127.0.0.1:0") as server,
    ):
        sink = SQLiteSink(Path(folder) / "rows.db", "rows")
        pipeline = Pipeline("scraped", source=source, sinks=sink, trigger="available-now", report=reports.append)
        pipeline.run()
        batch_ms = statistics.median(report.total_ms for report in reports)
        status, observer = pipeline.status, StatusObserver(pipeline.status)

        def tell() -> None:
            for step in (Step.PLAN, Step.WRITE, Step.COMMIT):
                status.at(step)
            status.committed(reports[-1], status.view.ends or {})

        told_ms = _processor_ms(tell, 5_000)
        scrape_ms = _scrape_ms(server)
        observed_ms = _processor_ms(observer.observe, 20, pause_s=_LAG_STALE_AFTER_S)
    yield _share(
        f"metrics, batches of {_BATCH_RECORDS:,} records from 4 partitions",
        told_ms / batch_ms + scrape_ms / (1_000 * _SCRAPED_EVERY_S),
        f"{1_000 * told_ms:.0f} us for each batch of {batch_ms:.0f} ms, {scrape_ms:.1f} ms for a scrape every "
        f"{_SCRAPED_EVERY_S} s",
    )
    yield _share(
        "the page, while somebody looks at it",
        observed_ms / (1_000 * _OBSERVED_EVERY_S),
        f"{observed_ms:.1f} ms every {_OBSERVED_EVERY_S} s",
    )


def _wide_metrics() -> Figure:
    """A scrape of a process that has the pipeline of 1,000 partitions, besides others."""
    with directkafka.serve_http("127.0.0.1:0") as server:
        scrape_ms = _scrape_ms(server)
    return _share(
        f"a scrape of {_PARTITIONS:,} partitions",
        scrape_ms / (1_000 * _SCRAPED_EVERY_S),
        f"{scrape_ms:.1f} ms every {_SCRAPED_EVERY_S} s",
    )


def _share(what: str, share: float, detail: str) -> Figure:
    name = f"share of the driver's time: {what}"
    return told(Figure(name=name, value=100 * share, unit="%", required=1, at_most=True, detail=detail))


def _scrape_ms(server: HttpServer) -> float:
    return _processor_ms(lambda: _answer_ms(f"http://{server.address}/metrics"), 20, pause_s=_LAG_STALE_AFTER_S)


def _processor_ms(call: Callable[[], object], times: int, *, pause_s: float = 0.0) -> float:
    """Milliseconds of processor time of this process that a call takes, with the same pause behind each.

    The first one, which imports and connects, is left out.
    """
    call()
    time.sleep(pause_s)
    begun = time.process_time()
    for _ in range(times):
        call()
        time.sleep(pause_s)
    return 1_000 * (time.process_time() - begun) / times
