"""The contract suite on a real Postgres."""

from __future__ import annotations

import pytest
from tests.contract.postgres_harness import PostgresHarness

from directkafka.testing.rehearsal_contract import RehearsalContract
from directkafka.testing.table_contract import TableContract

pytestmark = pytest.mark.real


class TestPostgresStore(TableContract, RehearsalContract):
    @pytest.fixture
    def harness(self, database: str) -> PostgresHarness:
        return PostgresHarness(database)
