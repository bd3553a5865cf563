"""Frames that are kept while two attempts of one task run side by side, run by test_two_attempts.py.

Arguments: a folder. One shuffle lies below the frame. Of its three tasks, on two executors of one core, the first one
waits; the second one takes the shuffle's files away, so that the third one finds none and Spark begins the stage anew,
while the first task runs on. It ends when its other attempt has stored a block: before the job is over, or after.
Prints for each of the two what became of the frame, and how many versions of it readers saw.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from tests.chaos.local_cluster import local_cluster
from tests.waiting import until

from directkafka.errors import WorkerLostError
from directkafka.pipeline.execution.kept import Keeper
from directkafka.spark.dataframe import map_in_arrow

READS = 10


class Doubled:
    """For ``mapInArrow``: gives the partition and something else whenever it runs.

    Args:
        files: where tasks and driver tell each other how far they are.
        spark_files: where executors have their files.
        is_late: whether the job may end before the first attempt.
    """

    def __init__(self, files: str, spark_files: str, *, is_late: bool) -> None:
        self.files, self.spark_files, self.is_late = files, spark_files, is_late

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, files = TaskContext.get().partitionId(), Path(self.files)
        list(batches)  # what the shuffle has for this task, to the end
        if self.is_first(files / "straggler"):
            (files / f"straggler-{partition}").touch()
            (files / "began").touch()
            self.wait_for(files / "straggler-may-end")
        elif (files / f"straggler-{partition}").exists():
            pass
        elif self.is_first(files / "breaker"):
            self.wait_for(files / "began")
            for path in Path(self.spark_files).rglob("shuffle_*"):
                path.unlink(missing_ok=True)
        elif not self.is_late:
            self.wait_for(files / "both-stored")
        yield pa.record_batch({"number": pa.array([partition]), "chance": pa.array([uuid.uuid4().hex])})

    @staticmethod
    def is_first(path: Path) -> bool:
        with suppress(FileExistsError):
            path.touch(exist_ok=False)
            return True
        return False

    @staticmethod
    def wait_for(path: Path) -> None:
        deadline = time.monotonic() + 60
        while not path.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(path.name)
            time.sleep(0.02)


class Watcher(threading.Thread):
    """Lets tasks go on when Spark's driver knows of the blocks that they wait for."""

    def __init__(self, spark: SparkSession, files: Path, *, is_late: bool) -> None:
        super().__init__(daemon=True)
        self.context: Any = spark.sparkContext
        self.files, self.is_late = files, is_late
        self.before = self.rdds()

    def rdds(self) -> set[int]:
        return {int(number) for number in self.context._jsc.getPersistentRDDs()}

    def copies(self) -> int:
        """Blocks of the straggler's partition."""
        [straggler] = self.files.glob("straggler-[0-9]")
        partition = straggler.name.rpartition("-")[2]
        return max((self.locations(number, int(partition)) for number in self.rdds() - self.before), default=0)

    def locations(self, number: int, partition: int) -> int:
        storage = self.context._jvm.org.apache.spark.storage
        block_ids = self.context._gateway.new_array(storage.BlockId, 1)
        block_ids[0] = storage.RDDBlockId(number, partition)
        told = storage.BlockManager.blockIdsToLocations(block_ids, self.context._jsc.sc().env(), None)
        return str(told.mkString(" ")).count("executor_")

    def run(self) -> None:
        if self.is_late:
            return
        until((self.files / "began").exists, "no task began")
        until(lambda: self.copies() == 1, "the second attempt stored nothing")
        (self.files / "straggler-may-end").touch()
        until(lambda: self.copies() == 2, "the first attempt stored nothing")
        (self.files / "both-stored").touch()


def running(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.taskScheduler().rootPool().runningTasks())


def versions(kept: DataFrame) -> int:
    """How many different rows readers on all executors saw for one partition."""
    chances: dict[int, set[str]] = {}
    for number, chance in reduce(DataFrame.union, [kept] * READS).collect():
        chances.setdefault(number, set()).add(chance)
    return max(map(len, chances.values()))


def keep(spark: SparkSession, folder: Path, *, is_late: bool) -> dict[str, Any]:
    files = folder / ("late" if is_late else "both")
    files.mkdir()
    dealt = spark.range(300).repartition(3)
    frame = map_in_arrow(dealt, Doubled(str(files), str(folder), is_late=is_late), "number long, chance string")
    watcher = Watcher(spark, files, is_late=is_late)
    watcher.start()
    with ExitStack() as until_end:
        keeper = Keeper(until_end)
        try:
            kept = keeper.keep(frame)
        except WorkerLostError as error:
            watcher.join()
            return {"error": error.cause}
        left = running(spark)
        (files / "straggler-may-end").touch()
        until(lambda: running(spark) == 0, "an attempt does not end")
        outcome = {"left": left, "versions": versions(kept)}
        keeper.check()
        return outcome


def main(folder: str) -> None:
    # Spark's own guard, which 4.2 does not have.
    guard = os.environ.get("GUARD", "false")
    spark = local_cluster(folder, spark__checkpoint__local__verifyChecksum__enabled=guard)
    outcomes = {name: keep(spark, Path(folder), is_late=name == "late") for name in ("both", "late")}
    print(json.dumps(outcomes), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
