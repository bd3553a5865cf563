"""A shuffle that loses its files while it is read, run by test_dealt_again.py.

Its rows go to another task each time they are dealt, and Spark is not told so. Of the three tasks that read it, one
takes the files away when it has its rows, so that a later one finds none and Spark deals again.

Arguments: a folder; whether Spark plans adaptively; whether it compares what is dealt again, as a pipeline's session
has it. Prints how many rows came, how many different ones, and the error if there was one.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from tests.chaos.local_cluster import local_cluster

from directkafka.errors import WorkerLostError
from directkafka.pipeline.execution.executor_errors import job_errors
from directkafka.pipeline.execution.session import session_for
from directkafka.spark.dataframe import map_in_arrow

ROWS = 3_000
COLUMNS = "number long, share int"


def dealt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: numbers, each with the task that it goes to this time."""
    for batch in batches:
        shares = [random.randrange(3) for _ in range(batch.num_rows)]
        yield pa.record_batch({"number": batch.column("id"), "share": pa.array(shares, pa.int32())})


class TakeFilesAway:
    """For ``mapInArrow``: the first task to have all its rows removes the shuffle's files.

    Args:
        spark_files: where executors have their files.
    """

    def __init__(self, spark_files: str) -> None:
        self.spark_files = spark_files

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        with suppress(FileExistsError):
            Path(self.spark_files, "taken-away").touch(exist_ok=False)
            for path in Path(self.spark_files).rglob("shuffle_*"):
                path.unlink(missing_ok=True)
        yield from rows


def main(folder: str, is_adaptive: str, is_compared: str) -> None:
    spark = local_cluster(folder, executors=1)
    session = session_for("dealt again", master="", conf={})
    session.conf.set("spark.sql.adaptive.enabled", is_adaptive)
    if is_compared == "false":
        session.conf.set("spark.sql.shuffle.orderIndependentChecksum.enabled", "false")
        session.conf.set("spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch", "false")
    frame = map_in_arrow(session.range(0, ROWS, 1, 2), dealt, COLUMNS).repartition(3, "share")
    try:
        with job_errors():
            numbers = map_in_arrow(frame, TakeFilesAway(folder), COLUMNS).toArrow().column("number").to_pylist()
    except WorkerLostError as error:
        print(json.dumps({"lost": error.cause}), flush=True)
    else:
        print(json.dumps({"rows": len(numbers), "different": len(set(numbers))}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
