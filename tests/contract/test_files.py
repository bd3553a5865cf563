"""The contract suite on a directory: Parquet files, and lines of JSON. Files are only ever added."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.append_only import AppendOnlyContract
from tests.contract.files_harness import FilesHarness

from directkafka.sinks.file_columns import Format


class TestFilesStore(AppendOnlyContract):
    @pytest.fixture(params=["parquet", "json"])
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> FilesHarness:
        kind: Format = request.param
        return FilesHarness(tmp_path / "data", kind)
