"""One pipeline that writes many tables, killed at each step: each table is of the moment that the ledger says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.chaos.pipelines import HEAD, PARTITIONS, PipelineProcess, produce_numbers
from tests.chaos.test_kill_at_each_step import ELSEWHERE, armed
from tests.processes import running

from directkafka import Pipeline
from directkafka.fault_points import FAULT_POINTS
from directkafka.testing import KafkaBroker

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 400
TABLES = ("even", "odd")
FILE = (
    HEAD
    + """
[transform]
{transform}

[[sink]]
type = "postgres"
dsn = "${{DSN}}"
table_from = "kind"
tables = ["even", "odd"]
inline_bytes_max = {inline_bytes_max}
"""
)
JOB = """
import pyarrow as pa
import pyarrow.compute as pc


def routed(batch):
    number = batch.column("value").cast(pa.string()).cast(pa.int64())
    kind = pc.if_else(pc.equal(pc.bit_wise_and(number, 1), 0), "even", "odd")
    place = {name: batch.column(name) for name in ("topic", "partition", "offset")}
    return pa.RecordBatch.from_pydict({**place, "number": number, "kind": kind})
"""
TRANSFORMS = {
    "spark": """sql = '''
        SELECT *, CASE number % 2 WHEN 0 THEN "even" ELSE "odd" END AS kind FROM (
            SELECT topic, partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source)
    '''""",
    "native": 'arrow = "routes_job:routed"',
}


def check(dsn: str) -> int:
    """Each table has exactly the records of its kind that the ledger counts; how many those are."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        tables = connection.execute("SELECT relname::text FROM pg_class WHERE relkind = 'r'").fetchall()
        there = {name for (name,) in tables}
        progress = []
        if "directkafka_ledger" in there:
            entries = connection.execute("SELECT progress FROM directkafka_ledger WHERE batch_id >= 0").fetchall()
            progress = [part for (parts,) in entries for part in parts]
        done = [offset * PARTITIONS + part["partition"] for part in progress for offset in range(part["end"])]
        for odd, table in enumerate(TABLES):
            rows = []
            if table in there:
                query = f'SELECT number, "offset" * {PARTITIONS} + partition FROM {table} ORDER BY 1'
                rows = connection.execute(query).fetchall()  # type: ignore[call-overload]
            assert [number for number, _ in rows] == sorted(number for number in done if number % 2 == odd)
            assert all(number == position for number, position in rows)
        return len(done)


@pytest.mark.parametrize("carrier", TRANSFORMS)
@pytest.mark.parametrize("point", [point for point in FAULT_POINTS if point not in ELSEWHERE])
def test_a_driver_killed_at_a_step_leaves_all_its_tables_of_one_moment(
    carrier: str,
    point: str,
    kafka_broker: KafkaBroker,
    create_topic: Callable[..., str],
    database: str,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)
    (tmp_path / "routes_job.py").write_text(JOB)
    file = tmp_path / "routes.toml"
    # Small reports for the steps of all batches; staged rows for those of commits, which move them.
    inline_bytes_max = 0 if point.startswith("commit.") else 1 << 24
    values = {"name": "routes", "trigger": "available-now", "master": "local[2]", "folder": tmp_path, "topic": topic}
    file.write_text(FILE.format(**values, batch=100, transform=TRANSFORMS[carrier], inline_bytes_max=inline_bytes_max))
    world = {"KAFKA": kafka_broker.bootstrap_servers, "DSN": database}
    faults = {"DIRECTKAFKA_FAULTS": armed(point), "DIRECTKAFKA_FAULTS_ONCE": str(tmp_path / "fired")}
    with running(PipelineProcess(file, {**os.environ, **world, **faults}, tmp_path)) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.messages()
    assert check(database) < COUNT, "the kill came after the end, so it proved nothing"
    for name, value in world.items():
        monkeypatch.setenv(name, value)
    Pipeline.from_toml(file).run()
    assert check(database) == COUNT
