"""A pipeline with several stores: the order of commits, and what a crash between two of them leads to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from tests.unit.pipeline.fakes import PARTITION, FakeSink, FakeStore, World, bench

from directkafka.errors import (
    DataLossError,
    FencedError,
    LineageError,
    OffsetMismatchError,
    OptionError,
    RowCountError,
    StoreUnavailableError,
    TransformError,
)
from directkafka.pipeline.execution.routes import Route
from directkafka.pipeline.ledger.reconcile import OPEN_LINEAGE
from directkafka.pipeline.ledger.reset_entry import reset_entry
from directkafka.pipeline.ledger.store_group import Ledgers
from directkafka.pipeline.run_writers import RunWriters
from directkafka.planning.reset_target import RowsPolicy
from directkafka.planning.trigger import Backlog, Interval, Trigger
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import schema_ids, with_notes

AWAY = StoreUnavailableError(store="b", cause="gone fishing")


def two_stores(
    world: World, entries: tuple[LedgerEntry | None, LedgerEntry | None] = (None, None), generation: int = 0
) -> list[FakeStore]:
    return [FakeStore(world, name, entry, generation) for name, entry in zip("ab", entries, strict=True)]


def entries_after_crash_between_the_stores(latest: int = 10) -> tuple[LedgerEntry | None, LedgerEntry | None]:
    """The first has batch 1, the second does not."""
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=latest)
    world.fail("commit b", None, TransformError(source="crash", cause="here"))
    with pytest.raises(TransformError):
        driver.engine.run()
    first, second = (store.entry for store in driver.stores)
    assert first is not None
    assert second is not None
    assert (first.batch_id, second.batch_id) == (1, 0)
    return first, second


def test_stores_are_fenced_all_before_any_is_read_and_commit_in_the_listed_order() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    driver.engine.run()
    protocol = [event for event in world.events if event.split()[0] in ("fence", "read", "commit", "write")]
    before_the_fence = ["read b"]  # only to hand out a generation above all
    fenced = [*before_the_fence, "fence a", "fence b", "read a", "read b"]
    assert protocol == [*fenced, "commit a", "commit b", "write", "commit a", "commit b"]
    assert [store.generation for store in driver.stores] == [1, 1]


def test_a_first_store_that_was_made_anew_takes_a_generation_above_the_others_fences() -> None:
    """The other one was fenced more often than its entry tells; nobody else is at work."""
    world = World()
    stores = two_stores(world)
    stores[1].generation = 7
    bench(world=world, stores=stores, latest=10).engine.run()
    assert [store.generation for store in stores] == [8, 8]
    assert [store.entry and store.entry.generation for store in stores] == [8, 8]


def test_a_driver_that_was_overtaken_between_two_fences_does_not_take_the_pipeline_back() -> None:
    world = World()
    stores = two_stores(world)

    class Overtaken(FakeStore):
        def fence(self, pipeline: str, *, generation: int | None = None) -> int:
            stores[0].generation = self.generation = 5  # a newer driver has come and gone through both
            return super().fence(pipeline, generation=generation)

    stores[1] = Overtaken(world, "b")
    with pytest.raises(FencedError) as caught:
        bench(world=world, stores=stores).engine.run()
    assert (caught.value.store, caught.value.found) == ("a", 5)
    assert [store.generation for store in stores] == [5, 5]


def test_several_stores_commit_durably_and_a_single_one_as_its_server_has_it() -> None:
    world = World()
    several, single = bench(world=world, stores=two_stores(world)), bench()
    several.engine.run()
    single.engine.run()
    assert [store.is_durable for store in several.stores] == [True, True]
    assert not single.stores[0].is_durable


def test_after_a_crash_the_store_behind_gets_the_pinned_ranges_and_the_other_nothing() -> None:
    entries = entries_after_crash_between_the_stores()
    world = World()
    driver = bench(world=world, stores=two_stores(world, entries, generation=1), latest=25)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 10)"), (2, "t-0[10, 25)")]
    assert [batch for batch, _ in driver.stores[0].rows] == [2]
    assert [batch for batch, _ in driver.stores[1].rows] == [1, 2]


def test_a_pinned_batch_is_read_with_the_schemas_of_its_entry_and_the_next_one_with_the_run_s() -> None:
    first, second = entries_after_crash_between_the_stores()
    assert first is not None
    world = World()
    stores = two_stores(world, (with_notes(first, schema_ids={"value": 1}), second), generation=1)
    driver = bench(world=world, stores=stores, latest=25)
    asked: list[dict[str, int]] = []

    class Writers(RunWriters[Any]):
        schema_ids: ClassVar = {"value": 2}

        def of(self, entry: LedgerEntry) -> Any:
            asked.append(schema_ids(entry))
            return super().of(entry)

    driver.engine._writers = Writers(driver.writer)
    driver.engine.run()
    assert asked == [{"value": 1}]
    assert [(entry.batch_id, schema_ids(entry)) for entry in stores[1].committed] == [
        (1, {"value": 1}),
        (2, {"value": 2}),
    ]


def test_a_pinned_batch_is_looked_for_again_before_it_is_called_lost() -> None:
    entries = entries_after_crash_between_the_stores()
    world = World()
    driver = bench(world=world, stores=two_stores(world, entries, generation=1), latest=25)
    driver.cluster.moves.extend([4, 25])  # a new leader's high watermark, then the real one
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 10)"), (2, "t-0[10, 25)")]
    assert driver.cluster.looks[:2] == [False, True]


def test_a_pinned_batch_is_read_under_the_leader_epoch_that_it_was_planned_in() -> None:
    entries = entries_after_crash_between_the_stores()
    world = World()
    driver = bench(world=world, stores=two_stores(world, entries, generation=1), latest=25)
    driver.cluster.leader_epoch, driver.cluster.cut_at = 3, 25
    driver.engine.run()
    assert driver.cluster.task_epochs == [0, 3]


def test_a_pinned_batch_whose_records_were_cut_away_and_replaced_is_a_loss() -> None:
    entries = entries_after_crash_between_the_stores()
    world = World()
    driver = bench(world=world, stores=two_stores(world, entries, generation=1), latest=25)
    driver.cluster.leader_epoch, driver.cluster.cut_at = 3, 6
    with pytest.raises(DataLossError, match="LOG_TRUNCATED") as caught:
        driver.engine.run()
    assert (caught.value.lost_from, caught.value.lost_until) == (6, 10)
    assert driver.writer.written == []


def test_sinks_are_prepared_before_a_store_behind_is_caught_up() -> None:
    entries = entries_after_crash_between_the_stores()
    world = World()
    driver = bench(world=world, stores=two_stores(world, entries, generation=1), latest=10)
    driver.engine.run()
    assert world.events.index("prepare") < world.events.index("write")


def test_no_later_batch_runs_until_the_store_behind_has_caught_up() -> None:
    entries = entries_after_crash_between_the_stores()
    world = World()
    driver = bench(world=world, stores=two_stores(world, entries, generation=1), latest=25)
    world.fail("commit b", AWAY, AWAY)
    driver.engine.run()
    assert {batch for batch, _ in driver.writer.written[:-1]} == {1}
    assert driver.writer.written[-1] == (2, "t-0[10, 25)")


def test_a_commit_that_fails_in_the_second_store_is_made_good_with_the_same_rows() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    world.fail("commit b", None, AWAY, AWAY)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 10)")], "computed once, kept until all have it"
    assert driver.stores[0].rows == driver.stores[1].rows


def test_a_batch_that_the_second_store_got_at_a_later_try_is_told_once() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    world.fail("commit b", None, AWAY)
    driver.engine.run()
    assert [(report.batch_id, report.records) for report in driver.reports] == [(1, 10)]
    assert driver.cluster.told == [10]
    assert driver.engine._status.view.batch_count == 1


def test_rows_whose_staging_is_gone_are_written_again_for_the_store_that_lacks_them() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    world.fail("commit b", None, RowCountError(store="b", sink="rows", reported=10, found=0))
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 10)")] * 2
    assert len(driver.stores[0].rows) == len(driver.stores[1].rows) == 1


def test_a_commit_that_fails_in_the_first_store_leaves_the_second_alone() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    world.fail("commit a", None, TransformError(source="x", cause="y"))
    with pytest.raises(TransformError):
        driver.engine.run()
    assert driver.stores[1].entry is not None
    assert driver.stores[1].entry.batch_id == 0


def test_a_crash_between_the_first_entries_leads_to_one_origin() -> None:
    world = World()
    crashed = bench(world=world, stores=two_stores(world), latest=10)
    world.fail("commit b", TransformError(source="crash", cause="here"))
    with pytest.raises(TransformError):
        crashed.engine.run()
    entry = crashed.stores[0].entry
    again = World()
    driver = bench(world=again, stores=two_stores(again, (entry, None), generation=1), latest=30)
    driver.engine.run()
    assert driver.writer.written == [(1, "t-0[0, 30)")]
    assert [batch for batch, _ in driver.stores[1].rows] == [1]


def test_a_store_added_later_begins_where_the_others_end_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    before = bench(latest=10)
    before.engine.run()
    world = World()
    driver = bench(world=world, stores=two_stores(world, (before.stores[0].entry, None), generation=0), latest=25)
    driver.stores[0].generation = 1
    driver.engine.run()
    assert driver.writer.written == [(2, "t-0[10, 25)")]
    assert [batch for batch, _ in driver.stores[1].rows] == [2]
    assert "join at batch 1" in caplog.text
    assert driver.stores[1].entry is not None
    assert [progress.origin for progress in driver.stores[1].entry.progress] == [10]


def test_a_new_store_in_the_first_place_hands_out_a_generation_above_the_others() -> None:
    before = bench(stores=[FakeStore(World(), "a", generation=6)], latest=10)
    before.engine.run()
    world = World()
    known = FakeStore(world, "a", before.stores[0].entry, generation=7)
    driver = bench(world=world, stores=[FakeStore(world, "new"), known], latest=10)
    driver.engine.run()
    assert [store.generation for store in driver.stores] == [8, 8]


def test_a_retry_of_the_second_fence_keeps_the_first_generation() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    world.fail("fence b", AWAY)
    driver.engine.run()
    assert [store.generation for store in driver.stores] == [1, 1]


@pytest.mark.parametrize("is_other", [True, False])
def test_stores_without_a_common_history_are_refused(is_other: bool) -> None:
    first, second = bench(latest=10), bench(latest=10 if is_other else 20)
    first.engine.run()
    second.engine.run()
    left, right = first.stores[0].entry, second.stores[0].entry
    assert left is not None
    world = World()
    driver = bench(world=world, stores=two_stores(world, (left, right), generation=1), latest=10)
    with pytest.raises((LineageError, OffsetMismatchError)):
        driver.engine.run()
    assert "write" not in world.events


def test_two_sinks_of_one_name_in_one_store_are_refused() -> None:
    store = FakeStore(World(), "a")
    routes = [Route(output=output, sink=FakeSink(store)) for output in ("x", "y")]  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="two sinks write rows of a"):
        Ledgers("flights", routes).connect()


@pytest.mark.parametrize("stores", [("a", "a"), ("a", "b")], ids=["one store", "two stores"])
def test_two_names_of_one_table_are_refused_in_one_store_and_in_two(
    stores: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    sinks: list[Any] = [
        FakeSink(FakeStore(world, store), name) for store, name in zip(stores, ("x", "s.x"), strict=True)
    ]
    monkeypatch.setattr(FakeSink, "target", "server/s.x")
    with pytest.raises(OptionError, match=r"two sinks write s\.x, which is x under another name, of"):
        Ledgers("flights", [Route(output="default", sink=sink) for sink in sinks]).connect()


def test_stores_of_one_identity_are_one() -> None:
    world = World()
    driver = bench(world=world, stores=[FakeStore(world, "a")], latest=5)
    twin = FakeStore(world, "a")
    sinks = [FakeSink(driver.stores[0], "x"), FakeSink(twin, "y")]
    ledgers = Ledgers("flights", [Route(output="default", sink=sink) for sink in sinks])  # type: ignore[arg-type]
    ledgers.connect()
    ledgers.fence()
    assert world.events == ["fence a"]
    assert twin.held is None


def test_a_reset_that_one_store_lacks_is_said_before_the_next_start() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    driver.engine.run()
    before = driver.stores[0].entry
    assert before is not None
    start = replace(before.progress[0], start=4, end=4, origin=4)
    done = reset_entry(before, {start.topic_partition: start}, RowsPolicy.KEEP)
    stores = two_stores(world, (done, before), generation=1)
    routes: list[Any] = [Route(output="default", sink=FakeSink(store)) for store in stores]  # type: ignore[arg-type]
    ledgers = Ledgers("flights", routes)
    ledgers.connect()
    assert ledgers.waiting() == (
        "a reset was ended between two stores: the next start, or directkafka reset, finishes it",
    )


@pytest.mark.parametrize("trigger", [Interval(100), Backlog(1, 60_000)])
def test_a_store_that_loses_its_newest_batch_while_there_is_nothing_to_do_gets_it_again(trigger: Trigger) -> None:
    """A failover to a copy that lacked it, which has the fence."""
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10, trigger=trigger, stop_after_waits=400)
    first, second = driver.stores
    failover_s = driver.clock.now_s + 20

    def happens() -> None:
        if second.entry is second.committed[-1] and driver.clock.now_s >= failover_s and len(second.committed) == 2:
            second.entry = second.committed[0]
            del second.rows[:]
        if driver.clock.now_s >= failover_s + 10:
            driver.cluster.latest = 20

    world.fail("snapshot", None, *[happens] * 10_000)
    driver.engine.run()
    assert [[number for number, _ in store.rows] for store in (first, second)] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("trigger", [Interval(100), Backlog(1, 60_000)])
def test_a_ledger_that_is_gone_while_there_is_nothing_to_do_is_an_error_of_its_own(trigger: Trigger) -> None:
    driver = bench(latest=10, trigger=trigger, stop_after_waits=400)
    store, emptied_s = driver.stores[0], driver.clock.now_s + 20

    def happens() -> None:
        if driver.clock.now_s >= emptied_s:
            store.entry, store.generation = None, 0

    driver.world.fail("snapshot", None, *[happens] * 10_000)
    with pytest.raises(FencedError):
        driver.engine.run()


def test_a_store_whose_look_fails_is_durable_too_when_it_is_connected_again() -> None:
    world = World()
    driver = bench(world=world, stores=two_stores(world), latest=10)
    force_durable, tries = driver.stores[0].force_durable, iter([AWAY, None])

    def fails_once() -> None:
        if (error := next(tries)) is not None:
            raise error
        force_durable()

    driver.stores[0].force_durable = fails_once  # type: ignore[method-assign]
    driver.engine.run()
    assert [store.is_durable for store in driver.stores] == [True, True]


def test_two_stores_of_a_server_that_is_started_again_while_they_are_asked_are_one() -> None:
    class Asked(FakeStore):
        """Names the server's start, and remembers it until it is closed."""

        starts = 0
        asked: str | None = None

        @property
        def identity(self) -> str:
            self.asked = self.asked or f"server {Asked.starts}"
            return self.asked

        def close(self) -> None:
            self.asked = None

    class RestartsOnce(FakeSink):
        @property
        def target(self) -> str:
            if Asked.starts == 0:
                Asked.starts = 1
                raise AWAY
            return "the letters"

    world = World()
    sinks = [FakeSink(Asked(world, "a"), "rows"), RestartsOnce(Asked(world, "a"), "letters")]
    group = Ledgers("flights", [Route(output="default", sink=sink) for sink in sinks])  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailableError):
        group.connect()
    group.connect()
    assert group.identities == ("server 1",)


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_pipeline_that_leaves_its_checkpoint_has_a_history_that_its_stores_are_compared_by(fails_at: int) -> None:
    """Its entries wait for another checkpoint, each under a number of its own store's."""
    world = World()
    first, _ = entries_after_crash_between_the_stores()
    assert first is not None
    waiting = tuple(replace(first, lineage=OPEN_LINEAGE, batch_id=number) for number in (3, 0))
    driver = bench(world=world, stores=two_stores(world, waiting), latest=25)
    world.fail("commit b", *[None] * fails_at, AWAY)
    driver.engine.run()
    entries = [store.entry for store in driver.stores]
    assert [entry and (entry.batch_id, entry.ends()) for entry in entries] == [(1, {PARTITION: 25})] * 2
    assert len({entry and entry.lineage for entry in entries} - {OPEN_LINEAGE}) == 1
    # Batch 0 has no rows in any store: a query over nothing may give one.
    assert [batch_id for batch_id, _ in driver.stores[1].rows] == [1]
