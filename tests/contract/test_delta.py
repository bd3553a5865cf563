"""The contract suite on a Delta table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.delta_harness import DeltaHarness

from directkafka.testing.store_contract import Job, StoreContract, StoreHarness


class TestDeltaStore(StoreContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> DeltaHarness:
        return DeltaHarness(tmp_path)

    def test_two_outputs_arrive_together_or_not_at_all(self, harness: StoreHarness, job: Job) -> None:
        pytest.skip("a table is a store of its own")
