"""A sink object in two pipelines of a process."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
from tests.unit.pipeline.fakes import FakeSink, FakeStore, FakeWriter, World

from directkafka.errors import OffsetMismatchError, OptionError, StoreUnavailableError
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.sinks.api import LedgerEntry


def ledgers(name: str, sink: Any) -> Ledgers:
    return Ledgers(name, [Route(output="default", sink=sink)])


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink(FakeStore(World(), "a"))


def test_the_second_pipeline_is_refused_and_both_are_named(sink: FakeSink) -> None:
    first = ledgers("first", sink)
    first.claim()
    with pytest.raises(OptionError, match=r"(?s)in pipeline 'second'.*in use by pipeline 'first' of this process"):
        ledgers("second", sink).claim()


def test_so_is_another_sink_of_the_same_store_object(sink: FakeSink) -> None:
    first = ledgers("first", sink)
    first.claim()
    with pytest.raises(OptionError, match="in use by pipeline 'first'"):
        ledgers("second", FakeSink(sink.store)).claim()


def test_it_is_free_again_when_the_first_has_stopped(sink: FakeSink) -> None:
    first = ledgers("first", sink)
    first.claim()
    first.close()
    ledgers("second", sink).claim()


def test_a_pipeline_that_starts_again_waits_for_its_last_run_to_end(sink: FakeSink) -> None:
    """A query that has ended is told before its connections are given back."""
    first = ledgers("same", sink)
    first.claim()
    closing = threading.Timer(0.2, first.close)
    closing.start()
    ledgers("same", sink).claim()
    closing.join()


def test_who_is_gone_without_a_word_claims_nothing(sink: FakeSink) -> None:
    ledgers("first", sink).claim()
    gc.collect()
    second = ledgers("second", sink)
    second.claim()
    second.claim()  # what it has, it keeps
    second.close()


def test_a_claim_that_fails_takes_nothing(sink: FakeSink) -> None:
    first, free = ledgers("first", sink), FakeSink(FakeStore(World(), "b"))
    first.claim()
    both = Ledgers("second", [Route(output="x", sink=free), Route(output="y", sink=sink)])  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        both.claim()
    ledgers("third", free).claim()


def test_who_is_refused_has_looked_at_nothing_that_is_another_one_s() -> None:
    """A look at a table would be in the transaction that the first one has open."""
    world = World()
    sink = FakeSink(FakeStore(world, "a"))
    first = ledgers("first", sink)
    first.claim()
    with pytest.raises(OptionError, match="in use by pipeline 'first'"):
        ledgers("second", sink).take_over(FakeWriter(world, [sink]))
    assert world.events == []


def test_a_look_claims_nothing(sink: FakeSink) -> None:
    first = ledgers("first", sink)
    first.connect()
    first.peek()
    second = ledgers("second", sink)
    second.connect()
    second.fence()
    with pytest.raises(OptionError, match="in use by pipeline 'second'"):
        first.fence()


def two_stores(world: World, *batch_ids: int) -> Ledgers:
    entries = [
        LedgerEntry(pipeline="flights", generation=1, lineage="a", batch_id=batch_id, progress=())
        for batch_id in batch_ids
    ]
    stores = [FakeStore(world, name, entry) for name, entry in zip("ab", entries, strict=True)]
    routes = [Route(output=name, sink=FakeSink(store, name)) for name, store in zip("ab", stores, strict=True)]  # type: ignore[arg-type]
    group = Ledgers("flights", routes)
    group.connect()
    return group


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens at each wait between two looks."""
    happens: list[Any] = []
    monkeypatch.setattr(time, "sleep", lambda _: happens.pop(0)() if happens else None)
    return happens


@pytest.mark.parametrize("batch_ids", [(5, 4), (7, 5)], ids=["between two commits", "two batches apart"])
def test_a_look_at_a_driver_that_is_at_work_is_taken_again(batch_ids: tuple[int, int], waits: list[Any]) -> None:
    group = two_stores(World(), *batch_ids)
    (_, newest), (second, _) = _entries(group)
    waits.append(lambda: setattr(second, "entry", newest))
    assert group.peek().behind == ()
    assert [entry for _, entry in group.known()] == [newest, newest]


def test_stores_that_stay_apart_are_told_of(waits: list[Any]) -> None:
    assert two_stores(World(), 5, 4).peek().behind == (1,)
    with pytest.raises(OffsetMismatchError):
        two_stores(World(), 7, 5).peek()


def _entries(group: Ledgers) -> list[tuple[Any, LedgerEntry]]:
    return [(ledger.store, ledger.store.entry) for ledger in group.lacking(None)]  # type: ignore[attr-defined]


def test_a_store_that_does_not_answer_leaves_none_of_those_before_it_open() -> None:
    class Away(FakeStore):
        @property
        def identity(self) -> str:
            raise StoreUnavailableError(store="b", cause="no answer")

    world = World()
    routes = [Route(output="default", sink=FakeSink(store)) for store in (FakeStore(world, "a"), Away(world, "b"))]  # type: ignore[arg-type]
    group = Ledgers("flights", routes)
    with pytest.raises(StoreUnavailableError):
        group.connect()
    group.close()
    assert world.events == ["close a", "close b"]
