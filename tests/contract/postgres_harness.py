"""Postgres as the contract suite sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.sinks.write_modes import Mode

KEYS: dict[str, dict[str, Sequence[str]]] = {
    "append": {},
    "ignore": {"key": ["id"]},
    "upsert": {"key": ["id"]},
    "merge": {"key": ["id"], "add": ["flights"]},
    "replace": {},
}


@dataclass(frozen=True)
class PostgresHarness:
    dsn: str

    def open_store(self) -> PostgresStore:
        return PostgresStore(self.dsn, fence_timeout_s=5.0)

    def sink(
        self,
        table: str,
        *,
        mode: Mode = "append",
        order: Sequence[str] = (),
        staged: bool = False,
    ) -> PostgresSink:
        inline_bytes_max = 0 if staged else 1 << 20
        return PostgresSink(self.dsn, table, mode, **KEYS[mode], order=order, inline_bytes_max=inline_bytes_max)

    def rows(self, sink: PostgresSink) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn) as connection:
            try:
                cursor = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(*sink.name.split("."))))
            except psycopg.errors.UndefinedTable:
                return []
            return sorted(cursor.fetchall())

    def leftovers(self) -> list[str]:
        with psycopg.connect(self.dsn) as connection:
            cursor = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'directkafka_stage%'")
            return [name for (name,) in cursor.fetchall()]
