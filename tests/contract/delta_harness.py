"""A Delta table as the contract suite sees it: one table, so one sink."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deltalake import DeltaTable

from directkafka.sinks.delta.sink import DeltaSink
from directkafka.sinks.delta.store import DeltaStore
from directkafka.testing.store_driver import SCHEMA


@dataclass(frozen=True)
class DeltaHarness:
    folder: Path

    def open_store(self) -> DeltaStore:
        store = DeltaStore(self.folder / "flights", durable=False)
        store.log.schema_to_make = SCHEMA
        return store

    def sink(
        self,
        table: str,
        *,
        mode: Literal["append", "ignore", "merge"] = "append",
        staged: bool = False,
    ) -> DeltaSink:
        return DeltaSink(self.folder / table, mode, durable=False)

    def rows(self, sink: DeltaSink) -> list[tuple[Any, ...]]:
        if not DeltaTable.is_deltatable(str(sink.store.folder)):
            return []
        rows = DeltaTable(sink.store.folder).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["flights"]) for row in rows)

    def leftovers(self) -> list[str]:
        """Files that the table does not name."""
        table = DeltaTable(self.folder / "flights")
        listed = {Path(uri.removeprefix("file://")).name for uri in table.file_uris()}
        found = {path.name for path in (self.folder / "flights").rglob("*part-*")}
        return sorted((found - listed) | {path.name for path in self.folder.rglob(".*.tmp")})
