"""One run of a query, among fakes: the order of its steps, and what a failure in each of them leads to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.unit.pipeline.fakes import NAME, PARTITION, Clock, FakeSink, FakeStop, FakeStore, World

from directkafka.errors import FencedError, LineageError, RowCountError, StoreUnavailableError
from directkafka.errors.kafka import TransactionTooSlowError
from directkafka.pipeline.execution.batch_writer import WrittenBatch
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.pause import PAUSE_POLL_S
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE
from directkafka.pipeline.ledger.reset_entry import reset_entry
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.progress import BatchReport
from directkafka.pipeline.retry import RetryPolicy, StopAsked
from directkafka.pipeline.structured.lineage import CheckpointBatch
from directkafka.pipeline.structured.query_run import QueryRun
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import BatchAttempt, LedgerEntry, TaskReport

AWAY = StoreUnavailableError(store="b", cause="gone fishing")
#: In the far future, as a machine whose clock is ahead would say.
PLANNED_AT_MS = 32_503_680_000_000
FRAME: Any = object()


class FakeCheckpoint:
    """Ten records a batch; batch 0 only says where the query starts."""

    def __init__(self, lineage: str = "mine") -> None:
        self.lineage = lineage
        self.records = 10

    def planned(self, batch_id: int) -> CheckpointBatch:
        start, end = self.records * (batch_id - 1), self.records * batch_id
        return CheckpointBatch(
            lineage=self.lineage,
            batch_id=batch_id,
            starts={} if batch_id == 0 else {PARTITION: start},
            ends={PARTITION: end},
            planned_at_ms=PLANNED_AT_MS,
        )


class FakeMicroBatchWriter:
    """One row for each batch, into every sink."""

    def __init__(self, world: World, sinks: Sequence[FakeSink], written_for: list[tuple[str, ...]]) -> None:
        self._world = world
        self._sinks = sinks
        self._written_for = written_for

    def check(self) -> tuple[str, ...]:
        self._world.happens("check")
        return ()

    def prepare(self) -> None:
        self._world.happens("prepare")

    def write_frame(self, name: BatchAttempt, frame: object, *, stores: Collection[str]) -> WrittenBatch:
        self._world.happens("write")
        self._written_for.append(tuple(sorted(stores)))
        report = TaskReport(rows=1, attempt="a", staged=False)
        reports = tuple((sink, (report,)) for sink in self._sinks if sink.store.identity in stores)
        return WrittenBatch(name=name, reports=reports, read={})

    def run_into_nothing(self, frame: object) -> None:
        self._world.happens("run into nothing")


@dataclass
class Bench:
    """A run among fakes."""

    world: World
    stores: list[FakeStore]
    checkpoint: FakeCheckpoint
    stop: FakeStop
    reports: list[BatchReport] = field(default_factory=list)
    written_for: list[tuple[str, ...]] = field(default_factory=list)
    report: Callable[[BatchReport], None] | None = None
    #: So many waits of the run after which its query is over.
    waits_max: int = 1_000

    def begin(self) -> QueryRun:
        """A new run of the query, which takes the stores over."""
        sinks = [FakeSink(store) for store in self.stores]
        run = QueryRun(
            NAME,
            checkpoint=self.checkpoint,
            writer=FakeMicroBatchWriter(self.world, sinks, self.written_for),
            ledgers=Ledgers(NAME, [Route(output="default", sink=sink) for sink in sinks]),
            report=self.report or self.reports.append,
            retry_policy=RetryPolicy(self.stop, retry_ms_max=60_000, clock=Clock()),
            is_over=lambda: len(self.stop.waits_s) >= self.waits_max,
        )
        run.take_over()
        return run

    def run(self, *batch_ids: int) -> None:
        run = self.begin()
        try:
            for batch_id in batch_ids:
                run.run_batch(FRAME, batch_id)
        except BaseException:
            run.close()
            raise


@pytest.fixture
def bench() -> Bench:
    return with_stores("a")


def with_stores(*names: str) -> Bench:
    world = World()
    return Bench(world, [FakeStore(world, name) for name in names], FakeCheckpoint(), FakeStop(Clock()))


def test_sinks_are_checked_before_any_fence_and_all_stores_fenced_before_any_is_read() -> None:
    two = with_stores("a", "b")
    two.run(0, 1)
    before_the_fence = ["check", "read b"]  # the read only to hand out a generation above all
    taken_over = [*before_the_fence, "fence a", "fence b", "prepare", "read a", "read b"]
    assert two.world.events == [*taken_over, *["write", "commit a", "commit b"] * 2]
    assert [store.is_durable for store in two.stores] == [True, True]


def test_a_batch_that_waits_in_a_pause_ends_when_its_query_is_over(bench: Bench) -> None:
    bench.stores[0].pause = LedgerEntry(
        pipeline=NAME, generation=1, lineage="l", batch_id=0, progress=(), committed_at_ms=1
    )
    bench.waits_max = 3
    with pytest.raises(StopAsked, match="while its pipeline was paused"):
        bench.run(0)
    assert bench.stop.waits_s == [PAUSE_POLL_S] * 3
    assert "write" not in bench.world.events


def test_ledgers_are_read_once_in_a_run_that_goes_well(bench: Bench) -> None:
    bench.run(0, 1, 2)
    assert bench.world.events.count("read a") == 1
    assert bench.stores[0].entry is not None
    assert (bench.stores[0].entry.batch_id, bench.stores[0].entry.ends()) == (2, {PARTITION: 20})


def test_an_entry_is_never_older_than_its_plan_whatever_the_clock_says(bench: Bench) -> None:
    bench.run(0)
    assert bench.stores[0].entry is not None
    assert bench.stores[0].entry.committed_at_ms == PLANNED_AT_MS


def test_a_batch_that_is_committed_is_run_into_nothing_and_the_next_one_written(bench: Bench) -> None:
    bench.run(0, 1)
    del bench.world.events[:]
    bench.run(1, 2)
    assert bench.world.after("read a") == ["run into nothing", "write", "commit a"]
    assert [batch for batch, _ in bench.stores[0].rows] == [0, 1, 2]


def test_a_new_run_fences_again(bench: Bench) -> None:
    bench.run(0)
    bench.run(1)
    assert bench.stores[0].generation == 2


def test_a_commit_that_fails_in_the_second_store_is_made_good_there_with_the_same_rows() -> None:
    two = with_stores("a", "b")
    two.world.fail("commit b", None, AWAY, AWAY)
    two.run(0, 1, 2)
    assert two.world.events.count("write") == 3, "computed once, kept until all have it"
    assert two.stores[0].rows == two.stores[1].rows


def test_rows_whose_staging_is_gone_are_written_again_for_the_store_that_lacks_them() -> None:
    two = with_stores("a", "b")
    two.world.fail("commit b", None, RowCountError(store="b", sink="rows", reported=1, found=0))
    two.run(0, 1)
    assert two.world.events.count("write") == 3
    assert [batch for batch, _ in two.stores[1].rows] == [0, 1]


def test_a_store_that_is_away_while_it_is_taken_over_is_waited_for(bench: Bench) -> None:
    bench.world.fail("fence a", AWAY)
    bench.run(0)
    assert bench.stores[0].generation == 1


def test_after_a_crash_between_two_stores_only_the_second_is_written() -> None:
    two = with_stores("a", "b")
    two.world.fail("commit b", None, FencedError(store="b", pipeline=NAME, held=1, found=2))
    with pytest.raises(FencedError):
        two.run(0, 1)
    two.run(1)
    assert [[batch for batch, _ in store.rows] for store in two.stores] == [[0, 1], [0, 1]]


def test_a_reset_that_was_ended_between_two_stores_is_finished_before_the_checkpoint_is_looked_at() -> None:
    two = with_stores("a", "b")
    two.run(0, 1)
    before = two.stores[0].entry
    assert before is not None
    start = replace(before.progress[0], start=4, end=4)
    two.stores[0].entry = reset_entry(before, {start.topic_partition: start}, RowsPolicy.KEEP)
    with pytest.raises(LineageError):
        two.run(2)
    assert [store.entry and store.entry.ends() for store in two.stores] == [{PARTITION: 4}, {PARTITION: 4}]
    assert two.stores[0].entry.lineage == two.stores[1].entry.lineage  # type: ignore[union-attr]


def test_after_a_crash_between_the_very_first_commits_the_second_store_gets_the_rows() -> None:
    two = with_stores("a", "b")
    two.world.fail("commit b", FencedError(store="b", pipeline=NAME, held=1, found=2))
    with pytest.raises(FencedError):
        two.run(0)
    two.run(0, 1)
    assert [[batch for batch, _ in store.rows] for store in two.stores] == [[0, 1], [0, 1]]


def test_a_store_that_has_the_batch_gets_no_rows_of_it_again() -> None:
    two = with_stores("a", "b")
    two.world.fail("commit b", None, FencedError(store="b", pipeline=NAME, held=1, found=2))
    with pytest.raises(FencedError):
        two.run(0, 1)
    two.run(1, 2)
    assert two.written_for[-2:] == [("b",), ("a", "b")]


def test_a_batch_that_is_too_slow_cannot_be_halved_and_says_what_to_raise(bench: Bench) -> None:
    slow = TransactionTooSlowError(transactional_id="x", elapsed_ms=9, budget_ms=8, timeout_ms=10)
    bench.world.fail("write", None, slow)
    with pytest.raises(TransactionTooSlowError, match=r"Raise kafka\.transaction\.timeout\.ms.*in the checkpoint"):
        bench.run(0, 1)
    assert bench.world.events.count("write") == 2


def test_a_store_that_was_added_joins_where_the_other_ends() -> None:
    two = with_stores("a", "b")
    first = Bench(two.world, two.stores[:1], two.checkpoint, two.stop)
    first.run(0, 1)
    two.run(2)
    assert [[batch for batch, _ in store.rows] for store in two.stores] == [[0, 1, 2], [2]]
    assert two.stores[1].entry is not None
    assert [partition.origin for partition in two.stores[1].entry.progress] == [10]


def test_a_foreign_checkpoint_is_not_tried_twice_and_writes_nothing(bench: Bench) -> None:
    bench.run(0, 1)
    bench.checkpoint.lineage = "other"
    run = bench.begin()
    del bench.world.events[:]
    with pytest.raises(LineageError) as caught:
        run.run_batch(FRAME, 2)
    assert bench.world.events == []
    assert ("mine (batch 1" in caught.value.found, "other (batch 2" in caught.value.expected) == (True, True)


def test_an_entry_that_waits_is_followed_by_batch_0_of_a_new_checkpoint(bench: Bench) -> None:
    bench.run(0)
    store = bench.stores[0]
    assert store.entry is not None
    store.entry = replace(store.entry, lineage=OPEN_LINEAGE)
    bench.checkpoint.lineage = "new"
    bench.run(0, 1)
    assert store.entry is not None
    assert (store.entry.lineage, store.entry.batch_id) == ("new", 1)


def test_an_idle_run_finds_out_that_a_newer_driver_has_the_pipeline(bench: Bench) -> None:
    run = bench.begin()
    run.check_fenced()
    bench.stores[0].generation += 1
    with pytest.raises(FencedError):
        run.check_fenced()


def test_an_idle_run_waits_for_a_store_that_is_away(bench: Bench) -> None:
    run = bench.begin()
    bench.world.fail("read a", AWAY, AWAY)
    run.check_fenced()
    run.run_batch(FRAME, 0)
    assert [batch for batch, _ in bench.stores[0].rows] == [0]


def test_a_look_that_failed_is_not_what_the_next_batch_goes_by(bench: Bench) -> None:
    """Else the batch would be decided on by what was read before."""
    run = bench.begin()
    bench.world.fail("read a", LineageError(store="a", pipeline=NAME, expected="x", found="y", remedy="z"))
    with pytest.raises(LineageError):
        run.check_fenced()
    del bench.world.events[:]
    run.run_batch(FRAME, 0)
    assert bench.world.events[0] == "read a"


def test_a_stop_ends_the_wait_for_a_store_that_is_away(bench: Bench) -> None:
    run = bench.begin()
    bench.world.fail("read a", AWAY)
    bench.stop.set()
    with pytest.raises(StopAsked):
        run.check_fenced()


def test_a_report_says_what_spark_leaves_to_us_and_its_failure_costs_nothing(bench: Bench) -> None:
    bench.run(0, 1)
    last = bench.reports[-1]
    assert (last.batch_id, last.offsets, last.records, last.backlog, dict(last.rows)) == (
        1,
        10,
        None,
        None,
        {"rows": 1},
    )

    def fail(report: BatchReport) -> None:
        raise RuntimeError("nobody listens")

    bench.report = fail
    bench.run(2)
    assert [batch for batch, _ in bench.stores[0].rows] == [0, 1, 2]
