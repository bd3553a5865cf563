"""The contract suite on a directory: Parquet files, and lines of JSON. Files are only ever added."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.files_harness import FilesHarness

from directkafka.sinks.files.schema import Format
from directkafka.testing.rehearsal_contract import RehearsalContract
from directkafka.testing.store_contract import StoreContract


class TestFilesStore(StoreContract, RehearsalContract):
    @pytest.fixture(params=["parquet", "json"])
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> FilesHarness:
        kind: Format = request.param
        return FilesHarness(tmp_path / "data", kind)
