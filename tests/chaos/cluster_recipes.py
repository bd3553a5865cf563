"""The delivery recipes on two executors that are processes of their own, one recipe after the other on one context.

Run by ``test_delivery_on_a_cluster.py``, since a process has one SparkContext. Argument: a JSON object with Spark's
master, the brokers' addresses, a connection string, a folder, and a topic by recipe. A line of JSON tells how each
recipe ended. Each has its rows in the table ``output`` or ``doubled``, and every attempt of a task in ``attempts``, so
that a test sees what happened.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from pyspark import RDD, SparkConf, SparkContext, TaskContext
from pyspark.streaming import StreamingContext

import directkafka as dk

HOST = "127.0.0.1"
INTERVAL_S = 0.5
TIMEOUT_S = 240.0
#: Of each recipe's topic.
PARTITIONS, RECORDS = 2, 40
INSERT = "INSERT INTO output VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
INSERT_AGAIN = "INSERT INTO doubled VALUES (%s, %s, %s)"


@dataclass(frozen=True)
class Job:
    """One recipe's world; travels to executors."""

    recipe: str
    kafka: str
    topic: str
    dsn: str
    folder: str

    @property
    def partitions(self) -> list[dk.TopicPartition]:
        return [dk.TopicPartition(self.topic, number) for number in range(PARTITIONS)]

    @property
    def store(self) -> dk.OffsetStore:
        return dk.OffsetStore(self.dsn, self.recipe)

    def params(self, **settings: str) -> dict[str, str]:
        return {"bootstrap.servers": self.kafka, "auto.offset.reset": "earliest", **settings}

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.dsn)

    def count(self, table: str) -> int:
        """How many different records a table has of this recipe."""
        statement = f"SELECT count(DISTINCT (partition, kafka_offset)) FROM {table} WHERE recipe = %s"
        with self.connect() as connection:
            row = connection.execute(statement, [self.recipe]).fetchone()  # type: ignore[call-overload]
        return int(row[0])

    def is_whole(self, table: str = "output") -> bool:
        return self.count(table) == PARTITIONS * RECORDS

    def write(
        self, connection: psycopg.Connection[tuple[object, ...]], records: Iterable[dk.ConsumerRecord], statement: str
    ) -> int:
        """Insert records; how many there were."""
        rows = [(self.recipe, record.partition, record.offset) for record in records]
        connection.cursor().executemany(statement, rows)
        return len(rows)

    def note_attempt(self) -> int:
        """Keep that this attempt of a task began; its number."""
        task = TaskContext.get()
        assert task is not None
        with self.connect() as connection:
            values = (self.recipe, task.partitionId(), task.attemptNumber())
            connection.execute("INSERT INTO attempts VALUES (%s, %s, %s)", values)
        return task.attemptNumber()

    def is_first(self, what: str) -> bool:
        """Whether this has not happened before, on any executor."""
        try:
            os.close(os.open(Path(self.folder) / f"{self.recipe}-{what}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def lose_executor() -> None:
    """End the executor that runs this task, as a machine that is switched off."""
    import psutil

    executor = next(process for process in psutil.Process().parents() if "java" in process.name())
    executor.kill()
    os.kill(os.getpid(), signal.SIGKILL)


# What each recipe does with a partition, on an executor.


def write_at_most_once(job: Job, number: int, records: Iterable[dk.ConsumerRecord]) -> Iterator[int]:
    if job.note_attempt() > 0:
        raise RuntimeError("the first attempt may have written these records already")
    with job.connect() as connection:
        rows = job.write(connection, records, INSERT_AGAIN)
    if rows and job.is_first("loss"):
        lose_executor()
    yield rows


def write_at_least_once(job: Job, number: int, records: Iterable[dk.ConsumerRecord]) -> Iterator[int]:
    job.note_attempt()
    with job.connect() as connection:
        rows = job.write(connection, records, INSERT_AGAIN)
    if rows and job.is_first("loss"):
        lose_executor()
    yield rows


def write_idempotently(job: Job, number: int, records: Iterable[dk.ConsumerRecord]) -> Iterator[int]:
    job.note_attempt()
    with job.connect() as connection:
        rows = job.write(connection, records, INSERT)
    if rows and job.is_first("failure"):
        raise RuntimeError("fails after its commit")
    yield rows


def write_with_a_straggler(job: Job, number: int, records: Iterable[dk.ConsumerRecord]) -> Iterator[int]:
    """The first attempt of one partition has its records and writes none until another one of it has committed.

    With its rows written and not committed it would be waited for: Postgres lets nobody pass who inserts the same key.
    """
    attempt, all_records = job.note_attempt(), list(records)
    if all_records and attempt == 0 and number == 0 and job.is_first("straggler"):
        deadline = time.monotonic() + TIMEOUT_S
        while not (Path(job.folder) / f"{job.recipe}-overtaken").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    with job.connect() as connection:
        rows = job.write(connection, all_records, INSERT)
    if attempt > 0:
        job.is_first("overtaken")
    yield rows


# The recipes, on the driver.


def by_partition(job: Job, write: Callable[..., Iterator[int]]) -> Callable[[RDD[Any]], None]:
    """An output that runs this on each partition."""
    return lambda rdd: rdd.mapPartitionsWithIndex(lambda number, records: write(job, number, records)).foreach(
        lambda rows: None
    )


def in_transactions(job: Job, lose: bool) -> Callable[[RDD[Any]], None]:
    """An output that writes records and offsets of each partition in one transaction."""

    def write(offset_range: dk.OffsetRange, records: Iterable[dk.ConsumerRecord]) -> Iterator[int]:
        job.note_attempt()
        with job.connect() as connection:
            rows = job.write(connection, records, INSERT_AGAIN)
            job.store.advance(connection, [offset_range], rows=rows)
        if rows and job.is_first("end"):
            if lose:
                lose_executor()
            raise RuntimeError("fails after its commit")
        yield rows

    def output(rdd: RDD[Any]) -> None:
        ranges = dk.offset_ranges(rdd)
        rdd.mapPartitionsWithIndex(lambda number, records: write(ranges[number], records)).foreach(lambda rows: None)

    return output


def after_a_shuffle(job: Job) -> Callable[[RDD[Any]], None]:
    """An output that brings what it shuffled to the driver, and commits it there with the batch's offsets."""

    def count(records: Iterable[dk.ConsumerRecord]) -> Iterator[tuple[int, list[int]]]:
        job.note_attempt()
        yield from [(record.offset % 3, [record.partition, record.offset]) for record in records]

    def lose_once(groups: Iterable[tuple[int, Iterable[list[int]]]]) -> Iterator[list[int]]:
        if job.is_first("loss"):
            lose_executor()
        for _, places in groups:
            yield from places

    def output(rdd: RDD[Any]) -> None:
        ranges = dk.offset_ranges(rdd)
        places = rdd.mapPartitions(count).groupByKey(2).mapPartitions(lose_once).collect()
        with job.connect() as connection:
            connection.cursor().executemany(INSERT_AGAIN, [(job.recipe, *position) for position in places])
            job.store.advance(connection, ranges, rows=len(places))

    return output


def run(sc: SparkContext, build: Callable[[StreamingContext], None], is_done: Callable[[], bool]) -> str:
    """Run one streaming context until this holds, or until it ends with an error, which is returned."""
    context = StreamingContext(sc, INTERVAL_S)  # type: ignore[arg-type]
    build(context)
    return watch(context, is_done)


def watch(context: StreamingContext, is_done: Callable[[], bool]) -> str:
    context.start()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            if context.awaitTerminationOrTimeout(0.2) or is_done():  # type: ignore[arg-type]
                return ""
    except Exception as error:  # noqa: BLE001 - it is told
        return f"{type(error).__name__}: {error}"
    finally:
        context.stop(stopSparkContext=False)
    return f"not done after {TIMEOUT_S:.0f} s"


def subscribed(job: Job, output: Callable[[RDD[Any]], None], **settings: str) -> Callable[[StreamingContext], None]:
    def build(context: StreamingContext) -> None:
        stream = dk.create_direct_stream(context, dk.Subscribe(job.topic, job.params(**settings)))
        stream.foreachRDD(output)

    return build


def from_the_store(job: Job, output: Callable[[RDD[Any]], None]) -> Callable[[StreamingContext], None]:
    def build(context: StreamingContext) -> None:
        offsets = job.store.preload(dict.fromkeys(job.partitions, 0))
        dk.create_direct_stream(context, dk.Assign(list(offsets), job.params(), offsets)).foreachRDD(output)

    return build


def from_the_group(job: Job) -> Callable[[StreamingContext], None]:
    def build(context: StreamingContext) -> None:
        strategy = dk.Subscribe(job.topic, job.params(**{"group.id": f"{job.recipe}-{job.topic}"}))
        stream = dk.create_direct_stream(context, strategy)

        def output(rdd: RDD[Any]) -> None:
            ranges = dk.offset_ranges(rdd)
            by_partition(job, write_at_least_once)(rdd)
            if any(offset_range.count() for offset_range in ranges) and job.is_first("end of a batch"):
                raise RuntimeError("the batch fails when it is written")
            stream.commit_async(ranges)

        stream.foreachRDD(output)

    return build


def from_a_checkpoint(sc: SparkContext, job: Job) -> list[str]:
    """The same context's second life in this process goes on from the first one's checkpoint."""
    folder = str(Path(job.folder) / "checkpoint")

    def fail_once(rdd: RDD[Any]) -> None:
        by_partition(job, write_idempotently)(rdd)
        if job.is_whole() and job.is_first("end of a batch"):
            raise RuntimeError("the batch fails when it is written")

    def make() -> StreamingContext:
        context = StreamingContext(sc, INTERVAL_S)  # type: ignore[arg-type]
        context.checkpoint(folder)
        subscribed(job, fail_once)(context)
        return context

    lives = []
    for is_done in (lambda: False, job.is_whole):
        lives.append(watch(StreamingContext.getOrCreate(folder, make), is_done))
    return lives


def recipes(sc: SparkContext) -> dict[str, Callable[[Job], list[str]]]:
    """Each recipe gives how its lives in this process ended; an empty text is a life that was over."""

    def twice(job: Job, build: Callable[[Job], Callable[[StreamingContext], None]]) -> list[str]:
        """The first life ends with its error; the second one goes on where it ended."""
        return [run(sc, build(job), is_done) for is_done in (lambda: False, lambda: job.is_whole("doubled"))]

    def either(job: Job, *, lose: bool) -> list[str]:
        """A second life where the first one ended with an error: the attempt behind the commit is refused."""
        lives: list[str] = []
        while len(lives) < 2 and not (lives and lives[-1] == ""):
            lives.append(run(sc, from_the_store(job, in_transactions(job, lose=lose)), lambda: job.is_whole("doubled")))
        return lives

    def at_most_once(job: Job) -> list[str]:
        return [run(sc, subscribed(job, by_partition(job, write_at_most_once)), lambda: False)]

    return {
        "at-most-once": at_most_once,
        "at-least-once": lambda job: [
            run(sc, subscribed(job, by_partition(job, write_at_least_once)), lambda: job.is_whole("doubled"))
        ],
        "at-least-once-group": lambda job: twice(job, from_the_group),
        "idempotent": lambda job: [run(sc, subscribed(job, by_partition(job, write_idempotently)), job.is_whole)],
        "idempotent-checkpoint": lambda job: from_a_checkpoint(sc, job),
        "speculation": lambda job: [run(sc, subscribed(job, by_partition(job, write_with_a_straggler)), job.is_whole)],
        "transaction-executor": lambda job: either(job, lose=True),
        "transaction-task": lambda job: either(job, lose=False),
        "transaction-shuffle": lambda job: [
            run(sc, from_the_store(job, after_a_shuffle(job)), lambda: job.is_whole("doubled"))
        ],
    }


def main(master: str, kafka: str, dsn: str, folder: str, topics: dict[str, str]) -> None:
    conf = SparkConf().setMaster(master).setAppName("recipes").set("spark.ui.enabled", "false")
    conf.set("spark.executor.memory", "512m")
    conf.set("spark.driver.bindAddress", HOST).set("spark.driver.host", HOST)
    conf.set("spark.streaming.kafka.maxRatePerPartition", "1000")
    # A copy of a task that takes much longer than the others, while it still runs.
    conf.set("spark.speculation", "true").set("spark.speculation.quantile", "0.5")
    conf.set("spark.speculation.multiplier", "1.5").set("spark.speculation.minTaskRuntime", "1s")
    # The executor that a recipe has ended is nobody's mistake: its place is taken by another one.
    conf.set("spark.deploy.maxExecutorRetries", "-1")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    known = recipes(sc)
    for recipe, topic in topics.items():
        lives = known[recipe](Job(recipe, kafka, topic, dsn, folder))
        print(json.dumps({"recipe": recipe, "lives": lives}), flush=True)
    sc.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
