"""The contract suites on the files of embedded databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.file_harness import DuckDBHarness, SQLiteHarness

from directkafka.testing.rehearsal_contract import RehearsalContract
from directkafka.testing.table_contract import TableContract


class TestSQLiteStore(TableContract, RehearsalContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> SQLiteHarness:
        return SQLiteHarness(tmp_path)


class TestDuckDBStore(TableContract, RehearsalContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> DuckDBHarness:
        return DuckDBHarness(tmp_path)
