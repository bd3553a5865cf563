"""Adopting and restarting among fakes: what is looked at, what is set, and crashes between two stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.pipeline.fakes import NAME, PARTITION, FakeSink, FakeStore, World

from directkafka.errors import LineageError, OptionError, StoreUnavailableError
from directkafka.offsets import PartitionProgress, TopicPartition
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE, reconcile
from directkafka.pipeline.ledger.reset_entry import reset_entry
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.structured import restart as restart_module
from directkafka.pipeline.structured.restart import LedgerChange, Position, adopt, restart
from directkafka.planning.reset_target import RowsPolicy
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import check_successor

NEW = Position(lineage=None, done_ends={}, planned_begin={}, planned_ends={})
#: Batch 5 is done at 50, batch 6 is planned to 60.
BEGUN = Position(
    lineage="mine",
    done=5,
    done_ends={PARTITION: 50},
    planned=6,
    planned_begin={PARTITION: 50},
    planned_ends={PARTITION: 60},
    planned_at_ms=7,
)


class StrictStore(FakeStore):
    """With the one check that the fake leaves to real stores."""

    def commit(self, entry: LedgerEntry, *, previous: LedgerEntry | None, writes: Sequence[Any] = ()) -> LedgerEntry:
        check_successor(entry, previous, store=self.name)
        return super().commit(entry, previous=previous, writes=writes)


def entry(end: int, batch_id: int = 5, lineage: str = "mine") -> LedgerEntry:
    partition = PartitionProgress(topic="t", partition=0, topic_id="i", start=0, end=end, leader_epoch=2, origin=3)
    return LedgerEntry(
        pipeline=NAME, generation=1, lineage=lineage, batch_id=batch_id, progress=(partition,), total_rows={"rows": 9}
    )


class Bench:
    """Stores by name, and a checkpoint that stands where the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, position: Position, **entries: LedgerEntry | None) -> None:
        self.world = World()
        self.stores = {name: StrictStore(self.world, name, ledger_entry) for name, ledger_entry in entries.items()}
        monkeypatch.setattr(restart_module, "checkpoint_at", lambda session, location: None)
        monkeypatch.setattr(restart_module, "position_of", lambda checkpoint: position)

    def adopt(self, *, confirm: bool = True) -> tuple[LedgerChange, ...]:
        return adopt(NAME, self.sinks(), checkpoint="c", confirm=confirm, spark=object())  # type: ignore[arg-type]

    def restart(self, origin: Any = "ledger", *, confirm: bool = True, **options: Any) -> tuple[LedgerChange, ...]:
        spark: Any = object()
        return restart(NAME, self.sinks(), checkpoint="c", origin=origin, confirm=confirm, spark=spark, **options)

    def sinks(self) -> Any:
        return [FakeSink(store) for store in self.stores.values()]

    def set_ends(self) -> list[tuple[str, int, dict[Any, int]] | None]:
        entries = [store.entry for store in self.stores.values()]
        return [
            None if ledger_entry is None else (ledger_entry.lineage, ledger_entry.batch_id, ledger_entry.ends())
            for ledger_entry in entries
        ]


def test_to_look_neither_fences_nor_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, BEGUN, a=entry(50, 3, "other"))
    assert [change.is_done for change in bench.adopt(confirm=False)] == [False]
    bench.restart("checkpoint", confirm=False)
    assert set(bench.world.events) == {"read a", "close a"}


def test_what_is_confirmed_is_fenced_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, BEGUN, a=entry(50, 3, "other"))
    assert [change.is_done for change in bench.adopt()] == [True]
    assert bench.world.events == ["fence a", "read a", "commit a", "close a"]
    assert bench.set_ends() == [("mine", 5, {PARTITION: 50})]


def test_each_store_adopts_the_batch_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver died between two stores, and the checkpoint was moved afterwards."""
    bench = Bench(monkeypatch, BEGUN, a=entry(60, 9, "other"), b=entry(50, 8, "other"))
    bench.adopt()
    assert bench.set_ends() == [("mine", 6, {PARTITION: 60}), ("mine", 5, {PARTITION: 50})]
    # So the second one is given the batch that it lacks.
    assert reconcile([(name, store.entry) for name, store in bench.stores.items()]).behind == (1,)


def test_stores_that_are_one_batch_apart_are_brought_together_before_they_wait_for_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each would wait where it ends, and be told apart from the other at every start."""
    bench = Bench(monkeypatch, NEW, a=entry(60, 6), b=entry(50, 5))
    for confirm in (False, True):
        with pytest.raises(LineageError, match=r"a ends at .*60.*; b ends at .*50") as caught:
            bench.restart(confirm=confirm)
    assert "--shift-by 0 --rows delete" in caught.value.remedy
    assert not [event for event in bench.world.events if event.startswith(("fence", "commit"))]


