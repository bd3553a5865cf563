"""The servers of a run whose files go side by side: started once by the process that deals the files out.

That process outlives every worker, so a worker that dies takes no server with it. A worker gets addresses alone.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlsplit

from directkafka.testing import EmbeddedPostgres, KafkaBroker


@dataclass(frozen=True)
class SharedBroker:
    """A broker of another process."""

    bootstrap_servers: str


@dataclass(frozen=True)
class SharedPostgres:
    """A Postgres of another process, with what tests ask of :class:`~directkafka.testing.EmbeddedPostgres`."""

    dsn: str

    def dsn_of(self, database: str) -> str:
        return urlsplit(self.dsn)._replace(path=f"/{quote(database, safe='')}").geturl()

    def create_database(self, name: str) -> str:
        self._execute("CREATE DATABASE {}", name)
        return self.dsn_of(name)

    def drop_database(self, name: str) -> None:
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: str, identifier: str) -> None:
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(identifier)))


class RunServers:
    """One broker and one Postgres, started side by side."""

    def __init__(self) -> None:
        self._servers = contextlib.ExitStack()
        self._broker = KafkaBroker()
        self._postgres = EmbeddedPostgres()

    def start(self) -> Self:
        self._servers.callback(self._broker.stop)
        self._servers.callback(self._postgres.stop)
        with ThreadPoolExecutor() as pool:
            broker, postgres = pool.submit(self._broker.start), pool.submit(self._postgres.start)
        broker.result()
        postgres.result()
        return self

    def addresses(self) -> dict[str, str]:
        """What a worker is told, in words that pass through xdist."""
        return {"kafka": self._broker.bootstrap_servers, "postgres": self._postgres.dsn}

    def stop(self) -> None:
        self._servers.close()
