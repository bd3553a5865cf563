"""Replays of dead letters killed and stopped at every step, in one store and in two.

After any crash the rule is the same: a record is a letter or a row. The replay that comes next leaves each record once
in every store, and as letters those that are rejected again.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.chaos.engine_driver import (
    BATCH,
    LETTER_SCHEMA,
    PIPELINE,
    Place,
    run_pipeline,
    run_replay,
)
from tests.chaos.forked_driver import FENCED, ForkedDriver
from tests.chaos.pipelines import HEAD, PARTITIONS, PipelineProcess, produce_numbers
from tests.processes import running

from directkafka import Pipeline
from directkafka.sinks.dead_letters.table import DeadLetters, Selection
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import Job

#: The letters' records; the pipeline's own have lower offsets.
FIRST, COUNT = 1000, 2 * BATCH + 5
#: Letters whose offset can be divided by this one are rejected again.
REJECTED = 5
AGAIN = list(range(FIRST, FIRST + COUNT, REJECTED))
MENDED = [offset for offset in range(FIRST, FIRST + COUNT) if offset % REJECTED]

ONCE = ["fence.before", "fence.done", "ledger.read", "origin.planned", "origin.committed", "replay.planned"]
#: The second batch of letters; the plan is a batch too, and so is the origin.
STEPS = [
    *(f"{point}@1" for point in ONCE),
    *(f"{point}@2" for point in ("batch.planned", "batch.written", "replay.taken_out", "batch.reported")),
    *(f"{point}@4" for point in ("commit.begun", "commit.ledger_updated", "commit.rows_moved", "commit.answered")),
]

#: With two stores: origin, plan and batches are committed in both, the plan in the letters' store first.
BETWEEN = [
    *(f"commit.answered@{passes}" for passes in range(1, 9)),
    "replay.planned@1",
    "replay.taken_out@2",
    "commit.rows_moved@7",
]


@dataclass
class World:
    """Letters in an SQLite file, and the stores of the pipeline that rejected them."""

    folder: Path
    places: Sequence[Place]
    dead_letters: Place

    def replay(self, faults: str = "") -> ForkedDriver:
        return ForkedDriver(run_replay, self.places, self.dead_letters, REJECTED, folder=self.folder, faults=faults)

    def left(self) -> list[tuple[int, int, str | None]]:
        """Offset, number of replays and claim of each letter."""
        sink = self.dead_letters.sink("rejected")
        with sink.dead_letters().opened() as rows:
            return sorted(rows('SELECT "offset", replays, replay_claim FROM rejected', ()))

    def offsets(self, target: Place) -> list[int]:
        return [offset for offset, _ in target.rows()]

    def check(self) -> None:
        """The rule of this module, at the end of a replay."""
        for target in self.places:
            assert self.offsets(target) == MENDED
        left = self.left()
        assert [offset for offset, _, _ in left] == AGAIN
        assert all(replays >= 1 and claim is None for _, replays, claim in left)


def write_dead_letters(dead_letters: Place) -> None:
    """As a pipeline's batch would have."""
    rows = [
        {"topic": "flights", "partition": 0, "offset": offset, "value": b"%d" % offset, "reason": "new"}
        for offset in range(FIRST, FIRST + COUNT)
    ]
    sink = dead_letters.sink("rejected")
    sink.prepare(LETTER_SCHEMA)
    job = Job(sink.store, "letters").start()
    entry = job.next_entry()
    batch = job.batch(entry)
    report = sink.task_writer(batch, LETTER_SCHEMA)(iter([pa.RecordBatch.from_pylist(rows, LETTER_SCHEMA)]))
    sink.store.commit(entry, previous=None, writes=[(sink, batch, [report])])
    sink.store.close()


@pytest.fixture
def one_file(tmp_path: Path) -> World:
    target = Place("sqlite", str(tmp_path / "air.db"))
    write_dead_letters(target)
    return World(tmp_path, (target,), target)


@pytest.fixture
def two_files(tmp_path: Path) -> World:
    """The letters' store is listed first, and is the last in a replay."""
    dead_letters, other = Place("sqlite", str(tmp_path / "air.db")), Place("duckdb", str(tmp_path / "other.duckdb"))
    write_dead_letters(dead_letters)
    return World(tmp_path, (dead_letters, other), dead_letters)