def test_a_store_that_another_pipeline_uses_is_not_even_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, NEW, a=entry(60, 6))
    sinks = bench.sinks()
    monkeypatch.setattr(bench, "sinks", lambda: sinks)
    other = Ledgers("another", [Route(output="default", sink=sink) for sink in sinks])
    other.claim()
    with pytest.raises(OptionError, match="in use by pipeline 'another'"):
        bench.restart(confirm=False)
    assert bench.world.events == []
    other.close()


NEW_PLACE = TopicPartition("t", 1)


@pytest.mark.parametrize(("offset", "is_adopted"), [(0, True), (1, False)])
def test_a_partition_that_only_the_checkpoint_knows_must_not_have_been_read(
    offset: int, is_adopted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {PARTITION: 50, NEW_PLACE: offset}
    bench = Bench(monkeypatch, replace(BEGUN, done_ends=ends), a=entry(50, 3, "other"))
    if is_adopted:
        bench.adopt()
        assert bench.set_ends() == [("mine", 5, ends)]
    else:
        with pytest.raises(LineageError, match="do not stand at the same offsets"):
            bench.adopt()


@pytest.mark.parametrize(("offset", "is_adopted"), [(0, True), (1, False)])
def test_a_partition_that_only_the_ledger_knows_must_not_have_been_read(
    offset: int, is_adopted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = replace(entry(50).progress[0], partition=1, end=offset)
    both = replace(entry(50, 3, "other"), progress=(*entry(50).progress, known))
    bench = Bench(monkeypatch, BEGUN, a=both)
    if is_adopted:
        bench.adopt()
        assert bench.set_ends() == [("mine", 5, {PARTITION: 50, NEW_PLACE: 0})]
    else:
        with pytest.raises(LineageError, match="do not stand at the same offsets"):
            bench.adopt()


@pytest.mark.parametrize("planned", [{PARTITION: 60}, {PARTITION: 60, NEW_PLACE: 4}])
def test_a_checkpoint_that_has_planned_past_the_ledger_or_not_as_far_is_told_apart(
    planned: dict[TopicPartition, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that is planned may be in the ledger or not; anywhere between, before or behind is neither."""
    position = replace(BEGUN, planned_ends=planned)
    for offset, batch_id in ((50, 5), (60, 6 if NEW_PLACE not in planned else None), (49, None), (55, None)):
        bench = Bench(monkeypatch, position, a=entry(offset, 3, "other"))
        if batch_id is not None:
            bench.adopt()
            assert bench.set_ends() == [("mine", batch_id, {PARTITION: offset})]
            continue
        with pytest.raises(LineageError) as caught:
            bench.adopt()
        assert "directkafka restart FILE --from checkpoint" in str(caught.value)


@pytest.mark.parametrize("second", [entry(51, 5), None])
def test_nothing_is_adopted_unless_every_store_stands_there(
    second: LedgerEntry | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(monkeypatch, BEGUN, a=entry(50, 3, "other"), b=second)
    with pytest.raises(LineageError) as caught:
        bench.adopt()
    assert caught.value.store == "b"
    assert "batch 5 done, at {'t': {'0': 50}}, batch 6 planned to {'t': {'0': 60}}" in caught.value.expected
    assert not [event for event in bench.world.events if event.startswith("commit")]


def test_a_planned_batch_without_records_is_left_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows come from Spark's state; to adopt its number would lose them."""
    still = Position(
        lineage="mine",
        done=5,
        done_ends={PARTITION: 50},
        planned=6,
        planned_begin={PARTITION: 50},
        planned_ends={PARTITION: 50},
    )
    bench = Bench(monkeypatch, still, a=entry(50, 3, "other"))
    bench.adopt()
    assert bench.set_ends() == [("mine", 5, {PARTITION: 50})]


def test_a_checkpoint_that_has_not_begun_cannot_be_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="no query has begun"):
        Bench(monkeypatch, NEW, a=entry(50)).adopt()


def test_where_no_source_is_kafka_there_is_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = Position(lineage="mine", done=5, done_ends={}, planned_begin={}, planned_ends={})
    bare = LedgerEntry(pipeline=NAME, generation=1, lineage="other", batch_id=5, progress=())
    with pytest.raises(LineageError):
        Bench(monkeypatch, rate, a=bare).adopt()


def test_another_number_of_the_same_lineage_passes_through_a_waiting_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, BEGUN, a=entry(50, 70))
    bench.world.fail("commit a", None, StoreUnavailableError(store="a", cause="it dies in between"))
    with pytest.raises(StoreUnavailableError):
        bench.adopt()
    assert bench.set_ends() == [(OPEN_LINEAGE, 0, {PARTITION: 50})]
    bench.adopt()
    assert bench.set_ends() == [("mine", 5, {PARTITION: 50})]


def test_what_stands_there_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, BEGUN, a=entry(50, 5))
    bench.adopt()
    assert bench.world.events.count("commit a") == 0


def test_a_restart_keeps_totals_topic_ids_and_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, NEW, a=entry(50, 5))
    bench.restart()
    after = bench.stores["a"].entry
    assert after is not None
    assert after.lineage == OPEN_LINEAGE
    assert [
        (partition.topic_id, partition.leader_epoch, partition.origin, partition.start) for partition in after.progress
    ] == [("i", 2, 3, 50)]


