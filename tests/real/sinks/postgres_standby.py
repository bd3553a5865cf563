"""A standby of an embedded Postgres: a copy that follows it, and is made the server when the first one is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import conninfo
from tests.waiting import until

from directkafka.testing import EmbeddedPostgres
from directkafka.testing.postgres import _programs

COPY_TIMEOUT_S = 120.0


@contextmanager
def standby_of(primary: EmbeddedPostgres, folder: Path) -> Iterator[EmbeddedPostgres]:
    """A hot standby, which streams what the primary writes."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    address = conninfo.conninfo_to_dict(primary.dsn)
    connection_options = ["-h", str(address["host"]), "-p", str(address["port"]), "-U", str(address["user"])]
    command = [
        str(_programs() / "bin" / "pg_basebackup"),
        "-D",
        str(data),
        *connection_options,
        "--write-recovery-conf",
        "-c",
        "fast",
    ]
    environment = os.environ | {"PGPASSWORD": str(address["password"])}
    subprocess.run(command, check=True, timeout=COPY_TIMEOUT_S, capture_output=True, env=environment)
    # Its users are the primary's.
    shutil.copy(primary.folder / "password", folder / "password")
    with EmbeddedPostgres(folder) as standby:
        yield standby


def wait_until_it_has_all(primary: EmbeddedPostgres) -> None:
    """Until the standby has replayed what the primary has written."""

    def is_level() -> bool:
        with psycopg.connect(primary.dsn) as connection:
            query = "SELECT bool_and(replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication"
            row = connection.execute(query).fetchone()
        return row is not None and bool(row[0])

    until(is_level, "the standby does not come up")


def promote(standby: EmbeddedPostgres) -> None:
    """Make the standby the server; returns when it takes writes."""
    with psycopg.connect(standby.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT pg_promote(wait => true)").fetchone() == (True,)
