"""MariaDB as the contract suite sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from tests.contract.postgres_harness import KEYS

from directkafka.sinks.mysql.session import MySQLAddress, execute, is_error, quoted
from directkafka.sinks.mysql.sink import MySQLSink
from directkafka.sinks.mysql.store import MySQLStore
from directkafka.sinks.write_modes import Mode

NO_SUCH_TABLE = 1146


@dataclass(frozen=True)
class MySQLHarness:
    dsn: str

    def open_store(self) -> MySQLStore:
        return MySQLStore(self.dsn, fence_timeout_s=5.0)

    def sink(
        self,
        table: str,
        *,
        mode: Mode = "append",
        order: Sequence[str] = (),
        staged: bool = False,
    ) -> MySQLSink:
        inline_bytes_max = 0 if staged else 1 << 20
        return MySQLSink(self.dsn, table, mode, **KEYS[mode], order=order, inline_bytes_max=inline_bytes_max)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        connection = MySQLAddress.parse(self.dsn).connect("tests")
        try:
            return execute(connection, statement)
        finally:
            connection.close()

    def rows(self, sink: MySQLSink) -> list[tuple[Any, ...]]:
        try:
            return sorted(self.query(f"SELECT * FROM {quoted(*sink.name.split('.'))}"))
        except pymysql.MySQLError as error:
            if not is_error(error, NO_SUCH_TABLE):
                raise
            return []

    def leftovers(self) -> list[str]:
        return [name for (name,) in self.query("SHOW TABLES LIKE 'directkafka\\_stage%'")]
