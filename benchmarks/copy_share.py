"""A native pipeline of JSON beside COPY alone: what share of the time is Postgres' own.

COPY alone is one statement in one transaction: it reads the same rows from a binary file that the server itself wrote.
The pipeline reads the records from Kafka, parses them, and commits rows and offsets of each batch in one transaction;
its start and its ledger are timed with it.

Where the rest of the time goes: COPY alone while another process keeps the other core busy, as the pipeline's tasks do;
the pipeline in batches four times as large; and the processor time of each kind of process for one record.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
from figures import Figure, alternately, console, ratio, told
from json_flights import TABLE, flights
from json_rows import BATCH, native
from peers import Table
from processor_time import processor_seconds
from publish import publish_values
from pyspark.sql import SparkSession

__all__ = ["copy_share"]

_TOPIC: Final = "copy-share"
_PARTITIONS: Final = 2
_TIMES_ROWS: Final = 4
_TIMES_BATCH: Final = 4
#: Of a kind of process that is told of; less is what happens to run beside.
_MICROSECONDS_MIN: Final = 0.01


def copy_share(spark: SparkSession, servers: str, dsn: str, *, rows: int, repeat: int) -> list[Figure]:
    """Four million rows of ten columns, unless ``rows`` says otherwise.

    Args:
        spark: running, so that pipelines find it warm.
    """
    count = _TIMES_ROWS * rows
    console.print(f"publishing {count:,} records of JSON")
    publish_values(servers, _TOPIC, flights(count), partitions=_PARTITIONS)
    table = Table(dsn, rows=count)
    table.make("file")
    native(servers, _TOPIC, dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
        file = Path(folder) / "copy-share.binary"
        connection.execute(f"COPY {TABLE} TO '{file}' (FORMAT binary)")
    used: dict[str, list[Counter[str]]] = {"ours": [], "COPY": []}
    seconds = alternately(
        {
            "ours": _counted(partial(native, servers, _TOPIC, dsn), used["ours"]),
            "in large batches": partial(native, servers, _TOPIC, dsn, batch=_TIMES_BATCH * BATCH),
            "COPY": _counted(partial(_copy, dsn, file), used["COPY"]),
            "COPY beside a busy core": partial(_copy_beside, dsn, file),
        },
        repeat,
        before=table.make,
        after=table.check,
    )
    name = "JSON to ten columns of Postgres, native: share of COPY alone"
    shares = [
        ratio(name, seconds, over="COPY", required=65, records=count, unit="%"),
        ratio(
            f"{name}, batches of {_TIMES_BATCH * BATCH:,}", seconds, over="COPY", required=None, records=count,
            unit="%", side="in large batches",
        ),
        ratio(
            f"{name} beside a busy core", seconds, over="COPY beside a busy core", required=None, records=count,
            unit="%",
        ),
    ]  # fmt: skip
    return [*shares, *_processor_times("native", used["ours"][-repeat:], count),
            *_processor_times("COPY alone", used["COPY"][-repeat:], count)]  # fmt: skip


def _counted(run: Callable[[], None], used: list[Counter[str]]) -> Callable[[], None]:
    """A run whose processor time by kind of process is added to a list."""

    def counted() -> None:
        before = processor_seconds()
        run()
        after = processor_seconds()
        used.append(Counter({kind: after[kind] - before[kind] for kind in after}))

    return counted


def _processor_times(side: str, runs: list[Counter[str]], records: int) -> list[Figure]:
    kinds = sorted({kind for run in runs for kind in run})
    medians = {kind: statistics.median(run[kind] for run in runs) * 1e6 / records for kind in kinds}
    return [
        told(Figure(name=f"processor time of {kind} for a record, {side}", value=micros, unit="us", required=None))
        for kind, micros in medians.items()
        if micros >= _MICROSECONDS_MIN
    ]


def _copy(dsn: str, file: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"COPY {TABLE} FROM '{file}' (FORMAT binary)")


def _copy_beside(dsn: str, file: Path) -> None:
    with _busy_core():
        _copy(dsn, file)


@contextmanager
def _busy_core() -> Iterator[None]:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
