"""A Delta table as the contract suite sees it: one table, so one sink."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
        mode: Literal["append", "ignore", "upsert", "merge", "replace"] = "append",
        order: Sequence[str] = (),
        staged: bool = False,
    ) -> DeltaSink:
        """Rows take one way, however many they are."""
        key = ["id"] if mode in ("ignore", "upsert", "merge") else None
        add = ["flights"] if mode == "merge" else None
        return DeltaSink(self.folder / table, mode, key, add, list(order) or None, durable=False)

    def rows(self, sink: DeltaSink) -> list[tuple[Any, ...]]:
        if not DeltaTable.is_deltatable(str(sink.store.folder)):
            return []
        rows = DeltaTable(sink.store.folder).to_pyarrow_table().to_pylist()
        return sorted(((row["id"], row["flights"]) for row in rows), key=lambda row: (row[0], row[1] or 0))

    def leftovers(self) -> list[str]:
        """Files that no version of the table names; those that a merge has taken out of it are for VACUUM."""
        folder = self.folder / "flights"
        lines = [line for path in (folder / "_delta_log").glob("*.json") for line in path.read_text().splitlines()]
        named = {action["add"]["path"] for action in map(json.loads, lines) if "add" in action}
        file_names = {path.name for path in folder.rglob("*part-*")}
        return sorted((file_names - named) | {path.name for path in self.folder.rglob(".*.tmp")})
