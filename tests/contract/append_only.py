"""The contract of a store whose rows are only ever added: there is no table that rows could meet rows in."""

from __future__ import annotations

import pytest

from directkafka.testing.store_contract import Job, StoreContract, StoreHarness


class AppendOnlyContract(StoreContract):
    def test_ignore_keeps_the_row_that_was_there(self, harness: StoreHarness, job: Job, staged: bool = False) -> None:
        pytest.skip("rows are only added")

    def test_merge_adds_up_by_key(self, harness: StoreHarness, job: Job, staged: bool = False) -> None:
        pytest.skip("rows are only added")

    def test_a_recount_sees_what_a_reader_sees(self, harness: StoreHarness, job: Job) -> None:
        sink = harness.sink("flights")
        job.run((sink, [[(1, 5), (1, 6)]]))
        counted = harness.sink("flights").recount()
        assert (counted.rows, counted.doubled, counted.is_folded) == (2, 0, False)
