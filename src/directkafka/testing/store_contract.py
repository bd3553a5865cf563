"""The tests that every store and its sinks must pass; no Spark and no Kafka needed.

For a store of one's own::

    from directkafka.testing.store_contract import StoreContract

    class TestMyStore(StoreContract):
        @pytest.fixture
        def harness(self, tmp_path):
            return MyHarness(tmp_path)          # see StoreHarness

A store of tables, whose rows have keys, passes :mod:`directkafka.testing.table_contract` as well; one that can take
rows back, :mod:`directkafka.testing.rehearsal_contract`.

The suite plays the pipeline's part: it fences, lets task writers consume Arrow batches, and commits.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import (
    FencedError,
    OffsetMismatchError,
    RowCountError,
    SchemaMismatchError,
)
from directkafka.sinks.api import LedgerEntry
from directkafka.sinks.ledger import dropped
from directkafka.testing.store_driver import SCHEMA, BrokenSink, Job, StoreHarness, batches_of, run_together, seen_soon

__all__ = ["Job", "StoreContract", "StoreHarness"]


class StoreContract:
    """What every store does, with sinks that append; subclass it and give a fixture ``harness``."""

    @pytest.fixture
    def job(self, harness: StoreHarness) -> Iterator[Job]:
        """A driver that owns the pipeline ``flights``."""
        job = Job(harness.open_store()).start()
        yield job
        job.store.close()

    # Fence.

    def test_a_new_pipeline_has_no_entry(self, harness: StoreHarness) -> None:
        """Reading is no writing: a ledger that nobody fenced is empty, not an error."""
        store = harness.open_store()
        assert store.read("flights") is None
        store.close()

    def test_fences_hand_out_rising_generations(self, harness: StoreHarness) -> None:
        """Across store objects as across processes."""
        first, second = harness.open_store(), harness.open_store()
        generations = [first.fence("flights"), second.fence("flights"), first.fence("flights")]
        assert generations == sorted(set(generations))
        assert generations[0] >= 1
        first.close()
        second.close()

    def test_a_given_generation_is_taken_only_when_it_is_higher(self, harness: StoreHarness) -> None:
        """A pipeline's second store takes the first one's generation."""
        store, other = harness.open_store(), harness.open_store()
        assert store.fence("flights", generation=7) == 7
        for given in (7, 3):
            with pytest.raises(FencedError) as caught:
                other.fence("flights", generation=given)
            assert (caught.value.held, caught.value.found) == (given, 7)
        assert other.fence("flights", generation=9) == 9
        store.close()
        other.close()

    def test_a_repeated_fence_of_one_driver_is_the_same_fence(self, harness: StoreHarness) -> None:
        """The answer to a fence can be lost; the driver that asks again is no stranger."""
        store = harness.open_store()
        assert store.fence("flights", generation=5) == 5
        assert store.fence("flights", generation=5) == 5
        store.close()

    def test_an_older_generation_is_refused_everywhere(self, harness: StoreHarness) -> None:
        """Fence, read and commit of the older driver all name both generations."""
        sink = harness.sink("flights")
        old = Job(harness.open_store()).start()
        old.run((sink, [[(1, 1)]]))
        new = Job(harness.open_store()).start()
        for step in (
            lambda: old.run((sink, [[(2, 1)]])),
            lambda: old.store.read("flights"),
            lambda: old.store.fence("flights", generation=old.generation),
        ):
            with pytest.raises(FencedError) as caught:
                step()
            assert (caught.value.held, caught.value.found) == (old.generation, new.generation)
        assert harness.rows(sink) == [(1, 1)]
        new.run((sink, [[(3, 1)]]))
        assert harness.rows(sink) == [(1, 1), (3, 1)]
        old.store.close()
        new.store.close()

    def test_of_two_fences_at_once_one_wins(self, harness: StoreHarness) -> None:
        """Two drivers take the same given generation at one moment."""
        stores = [harness.open_store(), harness.open_store()]
        results = run_together(*(lambda s=s: s.fence("flights", generation=4) for s in stores))
        assert sorted(map(type, results), key=str) == sorted([int, FencedError], key=str), results
        for store in stores:
            store.close()

    def test_of_two_drivers_at_once_one_batch_lands(self, harness: StoreHarness) -> None:
        """Both fence, then both commit batch 0 at one moment: one lands, whole."""
        sinks = [harness.sink("flights"), harness.sink("flights")]
        jobs = [Job(harness.open_store()).start(), Job(harness.open_store()).start()]
        results = run_together(
            lambda: jobs[0].run((sinks[0], [[(1, 1), (2, 1)]])),
            lambda: jobs[1].run((sinks[1], [[(3, 1), (4, 1)]])),
        )
        assert isinstance(results[0], FencedError)
        assert isinstance(results[1], LedgerEntry)
        assert harness.rows(sinks[0]) == [(3, 1), (4, 1)]
        for job in jobs:
            job.store.close()

    # Ledger.

    def test_the_first_commit_follows_nothing(self, harness: StoreHarness, job: Job) -> None:
        """Batch 0 has no rows; what was committed is what is read."""
        entry = replace(job.next_entry(), batch_id=0)
        committed = job.store.commit(entry, previous=None)
        assert committed == replace(entry, row_counts={}, total_rows={})
        assert job.store.read("flights") == committed

    def test_ids_of_schemas_stand_in_the_entry_of_their_batch_alone(self, harness: StoreHarness, job: Job) -> None:
        """They are no rows, so no total has them."""
        entry = replace(job.next_entry(), batch_id=0, row_counts={"(schema id of value)": 17})
        committed = job.store.commit(entry, previous=None)
        assert (committed.row_counts, committed.total_rows) == ({"(schema id of value)": 17}, {})
        assert job.store.read("flights") == committed
        following = replace(entry, batch_id=1, row_counts={})
        assert job.store.commit(following, previous=committed).row_counts == {}

    def test_pipelines_that_have_committed_are_listed(self, harness: StoreHarness, job: Job) -> None:
        """By whoever looks, without a fence; one that has a fence and no batch is left out."""
        looking = harness.open_store()
        try:
            listed = looking.pipelines()
        except NotImplementedError:
            pytest.skip("the store cannot tell which pipelines it has")
        assert listed == ()
        job.run()
        for name in ("a-later", "Trains", "_never"):
            job.store.fence(name)
        for name in ("a-later", "Trains"):
            entry = replace(job.next_entry(), pipeline=name, batch_id=0, generation=1)
            job.store.commit(entry, previous=None)
        expected = ("Trains", "a-later", "flights")
        assert seen_soon(looking.pipelines, expected) == expected
        looking.close()

    def test_a_reset_goes_back_in_a_lineage_of_its_own_and_what_it_counts_is_kept(
        self, harness: StoreHarness, job: Job
    ) -> None:
        """``directkafka reset`` commits an entry without rows, whose offsets may lie anywhere."""
        sink = harness.sink("flights")
        job.run((sink, [[(1, 1), (2, 1)]]))
        before = job.run((sink, [[(3, 1)]]))
        new = Job(harness.open_store(), lineage="lineage-2").start()
        assert new.last == before
        back = replace(before.progress[0], start=3, end=3)
        entry = replace(new.next_entry(), progress=(back,), total_rows={"(offsets that a reset skipped)": 7})
        committed = new.store.commit(entry, previous=new.last)
        assert (committed.lineage, committed.ends()) == ("lineage-2", {back.topic_partition: 3})
        assert committed.total_rows == {sink.name: 3, "(offsets that a reset skipped)": 7}
        assert new.store.read("flights") == committed
        with pytest.raises(FencedError):
            job.run((sink, [[(4, 1)]]))
        new.last = committed
        after = new.run((sink, [[(5, 1)]]))
        assert after.total_rows == {sink.name: 4, "(offsets that a reset skipped)": 7}
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1), (5, 1)]
        new.store.close()

    def test_a_pipeline_that_is_dropped_begins_anew_and_its_older_drivers_stay_fenced(
        self, harness: StoreHarness, job: Job
    ) -> None:
        """``directkafka drop`` and ``resume`` commit an entry that stands for none."""
        sink = harness.sink("flights")
        job.run((sink, [[(1, 1), (2, 1)]]))
        job.run((sink, [[(3, 1)]]))
        dropping = Job(harness.open_store()).start()
        assert dropping.last is not None
        last = replace(dropping.last, generation=dropping.generation)
        dropping.store.commit(dropped(last), previous=dropping.last)
        for store in (dropping.store, harness.open_store()):
            assert seen_soon(partial(store.read, "flights"), None) is None
            store.close()
        with pytest.raises(FencedError):
            job.run((sink, [[(4, 1)]]))
        new = Job(harness.open_store(), lineage="lineage-2").start()
        assert (new.last, new.generation) == (None, dropping.generation + 1)
        assert new.run((sink, [[(5, 1)]])).total_rows == {sink.name: 1}
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1), (5, 1)]
        new.store.close()

    def test_a_batch_that_skips_a_number_is_refused(self, harness: StoreHarness, job: Job) -> None:
        """Batch ids count within a lineage."""
        first = job.run()
        with pytest.raises(OffsetMismatchError):
            job.store.commit(replace(job.next_entry(), batch_id=2), previous=first)
        with pytest.raises(OffsetMismatchError):
            job.store.commit(replace(job.next_entry(), batch_id=0), previous=first)
        assert job.store.read("flights") == first

    def test_a_ledger_that_moved_is_an_error_with_both_sides(self, harness: StoreHarness, job: Job) -> None:
        """The batch continues an entry that is no longer the last one."""
        sink = harness.sink("flights")
        first = job.run((sink, [[(1, 1)]]))
        job.run((sink, [[(2, 1)]]))
        stale = replace(job.next_entry(), batch_id=1)
        with pytest.raises(OffsetMismatchError) as caught:
            job.store.commit(stale, previous=first)
        assert "flights-0: 10" in caught.value.expected
        assert "flights-0: 20" in caught.value.found
        assert harness.rows(sink) == [(1, 1), (2, 1)]

    def test_other_ends_are_a_mismatch_even_if_the_batch_id_fits(self, harness: StoreHarness, job: Job) -> None:
        """The condition is on offsets, not on a counter alone."""
        first = job.run()
        moved = replace(first, progress=(replace(first.progress[0], end=9),))
        with pytest.raises(OffsetMismatchError) as caught:
            job.store.commit(job.next_entry(), previous=moved)
        assert "flights-0: 9" in caught.value.expected
        assert "flights-0: 10" in caught.value.found

    def test_a_first_batch_is_refused_where_a_ledger_is(self, harness: StoreHarness, job: Job) -> None:
        """A driver that did not read starts over: refused."""
        first = job.run()
        with pytest.raises(OffsetMismatchError):
            job.store.commit(replace(first, lineage="lineage-2"), previous=None)

    def test_a_new_lineage_may_adopt_the_ledger(self, harness: StoreHarness, job: Job) -> None:
        """Batch ids start again with it, offsets do not."""
        first = job.run()
        adopted = replace(job.next_entry(), lineage="lineage-2", batch_id=0)
        assert job.store.commit(adopted, previous=first).lineage == "lineage-2"

    def test_an_entry_is_read_after_a_fence_and_a_new_start(self, harness: StoreHarness) -> None:
        """The next driver finds the entry of the last one, with the generation that committed it."""
        old = Job(harness.open_store()).start()
        committed = old.run((harness.sink("flights"), [[(1, 1), (2, 1)]]))
        old.store.close()
        new = Job(harness.open_store()).start()
        assert new.last == committed
        assert new.generation > committed.generation
        new.store.close()

    def test_a_closed_store_opens_again(self, harness: StoreHarness, job: Job) -> None:
        """Closing gives connections back; the fence stays."""
        sink = harness.sink("flights")
        job.run((sink, [[(1, 1)]]))
        job.store.close()
        job.run((sink, [[(2, 1)]]))
        assert harness.rows(sink) == [(1, 1), (2, 1)]

    def test_pipelines_do_not_disturb_each_other(self, harness: StoreHarness, job: Job) -> None:
        """One row per pipeline."""
        other = Job(harness.open_store(), pipeline="weather").start()
        sink = harness.sink("flights")
        job.run((sink, [[(1, 1)]]))
        assert other.store.read("weather") is None
        other.run((sink, [[(2, 1)]]))
        assert job.run((sink, [[(3, 1)]])).batch_id == 1
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]
        other.store.close()

    def test_one_place_has_one_identity(self, harness: StoreHarness) -> None:
        """Two objects for one place say the same; a sink's store says so too."""
        first, second = harness.open_store(), harness.open_store()
        assert first.identity == second.identity == harness.sink("flights").store.identity
        first.close()
        second.close()

    # Rows.

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_rows_and_entry_arrive_together(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Several tasks, some with no rows; counts and totals by sink."""
        sink = harness.sink("flights", staged=staged)
        entry = job.run((sink, [[(1, 1), (2, 1)], [], [(3, 1)]]))
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]
        assert entry.row_counts == {sink.name: 3}
        entry = job.run((sink, [[(4, 1)]]))
        assert (entry.row_counts, entry.total_rows) == ({sink.name: 1}, {sink.name: 4})
        assert harness.leftovers() == []

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_neither_rows_nor_entry_arrive_after_a_failure(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """The sink breaks between the rows and the end of the transaction; the batch is redone."""
        sink = harness.sink("flights", staged=staged)
        first = job.run((sink, [[(1, 1)]]))
        entry = job.next_entry()
        _, batch, reports = job.write(sink, job.batch(entry), [[(2, 1)], [(3, 1)]])
        with pytest.raises(RuntimeError, match="broke"):
            job.store.commit(
                entry,
                previous=first,
                writes=[(BrokenSink(sink), batch, reports)],
            )
        assert harness.rows(sink) == [(1, 1)]
        assert job.store.read("flights") == first
        job.run((sink, [[(2, 1)], [(3, 1)]]))
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]
        assert harness.leftovers() == []

    def test_two_outputs_arrive_together_or_not_at_all(self, harness: StoreHarness, job: Job) -> None:
        """The second sink of the transaction breaks: the first one's rows go as well."""
        flights, late = harness.sink("flights"), harness.sink("late", staged=True)
        job.run((flights, [[(1, 1)]]), (late, [[(9, 9)]]))
        entry = job.next_entry()
        batch = job.batch(entry)
        writes = [job.write(flights, batch, [[(2, 1)]]), job.write(late, batch, [[(8, 8)]])]
        broken: Any = [writes[0], (BrokenSink(late), *writes[1][1:])]
        with pytest.raises(RuntimeError, match="broke"):
            job.store.commit(entry, previous=job.last, writes=broken)
        assert (harness.rows(flights), harness.rows(late)) == ([(1, 1)], [(9, 9)])
        committed = job.run((flights, [[(2, 1)]]), (late, [[(8, 8)]]))
        assert committed.total_rows == {flights.name: 2, late.name: 2}

    def test_zero_rows_move_the_ledger_alone(self, harness: StoreHarness, job: Job) -> None:
        """A range whose records were all filtered out is still read."""
        sink = harness.sink("flights")
        entry = job.run((sink, [[], []]))
        assert (harness.rows(sink), entry.row_counts) == ([], {sink.name: 0})
        assert job.store.read("flights") == entry

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_rows_of_a_losing_attempt_never_appear(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """A task ran twice to the end; only one report arrived."""
        sink = harness.sink("flights", staged=staged)
        entry = job.next_entry()
        batch = job.batch(entry)
        job.write(sink, batch, [[(1, 1), (2, 1)]])
        winner = job.write(sink, batch, [[(1, 1), (2, 1)], [(3, 1)]])
        job.store.commit(entry, previous=None, writes=[winner])
        assert harness.rows(sink) == [(1, 1), (2, 1), (3, 1)]

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_other_numbers_than_reported_roll_back(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """The store counts for itself."""
        sink = harness.sink("flights", staged=staged)
        entry = job.next_entry()
        _, batch, reports = job.write(sink, job.batch(entry), [[(1, 1), (2, 1)], [(3, 1)]])
        reports[0] = replace(reports[0], rows=5)
        with pytest.raises(RowCountError) as caught:
            job.store.commit(entry, previous=None, writes=[(sink, batch, reports)])
        assert caught.value.reported > caught.value.found
        assert harness.rows(sink) == []
        assert job.store.read("flights") is None

    def test_a_table_that_does_not_fit_is_refused_before_the_first_row(self, harness: StoreHarness, job: Job) -> None:
        """A column of another type, a column that is not there: both are named."""
        sink = harness.sink("flights")
        sink.prepare(SCHEMA)
        other = pa.schema([("id", pa.string()), ("weather", pa.int64())])
        with pytest.raises(SchemaMismatchError) as caught:
            harness.sink("flights").prepare(other)
        assert "'id'" in str(caught.value)
        assert "'weather'" in str(caught.value)

    def test_a_recount_sees_what_a_reader_sees(self, harness: StoreHarness, job: Job) -> None:
        """On a sink that was never prepared."""
        job.run((harness.sink("flights"), [[(1, 5), (1, 6)]]))
        counted = harness.sink("flights").recount()
        assert (counted.rows, counted.is_folded) == (2, False)

    def test_writers_travel(self, harness: StoreHarness, job: Job) -> None:
        """A task writer survives pickling, as on its way to an executor."""
        sink = harness.sink("flights", staged=True)
        sink.prepare(SCHEMA)
        entry = job.next_entry()
        batch = job.batch(entry)
        writer = pickle.loads(pickle.dumps(sink.task_writer(batch, SCHEMA)))
        report = pickle.loads(pickle.dumps(writer(batches_of([(1, 1)]))))
        reports = job.finish(sink, batch, [list(batches_of([(1, 1)]))], [report])
        job.store.commit(entry, previous=None, writes=[(sink, batch, reports)])
        assert harness.rows(sink) == [(1, 1)]
