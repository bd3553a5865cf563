"""The tests that a store of tables passes beside the store contract: the modes that know keys.

Used like :mod:`directkafka.testing.store_contract`; ``TableContract`` has all of its tests too.
"""

from __future__ import annotations

import itertools

import pytest

from directkafka.errors import RowRejectedError
from directkafka.testing.store_contract import StoreContract
from directkafka.testing.store_driver import BrokenSink, Job, StoreHarness


class TableContract(StoreContract):
    """What a store does whose sinks know keys: ``ignore``, ``upsert``, ``merge`` and ``replace`` as well."""

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_ignore_keeps_the_row_that_was_there(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Counts are those of the rows that came."""
        sink = harness.sink("flights", mode="ignore", staged=staged)
        job.run((sink, [[(1, 10), (2, 20)]]))
        entry = job.run((sink, [[(2, 99), (3, 30)], [(3, 30)]]))
        assert harness.rows(sink) == [(1, 10), (2, 20), (3, 30)]
        assert entry.row_counts == {sink.name: 3}

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_of_colliding_rows_ignore_keeps_the_first(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Tasks in their order, a task's rows as they come; as if each row had been a batch of its own.

        The numbers fall, so that neither the lowest nor the last row is the first one; rows that collide are one row
        apart and thousands.
        """
        sink = harness.sink("flights", mode="ignore", staged=staged)
        job.run((sink, [[(-1, 0)]]))
        tasks = [[(row * row % 7_001, -(10_000 * task + row)) for row in range(4_000)] for task in range(5)]
        tasks.append([(-1, 9), (7_001, 5), (7_001, 4)])
        job.run((sink, tasks))
        first = {-1: 0}
        for key, flights in itertools.chain(*tasks):
            first.setdefault(key, flights)
        assert harness.rows(sink) == sorted(first.items())

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_merge_adds_up_by_key(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Rows of one key in one task, in two tasks, in two batches; a null counts as zero."""
        sink = harness.sink("flights", mode="merge", staged=staged)
        job.run((sink, [[(2, 1), (1, 1), (2, 1)], [(2, 5), (3, None)]]))
        assert harness.rows(sink) == [(1, 1), (2, 7), (3, 0)]
        entry = job.run((sink, [[(1, 1), (4, 1), (3, 2)], [(1, 1), (2, None)]]))
        assert harness.rows(sink) == [(1, 3), (2, 7), (3, 2), (4, 1)]
        assert (entry.row_counts, entry.total_rows) == ({sink.name: 5}, {sink.name: 10})

    def test_a_recount_sees_the_sums_of_merge(self, harness: StoreHarness, job: Job) -> None:
        """Two rows were folded into one, whose sum says that both are in it."""
        job.run((harness.sink("sums", mode="merge"), [[(1, 5), (1, 6)]]))
        folded = harness.sink("sums", mode="merge").recount()
        assert (folded.rows, folded.is_folded, dict(folded.sums)) == (1, True, {"flights": 11})

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_upsert_puts_a_row_in_the_place_of_its_key_s(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Keys of two tasks, of two batches; counts are those of the rows that came."""
        sink = harness.sink("flights", mode="upsert", staged=staged)
        job.run((sink, [[(1, 10), (2, 20)], [(3, 30)]]))
        entry = job.run((sink, [[(2, 5), (4, None)], [(3, None)]]))
        assert harness.rows(sink) == [(1, 10), (2, 5), (3, None), (4, None)]
        assert (entry.row_counts, entry.total_rows) == ({sink.name: 3}, {sink.name: 6})
        assert harness.leftovers() == []

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_two_rows_of_a_key_in_a_batch_are_an_error(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Nothing says which one is newer; the message names the key, and the batch is rolled back."""
        sink = harness.sink("flights", mode="upsert", staged=staged)
        first = job.run((sink, [[(1, 10)]]))
        entry = job.next_entry()
        written = job.write(sink, job.batch(entry), [[(1, 11), (7, 70)], [(7, 71)]])
        with pytest.raises(RowRejectedError, match="id = 7"):
            job.store.commit(entry, previous=first, writes=[written])
        assert harness.rows(sink) == [(1, 10)]
        assert job.store.read("flights") == first

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_order_decides_within_a_batch_and_against_the_table(
        self, harness: StoreHarness, job: Job, staged: bool
    ) -> None:
        """The same rows in one batch and in three leave the same table, whatever order they come in."""
        one_batch_sink = harness.sink("one", mode="upsert", order=("flights",), staged=staged)
        three_batch_sink = harness.sink("three", mode="upsert", order=("flights",), staged=staged)
        rows = [[(1, 10), (2, 3)], [(1, 30), (2, 2)], [(1, 20), (2, 1)]]
        job.run((one_batch_sink, rows))
        for task in rows:
            job.run((three_batch_sink, [task]))
        assert harness.rows(one_batch_sink) == harness.rows(three_batch_sink) == [(1, 30), (2, 3)]

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_an_order_that_does_not_decide_is_an_error(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Two equal highest rows of a key; a null, which is neither higher nor lower."""
        sink = harness.sink("flights", mode="upsert", order=("flights",), staged=staged)
        first = job.run((sink, [[(1, 10)]]))
        entry = job.next_entry()
        for tasks, told in (([[(7, 2), (7, 70)], [(7, 70)]], "id = 7"), ([[(8, None)]], "null in the order")):
            written = job.write(sink, job.batch(entry), tasks)
            with pytest.raises(RowRejectedError, match=told):
                job.store.commit(entry, previous=first, writes=[written])
        assert harness.rows(sink) == [(1, 10)]

    @pytest.mark.parametrize("staged", [False, True], ids=["inline", "staged"])
    def test_replace_leaves_the_batch_s_rows_alone(self, harness: StoreHarness, job: Job, staged: bool) -> None:
        """Fewer rows, the same row twice, none."""
        sink = harness.sink("flights", mode="replace", staged=staged)
        job.run((sink, [[(1, 10), (2, 20)], [(3, 30)]]))
        entry = job.run((sink, [[(4, 40)], [(4, 40)]]))
        assert harness.rows(sink) == [(4, 40), (4, 40)]
        assert entry.row_counts == {sink.name: 2}
        job.run((sink, [[], []]))
        assert harness.rows(sink) == []
        assert harness.sink("flights", mode="replace").recount().is_folded

    def test_a_replacement_that_fails_leaves_the_rows_that_were_there(self, harness: StoreHarness, job: Job) -> None:
        """The old rows are gone inside the transaction only."""
        sink = harness.sink("flights", mode="replace")
        first = job.run((sink, [[(1, 10)]]))
        entry = job.next_entry()
        _, batch, reports = job.write(sink, job.batch(entry), [[(2, 20)]])
        with pytest.raises(RuntimeError, match="broke"):
            job.store.commit(entry, previous=first, writes=[(BrokenSink(sink), batch, reports)])
        assert harness.rows(sink) == [(1, 10)]
