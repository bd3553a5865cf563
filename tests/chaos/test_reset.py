"""Resets killed at every step, without Spark: a pipeline is at the old place or at the new one, and every row is right.

What is reset are the real ledgers and tables; only Kafka as the source is made up, as in ``engine_driver.py``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.chaos import engine_driver
from tests.chaos.engine_driver import BATCH, PIPELINE, TOPIC, MadeUpTopic, Place, RowWriter
from tests.chaos.forked_driver import FENCED, ForkedDriver
from tests.processes import running

from directkafka.offsets import Exact, OffsetRange, TopicPartition
from directkafka.operations import reset as reset_module
from directkafka.operations.reset import Reset, ResetRequest
from directkafka.options.source import SourceOptions
from directkafka.pipeline.execution.routes import Route, route_outputs
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import BatchAttempt, LedgerEntry, TaskReport

pytestmark = pytest.mark.real

COUNT = 3 * BATCH
#: In the middle of a batch.
BACK_TO = 15

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("batch", pa.int64())])

DATABASES = {"postgres": "database", "mysql": "mysql_database"}

#: Every step that a reset passes, and which pass is killed; the second store's come behind the first one's.
ONCE = ["fence.before", "fence.done", "ledger.read", "reset.planned"]
IN_EACH_STORE = [
    "commit.begun", "commit.ledger_updated", "reset.rows_deleted", "commit.rows_moved", "commit.answered",
]  # fmt: skip


class Topic(MadeUpTopic):
    """The same topic, as a reset looks at it."""

    def first_timestamps(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int | None]:
        return {each.topic_partition: 1000 * each.from_offset for each in ranges}


class RecordWriter(RowWriter):
    """A row for each offset that says which record it came from."""

    def schema_of(self, route: Route) -> pa.Schema:
        return SCHEMA

    def write_rows(self, route: Route, name: BatchAttempt, offsets: Sequence[int]) -> tuple[TaskReport, ...]:
        writer = route.sink.task_writer(name, SCHEMA)
        rows = [
            {"topic": TOPIC.topic, "partition": TOPIC.partition, "offset": offset, "batch": name.batch_id}
            for offset in offsets
        ]
        return (writer(iter([pa.RecordBatch.from_pylist(rows, SCHEMA)])),)


def run_pipeline(places: Sequence[Place], records: int) -> None:
    engine_driver.run_pipeline(places, records, RecordWriter)


def run_reset(places: Sequence[Place], offset: int, rows: str, records: int = COUNT) -> None:
    vars(reset_module)["SourceCluster"] = lambda _: Topic(records)
    source = SourceOptions.parse({"kafka.bootstrap.servers": "b:1", "subscribe": TOPIC.topic}, streaming=True)
    request = ResetRequest(to=Exact(offset), rows=RowsPolicy(rows) if rows else None)
    Reset(PIPELINE, source, route_outputs([target.sink() for target in places]), request).run()


def entry_of(target: Place) -> LedgerEntry:
    store = target.sink().store
    try:
        entry = store.read(PIPELINE)
        assert entry is not None
        return entry
    finally:
        store.close()


def offsets_in(target: Place) -> list[int]:
    with target.sink().dead_letters().opened() as rows:
        return sorted(int(row[0]) for row in rows('SELECT "offset" FROM flights', ()))


def ran(function: Any, *arguments: Any, folder: Path, faults: str = "", ends_with: int = 0) -> None:
    with running(ForkedDriver(function, *arguments, folder=folder, faults=faults)) as driver:
        assert driver.wait() == ends_with, driver.messages()


def check(target: Place, *, done: int, offsets: Sequence[int]) -> None:
    """Ledger and table of one moment."""
    entry = entry_of(target)
    assert entry.ends() == {TOPIC: done}
    assert offsets_in(target) == sorted(offsets)
    assert entry.total_rows.get("flights", entry.total_rows.get("public.flights")) == len(offsets)


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[Place]:
    """The stores of the kinds that a test names, in order."""
    kinds: Sequence[Any] = request.param
    return [
        Place(kind, request.getfixturevalue(DATABASES[kind]) if kind in DATABASES else str(tmp_path / f"air.{kind}"))
        for kind in kinds
    ]


def cases() -> Iterable[Any]:
    """One store of each kind, and two of which the second one is one reset behind."""
    quick = {("postgres", "reset.rows_deleted@1"), ("postgres", "reset.planned@1")}
    groups: Mapping[str, tuple[str, ...]] = {
        "sqlite": ("sqlite",), "duckdb": ("duckdb",), "postgres": ("postgres",), "mysql": ("mysql",),
        "postgres, sqlite": ("postgres", "sqlite"), "mysql, duckdb": ("mysql", "duckdb"),
    }  # fmt: skip
    for name, kinds in groups.items():
        points = [f"{point}@1" for point in (*ONCE, *IN_EACH_STORE)]
        if len(kinds) > 1:
            # Not every store passes every point, so that the second store's passes differ in number.
            points = [f"{point}@2" for point in ("commit.begun", "reset.rows_deleted", "commit.rows_moved")]
            points.insert(0, "commit.answered@1")
        for point in points:
            marks = () if (name, point) in quick else pytest.mark.slow
            yield pytest.param(kinds, point, id=f"{name}-{point}", marks=marks)


@pytest.mark.parametrize(("places", "point"), list(cases()), indirect=["places"])
def test_a_reset_killed_at_a_step_leaves_the_old_place_or_the_new_one_and_no_row_too_many(
    places: list[Place], point: str, tmp_path: Path
) -> None:
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    ran(run_reset, places, BACK_TO, "delete", folder=tmp_path, faults=f"{point}=kill", ends_with=-signal.SIGKILL)
    for target in places:
        is_reset = entry_of(target).ends() == {TOPIC: BACK_TO}
        done = BACK_TO if is_reset else COUNT
        check(target, done=done, offsets=range(done))
    # Ten more records are there by now. Whoever comes next brings the stores together.
    ran(run_pipeline, places, COUNT + 10, folder=tmp_path)
    for target in places:
        check(target, done=COUNT + 10, offsets=range(COUNT + 10))


@pytest.mark.slow
@pytest.mark.parametrize(
    "places",
    [("postgres", "sqlite"), ("mysql", "duckdb")],
    ids=", ".join,
    indirect=True,
)
def test_rows_that_are_kept_come_a_second_time_and_are_counted(places: list[Place], tmp_path: Path) -> None:
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    ran(run_reset, places, BACK_TO, "keep", folder=tmp_path)
    for target in places:
        check(target, done=BACK_TO, offsets=range(COUNT))
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    for target in places:
        check(target, done=COUNT, offsets=[*range(COUNT), *range(BACK_TO, COUNT)])


@pytest.mark.slow
@pytest.mark.parametrize("places", [("postgres", "sqlite")], ids=", ".join, indirect=True)
def test_what_is_skipped_is_never_read_and_its_number_is_kept(places: list[Place], tmp_path: Path) -> None:
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    ran(run_reset, places, COUNT + 5, "delete", COUNT + 10, folder=tmp_path)
    ran(run_pipeline, places, COUNT + 10, folder=tmp_path)
    for target in places:
        check(target, done=COUNT + 10, offsets=[*range(COUNT), *range(COUNT + 5, COUNT + 10)])
        assert entry_of(target).total_rows["(offsets that a reset skipped)"] == 5


@pytest.mark.parametrize("places", [("postgres",)], ids=", ".join, indirect=True)
def test_a_driver_that_stood_still_meanwhile_lands_nothing(places: list[Place], tmp_path: Path) -> None:
    stopped = ForkedDriver(run_pipeline, places, COUNT, folder=tmp_path, faults="batch.written@3=stop")
    with running(stopped) as older:
        older.wait_until_stopped()
        ran(run_reset, places, 5, "delete", folder=tmp_path)
        check(places[0], done=5, offsets=range(5))
        older.go_on()
        assert older.wait() == FENCED, older.messages()
    check(places[0], done=5, offsets=range(5))
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    check(places[0], done=COUNT, offsets=range(COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("places", [("postgres", "sqlite")], ids=", ".join, indirect=True)
def test_a_reset_finishes_what_another_one_has_begun_and_does_nothing_else(places: list[Place], tmp_path: Path) -> None:
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    ran(run_reset, places, BACK_TO, "delete", folder=tmp_path, faults="commit.answered@1=kill",
        ends_with=-signal.SIGKILL)  # fmt: skip
    assert [entry_of(target).ends()[TOPIC] for target in places] == [BACK_TO, COUNT]
    ran(run_reset, places, 4, "", folder=tmp_path)
    for target in places:
        check(target, done=BACK_TO, offsets=range(BACK_TO))
    ran(run_reset, places, 4, "delete", folder=tmp_path)
    for target in places:
        check(target, done=4, offsets=range(4))
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    for target in places:
        check(target, done=COUNT, offsets=range(COUNT))


@pytest.mark.parametrize("places", [("postgres", "sqlite")], ids=", ".join, indirect=True)
def test_stores_that_a_killed_driver_left_one_batch_apart_are_reset_together(
    places: list[Place], tmp_path: Path
) -> None:
    ran(run_pipeline, places, COUNT, folder=tmp_path, faults="commit.answered@5=kill", ends_with=-signal.SIGKILL)
    assert [entry_of(target).ends()[TOPIC] for target in places] == [2 * BATCH, BATCH]
    ran(run_reset, places, 5, "delete", folder=tmp_path)
    for target in places:
        check(target, done=5, offsets=range(5))
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    for target in places:
        check(target, done=COUNT, offsets=range(COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("places", [("postgres", "sqlite")], ids=", ".join, indirect=True)
def test_a_reset_whose_rows_a_store_does_not_let_go_is_finished_without_that(
    places: list[Place], tmp_path: Path
) -> None:
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    with places[1].sink().dead_letters().opened() as rows:
        rows(
            "CREATE TRIGGER kept BEFORE DELETE ON flights BEGIN SELECT RAISE(ABORT, 'these rows stay'); END",
            (),
        )
    # Only a row that is deleted calls the trigger, so that it is found out in the commit.
    ran(run_reset, places, BACK_TO, "delete", folder=tmp_path, ends_with=1)
    assert [entry_of(target).ends()[TOPIC] for target in places] == [BACK_TO, COUNT]
    ran(run_pipeline, places, COUNT, folder=tmp_path, ends_with=1)
    ran(run_reset, places, BACK_TO, "keep", folder=tmp_path)
    check(places[0], done=BACK_TO, offsets=range(BACK_TO))
    check(places[1], done=BACK_TO, offsets=range(COUNT))
    ran(run_pipeline, places, COUNT, folder=tmp_path)
    check(places[0], done=COUNT, offsets=range(COUNT))
    check(places[1], done=COUNT, offsets=[*range(COUNT), *range(BACK_TO, COUNT)])
