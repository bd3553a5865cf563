"""The counter-examples at work: killed at their worst moment, three of them double or lose, and ours does neither.

They also test our tests: a kill that could not make plain ``foreachBatch`` double would prove nothing of ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.waiting import until

import directkafka as dk
from directkafka.testing import KafkaBroker
from directkafka.testing.java import use_java
from directkafka.testing.jvm_connector import jvm_connector_jars

pytestmark = [pytest.mark.real, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples" / "counter"
PATIENCE_S = 300.0
PARTITIONS = 2
COUNT = 20


class Example:
    """A file of the folder, run twice: the first run is killed, or fails."""

    def __init__(self, file: str, folder: Path, **world: str) -> None:
        self.file = file
        self.folder = folder
        self.world = {**os.environ, "JAVA_HOME": str(use_java()), "FOLDER": str(folder), **world}

    def run_and_crash_and_run(self, how: str = "kill") -> None:
        assert self._run(CRASH=how) == {"kill": -signal.SIGKILL, "raise": 1}[how], self._log()
        assert self._run() == 0, self._log()

    def _run(self, **world: str) -> int:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, self.file],
                cwd=EXAMPLES,
                env=self.world | world,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(PATIENCE_S)
            finally:
                # Its JVM outlives it by a moment; a second run must not meet it.
                end_group(process.pid)

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-5000:]


def end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def world(kafka_broker: KafkaBroker, create_topic: Callable[..., str]) -> dict[str, str]:
    """A topic of numbers, and one to write to."""
    topic, output = create_topic(partitions=PARTITIONS), create_topic(partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return {"KAFKA": kafka_broker.bootstrap_servers, "TOPIC": topic, "OUTPUT": output}


def written(world: Mapping[str, str]) -> Counter[int]:
    """How often each number can be read, once no transaction is open any more."""
    places = [dk.TopicPartition(world["OUTPUT"], partition) for partition in range(PARTITIONS)]

    def ends(isolation: str) -> dict[dk.TopicPartition, int]:
        with dk.Cluster({"bootstrap.servers": world["KAFKA"], "isolation.level": isolation}) as cluster:
            return cluster.latest(places)

    until(lambda: ends("read_committed") == ends("read_uncommitted"), "a transaction stayed open")
    consumer = Consumer(
        {
            "bootstrap.servers": world["KAFKA"],
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    consumer.assign([TopicPartition(topic_partition.topic, topic_partition.partition, 0) for topic_partition in places])
    counts: Counter[int] = Counter()
    reached = ends("read_committed")

    def is_read() -> bool:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None
            counts[int(message.value())] += 1
        at = {
            dk.TopicPartition(position.topic, position.partition): position.offset
            for position in consumer.position(consumer.assignment())
        }
        return all(at[topic_partition] >= end or end == 0 for topic_partition, end in reached.items())

    until(is_read, "the output topic could not be read to its end")
    consumer.close()
    return counts


def times(first: int, second: int) -> Counter[int]:
    """The numbers of the input's partition 0 and 1, so many times each."""
    return Counter({number: (first, second)[number % PARTITIONS] for number in range(COUNT)})


def outcomes(first: int, how: str) -> list[Counter[int]]:
    """What may be there in the end, if partition 0's records are there so many times.

    Where the driver is killed nothing comes behind it. Where the task raises, Spark may start the other one before it
    gives the batch up, and that one raises at the same place.
    """
    return [times(first, 1), *([times(first, first)] if how == "raise" else [])]


#: The driver is killed in the middle of a task, or the task raises.
CRASHES = pytest.mark.parametrize("how", ["kill", "raise"])


@CRASHES
def test_a_transaction_for_each_task_doubles_what_the_first_task_had_committed(
    world: dict[str, str], tmp_path: Path, how: str
) -> None:
    Example("transaction_per_task.py", tmp_path, **world).run_and_crash_and_run(how)
    assert written(world) in outcomes(2, how)


@CRASHES
@pytest.mark.parametrize(("order", "first"), [("commit-first", 2), ("note-first", 0)])
def test_a_store_of_commits_beside_kafka_doubles_or_loses(
    order: str, first: int, world: dict[str, str], tmp_path: Path, how: str
) -> None:
    Example("store_of_commits.py", tmp_path, ORDER=order, **world).run_and_crash_and_run(how)
    # A counter with zeros equals one without.
    assert written(world) in outcomes(first, how)


def test_a_consumer_that_commits_by_itself_loses_what_was_fetched_and_not_written(
    world: dict[str, str], tmp_path: Path
) -> None:
    Example("auto_commit.py", tmp_path, **world).run_and_crash_and_run()
    assert written(world) == times(0, 0)


def rows(dsn: str) -> Counter[int]:
    with psycopg.connect(dsn) as connection:
        return Counter(int(value) for (value,) in connection.execute("SELECT value FROM output"))


def test_plain_foreach_batch_with_jdbc_doubles_the_batch(world: dict[str, str], database: str, tmp_path: Path) -> None:
    jar = next(jar for jar in jvm_connector_jars(print) if jar.name.startswith("postgresql"))
    parts = urlsplit(database)
    url = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}?user={parts.username}&password={parts.password}"
    Example("jdbc_foreach_batch.py", tmp_path, JDBC_JAR=str(jar), JDBC_URL=url, **world).run_and_crash_and_run()
    assert rows(database) == times(2, 2)


def test_ours_under_the_same_kill_has_each_row_once(world: dict[str, str], database: str, tmp_path: Path) -> None:
    Example("exactly_once.py", tmp_path, DSN=database, **world).run_and_crash_and_run()
    assert rows(database) == times(1, 1)


def test_ours_into_kafka_under_the_same_kill_has_each_record_once(world: dict[str, str], tmp_path: Path) -> None:
    Example("exactly_once.py", tmp_path, **world).run_and_crash_and_run()
    assert written(world) == times(1, 1)


def test_the_examples_stay_short_enough_to_be_read() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py") if len(file.read_text().splitlines()) >= 80} == set()
