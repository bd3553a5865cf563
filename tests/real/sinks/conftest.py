"""What the tests of sinks share: a look into the database, a driver without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from directkafka.sinks.postgres.store import PostgresStore
from directkafka.testing.store_driver import Job


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def job(database: str) -> Iterator[Job]:
    job = Job(PostgresStore(database)).start()
    yield job
    job.store.close()
