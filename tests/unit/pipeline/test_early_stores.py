"""Transactions that are open before the commit: whatever ends a batch ends them; who has the batch gets none."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.pipeline.fakes import FakeSink, FakeStore, World, bench
from tests.unit.pipeline.test_several_stores import entries_after_crash_between_the_stores, two_stores

from directkafka.errors import StoreUnavailableError, TransformError
from directkafka.pipeline.execution import second_phases
from directkafka.pipeline.execution.batch_writer import BatchWriter
from directkafka.pipeline.execution.output_writer import OutputWriter
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.execution.second_phases import Part
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.capabilities import SinkCapabilities

AWAY = StoreUnavailableError(store="a", cause="gone fishing")
NAME = BatchAttempt(pipeline="flights", generation=1, batch_id=7, attempt="this try")


def test_a_store_that_has_the_batch_gets_no_rows_of_it_again() -> None:
    """Sequence of events: Kafka commits, Postgres does not; Kafka's rows of the redone batch would stay open."""
    world = World()
    driver = bench(world=world, stores=two_stores(world, entries_after_crash_between_the_stores(), 1), latest=25)
    driver.engine.run()
    assert driver.writer.stores == [("b",), ("a", "b")]


@pytest.mark.parametrize("failed", ["commit a", "commit b"])
def test_an_open_transaction_ends_when_a_commit_fails_and_the_rows_are_written_again(failed: str) -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    driver.writer.early = driver.stores[1:]
    world.fail(failed, None, AWAY)
    driver.engine.run()
    behind = world.after("write")
    assert behind[behind.index(failed) + 1] == "abort b"
    assert driver.writer.written == [(1, "t-0[0, 10)")] * 2
    assert driver.writer.stores == [("a", "b"), ("a", "b") if failed == "commit a" else ("b",)]
    assert [len(store.rows) for store in driver.stores] == [1, 1]


def test_a_failure_of_another_store_behind_a_committed_transaction_costs_no_second_computation() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    driver.writer.early = driver.stores[:1]
    world.fail("commit b", None, AWAY)
    driver.engine.run()
    assert driver.writer.stores == [("a", "b")]
    assert driver.stores[0].rows == driver.stores[1].rows


class Fatal(BaseException):
    """As KeyboardInterrupt, which no handler of failures catches."""


def test_an_open_transaction_ends_when_the_run_is_interrupted() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    driver.writer.early = driver.stores[1:]
    world.fail("commit a", None, Fatal())
    with pytest.raises(Fatal):
        driver.engine.run()
    assert world.after("write")[:2] == ["commit a", "abort b"]


class TwoPhases(FakeSink):
    """Always leaves rows for a second job."""

    capabilities = SinkCapabilities(has_second_phase=True)

    def needs_second_phase(self, reports: Sequence[TaskReport]) -> bool:
        return True

    def second_phase(self, *arguments: Any, **named: Any) -> Any:
        raise AssertionError("the writing is replaced")


class Early(FakeStore):
    """Opens transactions."""

    def begin(self, batch: BatchAttempt, sink: Any) -> Any:
        self._world.happens(f"begin {self.name}")

    def abort_with_cause(self, batch: BatchAttempt, cause: BaseException) -> None:
        self._world.happens(f"abort {self.name} with its cause")


class ShortWriter(BatchWriter):
    """Its first jobs give one report to each route, and run nothing."""

    def _write_all(self, name: Any, frame: Any, wanted: Any, keeper: Any, ranges: Any) -> Any:
        report = TaskReport(rows=1, attempt="a", staged=True)
        output: Any = SimpleNamespace(sparkSession=None)
        return [Part(writer.sink, output, (report,)) for writer in wanted]


def writer_over(world: World, *names: str) -> ShortWriter:
    accumulator = SimpleNamespace(value={})
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(accumulator=lambda *_: accumulator))
    routes: list[Any] = [Route(output="default", sink=TwoPhases(Early(world, name))) for name in names]  # type: ignore[arg-type]
    sample: Any = SimpleNamespace(sparkSession=session, columns=())
    writer = ShortWriter(sample, SimpleNamespace(), routes)  # type: ignore[arg-type]
    writer._writers = tuple(OutputWriter(session, route, pa.schema([])) for route in routes)
    return writer


def test_a_second_phase_that_fails_ends_the_transactions_of_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(second_phases, "writers_max", lambda _: 1)
    world.fail("second phase", None, TransformError(source="sql", cause="on an executor"))
    monkeypatch.setattr(TwoPhases, "second_phase", lambda *_, **__: world.happens("second phase"))
    monkeypatch.setattr(second_phases, "write_shares", lambda *_, **__: [TaskReport(rows=1, attempt="b", staged=True)])
    with pytest.raises(TransformError):
        writer_over(world, "a", "b").write_frame(NAME, SimpleNamespace(), stores={"a", "b"})
    assert world.events == [
        "begin a", "second phase", "begin b", "second phase", "abort b with its cause", "abort b", "abort a",
    ]  # fmt: skip


def test_what_was_written_says_whose_transactions_are_open_and_is_for_no_other_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    monkeypatch.setattr(second_phases, "writers_max", lambda _: 1)
    monkeypatch.setattr(TwoPhases, "second_phase", lambda *_, **__: world.happens("second phase"))
    monkeypatch.setattr(second_phases, "write_shares", lambda *_, **__: [TaskReport(rows=1, attempt="b", staged=True)])
    with writer_over(world, "a", "b").write_frame(NAME, SimpleNamespace(), stores={"b"}) as written:
        assert world.events == ["begin b", "second phase"]
        assert [store.identity for store in written.early] == ["b"]
        assert [sink.store.identity for sink, _ in written.reports] == ["b"]
    assert world.events[-1] == "abort b"