def kill_and_replay(world: World, point: str) -> None:
    with running(world.replay(f"{point}=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    dead_letters = DeadLetters(world.dead_letters.sink("rejected").dead_letters(), PIPELINE)
    waiting = sum(dead_letters.count_by_reason(Selection()).values())
    assert waiting > len(AGAIN), "the kill came after the end, so it proved nothing"
    with running(world.replay()) as driver:
        assert driver.wait() == 0, driver.messages()
    world.check()


@pytest.fixture
def two_servers(kafka_broker: KafkaBroker, database: str, tmp_path: Path) -> World:
    dead_letters = Place("postgres", database)
    write_dead_letters(dead_letters)
    topic = Place("kafka", f"{kafka_broker.bootstrap_servers} replay-{uuid.uuid4().hex[:8]}")
    return World(tmp_path, (dead_letters, topic), dead_letters)


@pytest.mark.parametrize(
    "point",
    [point if point == "replay.taken_out@2" else pytest.param(point, marks=pytest.mark.slow) for point in STEPS],
)
def test_a_replay_killed_at_a_step_loses_and_doubles_no_record(one_file: World, point: str) -> None:
    kill_and_replay(one_file, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", BETWEEN)
def test_a_replay_into_two_stores_killed_between_two_commits_leaves_them_equal(two_files: World, point: str) -> None:
    kill_and_replay(two_files, point)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["commit.answered@3", "commit.answered@5", "commit.rows_moved@6", "commit.answered@7"]
)
def test_a_replay_from_postgres_into_a_topic_too_killed_between_two_commits(two_servers: World, point: str) -> None:
    kill_and_replay(two_servers, point)


@pytest.mark.slow
def test_replays_killed_one_after_the_other_in_their_plans_lose_nothing(two_files: World) -> None:
    """What one of them planned and never began is no batch of the next one.

    The first dies with all planned; the second when its plan is in the letters' store alone; the third when its plan is
    in both, and nothing else.
    """
    for point in ("batch.planned@1", "commit.answered@1", "batch.planned@1"):
        with running(two_files.replay(f"{point}=kill")) as driver:
            assert driver.wait() == -signal.SIGKILL, driver.messages()
    with running(two_files.replay()) as driver:
        assert driver.wait() == 0, driver.messages()
    two_files.check()


@pytest.mark.slow
def test_an_older_replay_that_stood_still_lands_nothing_after_a_newer_one(one_file: World) -> None:
    with running(one_file.replay("batch.written@1=stop")) as older:
        older.wait_until_stopped()
        with running(one_file.replay()) as newer:
            assert newer.wait() == 0, newer.messages()
        one_file.check()
        older.go_on()
        assert older.wait() == FENCED, older.messages()
    one_file.check()


@pytest.mark.slow
def test_the_pipeline_runs_while_its_letters_are_replayed(one_file: World) -> None:
    """Each is a driver of its own entry; neither fences the other, and no record is lost or doubled."""
    records = 5 * BATCH
    pipeline = ForkedDriver(run_pipeline, one_file.places, records, folder=one_file.folder)
    with running(pipeline), running(one_file.replay()) as replay:
        assert replay.wait() == 0, replay.messages()
        assert pipeline.wait() == 0, pipeline.messages()
    assert one_file.offsets(one_file.dead_letters) == [*range(records), *MENDED]


@pytest.mark.slow
def test_letters_that_wait_for_a_batch_whose_entry_is_gone_are_left_to_a_human(two_files: World) -> None:
    """The other store may have the batch, or not: the letters' ledger would say."""
    with running(two_files.replay("commit.answered@7=kill")) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    store = two_files.dead_letters.sink("rejected").store
    with store.opened() as connection:
        connection.rows("DELETE FROM directkafka_ledger WHERE pipeline = $1", (f"{PIPELINE}.replay",))
    with running(two_files.replay()) as driver:
        assert driver.wait() == 1, driver.messages()
        assert "LineageError" in driver.messages()
        assert "set replay_claim of the others to null" in driver.messages()


FILE = (
    HEAD
    + """
[transform]
sql = '''
SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number,
       CASE WHEN CAST(value AS STRING) LIKE '{rejected}' THEN 'like {rejected}' END AS dead_letter_reason
FROM source
'''

[[sink]]
type = "postgres"
dsn = "${{DSN}}"
table = "records"

[dead_letters]
type = "postgres"
dsn = "${{DSN}}"
table = "rejected"
"""
)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("point", ["replay.planned@1", "commit.rows_moved@3", "commit.answered@3"])
def test_the_command_killed_at_a_step_and_given_again_loses_and_doubles_no_record(
    point: str,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, 300)
    for variable, value in {"KAFKA": kafka_broker.bootstrap_servers, "DSN": database}.items():
        monkeypatch.setenv(variable, value)
    values = {"name": "numbers", "master": "local[2]", "folder": tmp_path, "topic": topic, "batch": 100}
    file = tmp_path / "numbers.toml"
    file.write_text(FILE.format(trigger="available-now", rejected="%1%", **values))
    Pipeline.from_toml(file).run()

    file.write_text(FILE.format(trigger="available-now", rejected="%11%", **values))
    command = [sys.executable, "-m", "directkafka", "replay", str(file), "--format", "json"]
    armed = {**os.environ, "DIRECTKAFKA_FAULTS": f"{point}=kill"}
    with running(PipelineProcess(file, armed, tmp_path, command=command)) as killed:
        assert killed.wait() == -signal.SIGKILL, killed.messages()
    with running(PipelineProcess(file, os.environ, tmp_path, command=command)) as again:
        assert again.wait() == 0, again.messages()
    rejected = [number for number in range(300) if "11" in str(number)]
    with psycopg.connect(database) as connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM records ORDER BY number")]
        assert numbers == [number for number in range(300) if number not in rejected]
        dead_letters = connection.execute("SELECT convert_from(value, 'UTF8')::int, reason FROM rejected ORDER BY 1")
        assert dead_letters.fetchall() == [(number, "like %11%") for number in rejected]
    # A batch that was committed before the answer came left those alone that were rejected again.
    tried = len(rejected) if point == "commit.answered@3" else sum("1" in str(number) for number in range(300))
    assert sum(report["letters"] for report in again.reports) == tried
    assert sum(report["rejected_again"] for report in again.reports) == len(rejected)
