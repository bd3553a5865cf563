"""Embedded databases as the contract suite sees them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from tests.contract.postgres_harness import KEYS

from directkafka.sinks.embedded.duckdb import DuckDBSink, DuckDBStore
from directkafka.sinks.embedded.sink import EmbeddedSink
from directkafka.sinks.embedded.sqlite import SQLiteSink, SQLiteStore
from directkafka.sinks.embedded.store import EmbeddedStore
from directkafka.sinks.write_modes import Mode

__all__ = ["DuckDBHarness", "SQLiteHarness"]


@dataclass(frozen=True)
class _FileHarness:
    folder: Path

    def leftovers(self) -> list[str]:
        return [str(path) for path in self.folder.rglob("*") if "staging" in str(path)]


class SQLiteHarness(_FileHarness):
    @property
    def path(self) -> Path:
        return self.folder / "flights.db"

    def open_store(self) -> SQLiteStore:
        return SQLiteStore(self.path, lock_timeout_s=5.0)

    def sink(self, table: str, *, mode: Mode = "append", order: Sequence[str] = (), staged: bool = False) -> SQLiteSink:
        return SQLiteSink(self.path, table, mode, **KEYS[mode], order=order, inline_bytes_max=0 if staged else 1 << 20)

    def rows(self, sink: EmbeddedSink) -> list[tuple[Any, ...]]:
        # ``with`` a connection of sqlite3 is a transaction, and leaves it open.
        with closing(sqlite3.connect(self.path)) as connection:
            try:
                return sorted(connection.execute(f'SELECT * FROM "{sink.name}"').fetchall())
            except sqlite3.OperationalError:
                return []


class DuckDBHarness(_FileHarness):
    @property
    def path(self) -> Path:
        return self.folder / "flights.duckdb"

    def open_store(self) -> EmbeddedStore:
        return DuckDBStore(self.path, lock_timeout_s=5.0)

    def sink(self, table: str, *, mode: Mode = "append", order: Sequence[str] = (), staged: bool = False) -> DuckDBSink:
        return DuckDBSink(self.path, table, mode, **KEYS[mode], order=order, inline_bytes_max=0 if staged else 1 << 20)

    def rows(self, sink: EmbeddedSink) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.path)) as connection:
            try:
                return sorted(connection.execute(f'SELECT * FROM "{sink.name}"').fetchall())
            except duckdb.CatalogException:
                return []
