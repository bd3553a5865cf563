"""The contract suite on a real Postgres."""

from __future__ import annotations

import pytest
from tests.contract.postgres_harness import PostgresHarness

from directkafka.testing.store_contract import StoreContract

pytestmark = pytest.mark.real


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def harness(self, database: str) -> PostgresHarness:
        return PostgresHarness(database)
