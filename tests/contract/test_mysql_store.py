"""The contract suite on a real MariaDB."""

from __future__ import annotations

import pytest
from tests.contract.mysql_harness import MySQLHarness

from directkafka.testing.rehearsal_contract import RehearsalContract
from directkafka.testing.table_contract import TableContract

pytestmark = pytest.mark.real


class TestMySQLStore(TableContract, RehearsalContract):
    @pytest.fixture
    def harness(self, mysql_database: str) -> MySQLHarness:
        return MySQLHarness(mysql_database)
