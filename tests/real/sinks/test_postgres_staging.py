"""Staging tables: whose they are, and that none stays."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import conninfo, sql
from tests.real.sinks.batches import run

from directkafka.sinks.api import TaskReport
from directkafka.sinks.postgres.sink import PostgresSink
from directkafka.sinks.postgres.store import PostgresStore
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real

SCHEMA = pa.schema({"id": pa.int64()})


def staging_tables(connection: psycopg.Connection[Any]) -> list[str]:
    cursor = connection.execute("SELECT oid::regclass::text FROM pg_class WHERE relname LIKE 'directkafka\\_stage\\_%'")
    return sorted(name for (name,) in cursor.fetchall())


def stage(sink: PostgresSink, batch: Any, number: int) -> TaskReport:
    return sink.task_writer(batch, SCHEMA)(iter(pa.table({"id": [number]}).to_batches()))


@pytest.mark.parametrize("staging_schema", [None, "shared"])
def test_a_pipeline_of_the_same_name_in_another_schema_does_not_lose_its_staging(
    database: str, connection: psycopg.Connection[Any], staging_schema: str | None
) -> None:
    """Production commits while the development's pipeline, many generations on, is started beside it."""
    connection.execute("CREATE SCHEMA dev; CREATE SCHEMA prod; CREATE SCHEMA shared")
    dsns = {name: conninfo.make_conninfo(database, options=f"-c search_path={name}") for name in ("dev", "prod")}
    with closing(PostgresStore(dsns["prod"])) as store, closing(PostgresStore(dsns["dev"])) as other:
        job = Job(store).start()
        sink = PostgresSink(dsns["prod"], "flights", inline_bytes_max=0, staging_schema=staging_schema)
        sink.prepare(SCHEMA)
        entry = job.next_entry()
        batch = job.batch(entry)
        report = stage(sink, batch, 1)
        for _ in range(3):
            other.fence("flights")
        assert len(staging_tables(connection)) == 1
        store.commit(entry, previous=None, writes=[(sink, batch, [report])])
    assert connection.execute("SELECT id FROM prod.flights").fetchall() == [(1,)]
    assert staging_tables(connection) == []


def test_a_late_task_s_table_goes_with_the_next_commit(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    """A speculative twin that is slow to be killed begins to stage when its batch is committed already."""
    sink = PostgresSink(database, "flights", inline_bytes_max=0)
    sink.prepare(SCHEMA)
    entry = job.next_entry()
    batch = job.batch(entry)
    writer = sink.task_writer(batch, SCHEMA)
    rows = pa.table({"id": [1]}).to_batches()
    report = writer(iter(rows))
    job.last = job.store.commit(entry, previous=None, writes=[(sink, batch, [report])])
    run(job, sink, pa.table({"id": [0]}))
    assert staging_tables(connection) == []
    assert writer(iter(rows)).staged
    assert len(staging_tables(connection)) == 1
    # The batch behind the next one is staged already, and stays.
    entry = job.next_entry()
    batch = job.batch(entry)
    report = stage(sink, batch, 2)
    ahead = stage(sink, type(batch)(**_fields(batch) | {"batch_id": batch.batch_id + 1}), 3)
    assert ahead.staged
    job.last = job.store.commit(entry, previous=job.last, writes=[(sink, batch, [report])])
    (left,) = staging_tables(connection)
    assert f"_{job.generation}_{batch.batch_id + 1}_" in left
    assert connection.execute("SELECT id FROM flights ORDER BY id").fetchall() == [(0,), (1,), (2,)]


def test_a_table_that_an_older_driver_s_late_task_makes_goes_with_the_newer_one_s_commit(
    database: str, connection: psycopg.Connection[Any], job: Job
) -> None:
    sink = PostgresSink(database, "flights", inline_bytes_max=0)
    run(job, sink, pa.table({"id": [1]}))
    late = job.batch(job.next_entry())
    job.start()
    stage(sink, late, 9)
    (staging,) = staging_tables(connection)
    with psycopg.connect(database) as zombie:
        zombie.execute(sql.SQL("INSERT INTO {} VALUES (9, gen_random_uuid())").format(sql.Identifier(staging)))
        run(job, sink, pa.table({"id": [2]}))
        assert staging_tables(connection) == [staging]
        zombie.rollback()
    run(job, sink, pa.table({"id": [3]}))
    assert staging_tables(connection) == []
    assert connection.execute("SELECT id FROM flights ORDER BY id").fetchall() == [(1,), (2,), (3,)]


def _fields(batch: Any) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in ("pipeline", "generation", "batch_id", "attempt")}


def test_staging_of_a_role_whose_rights_are_not_inherited_does_not_end_the_start(
    database: str, connection: psycopg.Connection[Any]
) -> None:
    """To be a member is not to have the rights: DROP TABLE would fail when the generation is taken already."""
    suffix = uuid.uuid4().hex[:8]
    owner, member = sql.Identifier(f"owner_{suffix}"), sql.Identifier(f"member_{suffix}")
    for role in (owner, member):
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT PASSWORD 'plain'").format(role))
    connection.execute(sql.SQL("GRANT {} TO {}").format(owner, member))
    try:
        connection.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}, {}").format(owner, member))
        dsns = [
            conninfo.make_conninfo(database, user=f"{kind}_{suffix}", password="plain") for kind in ("owner", "member")
        ]
        with closing(PostgresStore(dsns[0])) as store:
            job = Job(store).start()
            sink = PostgresSink(dsns[0], "flights", inline_bytes_max=0)
            run(job, sink, pa.table({"id": [1]}))
            stage(sink, job.batch(job.next_entry()), 2)
            connection.execute("GRANT SELECT, INSERT, UPDATE ON directkafka_ledger TO PUBLIC")
        with closing(PostgresStore(dsns[1])) as store:
            assert store.fence("flights") == 2
        assert len(staging_tables(connection)) == 1
        with closing(PostgresStore(dsns[0])) as store:
            assert store.fence("flights") == 3
        assert staging_tables(connection) == []
    finally:
        for role in (owner, member):
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
        connection.execute(sql.SQL("DROP ROLE {}, {}").format(owner, member))
