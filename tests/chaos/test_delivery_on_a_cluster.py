"""The delivery recipes under what clusters do: an executor lost, a task tried again after its commit, speculation, and
a failure followed by a restart in the same process, from a group, a checkpoint and an OffsetStore."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.chaos.cluster_recipes import PARTITIONS, RECORDS
from tests.real.kafka.logs import produce
from tests.standalone import HOSTS, environment_of, standalone_cluster
from tests.topics import make_topic

from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1200
RECIPES = (
    "at-least-once",
    "at-least-once-group",
    "idempotent",
    "idempotent-checkpoint",
    "speculation",
    "transaction-executor",
    "transaction-task",
    "transaction-shuffle",
    "at-most-once",
)
#: Spark runs no copy of a task on the host of the first one, and in local-cluster there is one host.
NEED_TWO_HOSTS = ("speculation",)
ALL = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}


@dataclass(frozen=True)
class Outcome:
    """What one recipe has left behind."""

    lives: list[str]
    output: Counter[tuple[int, int]]
    #: Numbers of attempts by partition, in the order in which they began.
    attempts: dict[int, list[int]]

    @property
    def last_attempt(self) -> int:
        return max(max(numbers) for numbers in self.attempts.values())


@dataclass(frozen=True)
class Cluster:
    """The program's answers, and the database that it wrote to."""

    dsn: str
    lives: dict[str, list[str]]

    def outcome(self, recipe: str) -> Outcome:
        with psycopg.connect(self.dsn) as connection:

            def rows(columns: str, table: str) -> list[tuple[Any, ...]]:
                statement = f"SELECT {columns} FROM {table} WHERE recipe = %s"
                return connection.execute(statement, [recipe]).fetchall()  # type: ignore[call-overload]

            output = [*rows("partition, kafka_offset", "output"), *rows("partition, kafka_offset", "doubled")]
            attempts: dict[int, list[int]] = {}
            for partition, number in rows("partition, number", "attempts"):
                attempts.setdefault(partition, []).append(number)
        return Outcome(self.lives[recipe], Counter(output), attempts)


@pytest.fixture(scope="module")
def cluster(
    kafka_broker: KafkaBroker, postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """All recipes have run, on one context with two executors."""
    name = f"cluster_{uuid.uuid4().hex[:12]}"
    dsn, folder = postgres.create_database(name), tmp_path_factory.mktemp("cluster")
    with psycopg.connect(dsn) as connection:
        columns = "(recipe text, partition int, kafka_offset bigint"
        connection.execute(f"CREATE TABLE output {columns}, UNIQUE (recipe, partition, kafka_offset))")
        connection.execute(f"CREATE TABLE doubled {columns})")
        connection.execute("CREATE TABLE attempts (recipe text, partition int, number int)")
    topics = {}
    for recipe in RECIPES:
        topics[recipe] = make_topic(kafka_broker.bootstrap_servers, f"{recipe}-{name}", PARTITIONS)
        for partition in range(PARTITIONS):
            produce(kafka_broker.bootstrap_servers, topics[recipe], [b"value"] * RECORDS, partition=partition)
    given = {"kafka": kafka_broker.bootstrap_servers, "dsn": dsn, "folder": str(folder)}
    own = {recipe: topics.pop(recipe) for recipe in NEED_TWO_HOSTS}
    lives = lives_of(given | {"master": "local-cluster[2,1,1024]", "topics": topics}, folder)
    with standalone_cluster(folder, PYTHONPATH=str(ROOT)) as master:
        lives |= lives_of(given | {"master": master, "topics": own}, folder)
    yield Cluster(dsn, lives)
    postgres.drop_database(name)


def lives_of(given: dict[str, Any], folder: Path) -> dict[str, list[str]]:
    """Run the program; how each recipe's lives ended."""
    environment = environment_of(HOSTS[0]) | {"PYTHONPATH": str(ROOT), "SPARK_WORKER_DIR": str(folder / "work")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.chaos.cluster_recipes", json.dumps(given)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(given["topics"]), done.stdout[-2000:] + done.stderr[-6000:]
    return {answer["recipe"]: answer["lives"] for answer in answers}


def test_at_most_once_an_executor_that_is_lost_loses_records_and_doubles_none(cluster: Cluster) -> None:
    outcome = cluster.outcome("at-most-once")
    assert outcome.last_attempt > 0, "no task was tried again"
    assert "may have written these records already" in outcome.lives[0]
    assert set(outcome.output.values()) == {1}
    assert outcome.output.keys() <= ALL


def test_at_least_once_an_executor_that_is_lost_doubles_records_and_loses_none(cluster: Cluster) -> None:
    outcome = cluster.outcome("at-least-once")
    assert outcome.last_attempt > 0, "no task was tried again"
    assert outcome.lives == [""], "the stream goes on by itself"
    assert outcome.output.keys() == ALL
    assert max(outcome.output.values()) > 1


def test_at_least_once_from_the_group_after_a_failure_in_the_same_process(cluster: Cluster) -> None:
    outcome = cluster.outcome("at-least-once-group")
    failed, second = outcome.lives
    assert "the batch fails when it is written" in failed
    assert second == ""
    assert outcome.output.keys() == ALL
    assert max(outcome.output.values()) > 1


def test_idempotent_writes_of_a_task_that_is_tried_again_after_its_commit_are_exactly_once(cluster: Cluster) -> None:
    outcome = cluster.outcome("idempotent")
    assert outcome.last_attempt > 0, "no task was tried again"
    assert outcome.lives == [""]
    assert outcome.output == Counter(ALL)


def test_idempotent_writes_from_a_checkpoint_after_a_failure_in_the_same_process(cluster: Cluster) -> None:
    outcome = cluster.outcome("idempotent-checkpoint")
    failed, second = outcome.lives
    assert "the batch fails when it is written" in failed
    assert second == ""
    assert outcome.output == Counter(ALL)


def test_a_task_that_speculation_runs_twice_at_a_time_is_exactly_once_by_idempotent_writes(cluster: Cluster) -> None:
    outcome = cluster.outcome("speculation")
    assert sorted(outcome.attempts[0])[:2] == [0, 1], "no copy of the task was run"
    assert outcome.output == Counter(ALL)


@pytest.mark.parametrize("recipe", ["transaction-executor", "transaction-task"])
def test_offsets_in_the_transaction_are_exactly_once_when_a_task_is_tried_again_after_its_commit(
    cluster: Cluster, recipe: str
) -> None:
    outcome = cluster.outcome(recipe)
    assert outcome.last_attempt > 0, "no task was tried again"
    assert outcome.lives[-1] == "", "the second life in the same process goes on at the stored offsets"
    assert outcome.output == Counter(ALL)


def test_a_batch_that_is_committed_by_the_driver_after_a_shuffle_is_exactly_once_when_an_executor_is_lost(
    cluster: Cluster,
) -> None:
    outcome = cluster.outcome("transaction-shuffle")
    assert outcome.lives[-1] == ""
    assert outcome.output == Counter(ALL)