def test_a_restart_that_dies_between_two_stores_is_done_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, NEW, a=entry(50, 5), b=entry(50, 5))
    bench.world.fail("commit b", StoreUnavailableError(store="b", cause="it dies in between"))
    with pytest.raises(StoreUnavailableError):
        bench.restart()
    bench.restart()
    entries = [(name, store.entry) for name, store in bench.stores.items()]
    assert reconcile(entries).behind == ()
    assert [at and at[0] for at in bench.set_ends()] == [OPEN_LINEAGE, OPEN_LINEAGE]


@pytest.mark.parametrize("way", ["ledger", "checkpoint", "adopt"])
def test_a_reset_that_some_stores_lack_is_finished_first(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    before = entry(50, 5, "other")
    start = replace(before.progress[0], start=20, end=20)
    done = reset_entry(before, {start.topic_partition: start}, RowsPolicy.KEEP)
    bench = Bench(monkeypatch, NEW, a=done, b=before)
    with pytest.raises(LineageError, match=r"ended between two stores.*finishes that reset and does nothing else"):
        _ = bench.adopt() if way == "adopt" else bench.restart(way)
    assert not any(event.startswith(("fence", "commit")) for event in bench.world.events)


@pytest.mark.parametrize(("ledger", "lost", "doubled"), [(40, 10, 0), (50, 0, 0), (58, 0, 8)])
def test_what_lies_between_ledger_and_checkpoint_is_said_in_numbers(
    ledger: int, lost: int, doubled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(monkeypatch, BEGUN, a=entry(ledger, 3))
    change = bench.restart("checkpoint")[0]
    assert [(partition.lost, partition.doubled) for partition in change.moved] == [(lost, doubled)]
    assert change.as_records()[0]["next"] == 50
    assert bench.set_ends() == [("mine", 5, {PARTITION: 50})]


def test_a_store_without_an_entry_takes_the_checkpoint_s_position(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, BEGUN, a=None)
    change = bench.restart("checkpoint")[0]
    assert [(partition.ledger, partition.lost, partition.doubled) for partition in change.moved] == [(None, None, None)]
    assert bench.set_ends() == [("mine", 5, {PARTITION: 50})]


def test_a_new_checkpoint_may_begin_anywhere_when_it_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, NEW, a=entry(50))
    change = bench.restart("checkpoint", starts={PARTITION: 20})[0]
    assert [(partition.lost, partition.doubled) for partition in change.moved] == [(0, 30)]
    assert bench.set_ends() == [(OPEN_LINEAGE, 0, {})]


def test_a_restart_from_the_ledger_needs_a_ledger_and_a_new_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LineageError, match="a first run needs no restart"):
        Bench(monkeypatch, NEW, a=None).restart()
    with pytest.raises(OptionError, match="has begun"):
        Bench(monkeypatch, BEGUN, a=entry(50)).restart()
    with pytest.raises(OptionError, match="origin"):
        Bench(monkeypatch, NEW, a=entry(50)).restart("elsewhere")
