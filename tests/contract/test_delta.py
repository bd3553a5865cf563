"""The contract suites on a Delta table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.delta_harness import DeltaHarness

from directkafka.testing.rehearsal_contract import RehearsalContract
from directkafka.testing.store_contract import Job, StoreHarness
from directkafka.testing.store_driver import SCHEMA
from directkafka.testing.table_contract import TableContract


class TestDeltaStore(TableContract, RehearsalContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> DeltaHarness:
        return DeltaHarness(tmp_path)

    def test_two_outputs_arrive_together_or_not_at_all(self, harness: StoreHarness, job: Job) -> None:
        pytest.skip("a table is a store of its own")

    @pytest.mark.parametrize("staged", [True], ids=["staged"])
    def test_order_decides_within_a_batch_and_against_the_table(
        self, harness: StoreHarness, job: Job, staged: bool
    ) -> None:
        """Of the suite's two tables each is a store of its own, and has a driver of its own."""
        rows = [[(1, 10), (2, 3)], [(1, 30), (2, 2)], [(1, 20), (2, 1)]]
        for table, batches in (("one", [rows]), ("three", [[task] for task in rows])):
            sink = harness.sink(table, mode="upsert", order=("flights",), staged=staged)
            sink.check(SCHEMA)
            driver = Job(sink.store).start()
            for tasks in batches:
                driver.run((sink, tasks))
            assert harness.rows(sink) == [(1, 30), (2, 3)]

    def test_a_recount_sees_the_sums_of_merge(self, harness: StoreHarness, job: Job) -> None:
        """In the suite the table is beside the store's."""
        job.run((harness.sink("flights", mode="merge"), [[(1, 5), (1, 6)]]))
        folded = harness.sink("flights", mode="merge").recount()
        assert (folded.rows, folded.is_folded, dict(folded.sums)) == (1, True, {"flights": 11})
