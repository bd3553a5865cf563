"""A driver without Spark and Kafka: it owns a pipeline and commits batch after batch.

Batch n has the ids ``[10 n, 10 n + 10)``, written by two tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from directkafka.errors import DirectKafkaError
from directkafka.pipeline.retry import may_pass
from directkafka.sinks.delta.sink import DeltaSink
from directkafka.sinks.embedded.duckdb import DuckDBSink
from directkafka.sinks.embedded.sqlite import SQLiteSink
from directkafka.sinks.files import log
from directkafka.sinks.files.sink import ParquetSink
from directkafka.testing.store_driver import SCHEMA, Job

Kind = Literal["files", "delta", "delta-merge", "sqlite", "duckdb"]

ROWS = 10

#: Slots of a log's group here, so that a few batches pass checkpoints. It is a part of the format.
GROUP = 4

#: How long an embedded database's file is waited for.
LOCK_TIMEOUT_S = 1.0


def open_sink(kind: Kind, folder: Path, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Any:
    if kind in ("sqlite", "duckdb"):
        make = SQLiteSink if kind == "sqlite" else DuckDBSink
        folder.mkdir(exist_ok=True)
        return make(folder / f"flights.{kind}", "flights", inline_bytes_max=0, lock_timeout_s=lock_timeout_s)
    log.GROUP = GROUP  # type: ignore[misc]  # only tests change it, in every process alike
    if kind == "files":
        return ParquetSink(folder, durable=False)
    if kind == "delta-merge":
        return DeltaSink(folder, "merge", ["id"], ["flights"], durable=False)
    return DeltaSink(folder, durable=False)


def expected(batches: Iterable[int]) -> list[int]:
    return [number for batch in batches for number in range(ROWS * batch, ROWS * batch + ROWS)]


def run(sink: Any, until: int) -> Job:
    """Take the pipeline over, and commit what is missing up to batch ``until``."""
    sink.check(SCHEMA)
    job = Job(sink.store).start()
    while job.last is None or job.last.batch_id < until:
        batch = 0 if job.last is None else job.last.batch_id + 1
        ids = expected([batch])
        halves = (ids[: ROWS // 2], ids[ROWS // 2 :])
        try:
            job.run((sink, [[(number, batch) for number in half] for half in halves]))
        except DirectKafkaError as error:
            # As the engine does: a failure that may pass is answered by reading the ledger.
            if not may_pass(error):
                raise
            job.last = job.store.read(job.pipeline)
    return job


def write(kind: Kind, folder: Path, until: int) -> None:
    """What a driver does, to be run in a process of its own."""
    run(open_sink(kind, folder), until)
