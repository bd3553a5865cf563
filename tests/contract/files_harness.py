"""A directory as the contract suite sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from directkafka.errors import SchemaMismatchError
from directkafka.sinks.files.reader import committed_files
from directkafka.sinks.files.schema import Format
from directkafka.sinks.files.sink import ParquetSink
from directkafka.sinks.files.store import FilesStore


@dataclass(frozen=True)
class FilesHarness:
    folder: Path
    format: Format = "parquet"

    def open_store(self) -> FilesStore:
        return FilesStore(self.folder, durable=False)

    def sink(
        self,
        table: str,
        *,
        mode: Literal["append", "ignore", "merge"] = "append",
        staged: bool = False,
    ) -> ParquetSink:
        return ParquetSink(self.folder, mode, table=table, format=self.format, durable=False)

    def rows(self, sink: ParquetSink) -> list[tuple[Any, ...]]:
        try:
            files = committed_files(self.folder, sink.name)
        except SchemaMismatchError:
            return []
        rows = files.dataset().to_table().to_pylist()
        assert len(rows) == files.rows
        return sorted((row["id"], row["flights"]) for row in rows)

    def leftovers(self) -> list[str]:
        """Files that no log lists."""
        listed = {
            path
            for folder in self.folder.iterdir()
            if folder.is_dir() and not folder.name.startswith("_")
            for path in committed_files(self.folder, folder.name).paths
        }
        names = {path for path in self.folder.rglob("*part-*")} | set(self.folder.rglob(".*"))
        return sorted(path.name for path in names - listed)
