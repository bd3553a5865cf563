"""What an earlier version left behind goes on under this one: ledgers of all stores, checkpoints, a directory."""

from __future__ import annotations

import re
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from tests import earlier
from tests.contract.kafka_harness import read_committed, wait_until_stable

import directkafka as dk
from directkafka.pipeline.verify import verify
from directkafka.testing import EmbeddedPostgres, KafkaBroker

pytestmark = pytest.mark.real

ARCHIVE = Path(__file__).parent.parent / "vectors" / "aacf0b4.tar.xz"
#: What is written behind what the earlier version has read: new numbers, and some that it has seen.
SEEN = [0, 1, 2, 3]
WRITTEN = [*range(earlier.COUNT, 2 * earlier.COUNT), *SEEN]
NUMBERS = sorted([*range(earlier.COUNT), *WRITTEN])
#: Batch 0 is where a pipeline begins, 1 and 2 were written before; 8 offsets make one.
LAST_BATCH = 4


@dataclass
class Left:
    """What was left behind, with a broker that runs over the old data, and more numbers in the topic."""

    folder: Path
    servers: str
    dsn: str

    @property
    def pipelines(self) -> dict[str, dk.Pipeline]:
        return earlier.pipelines(self.folder, self.servers, self.dsn)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[call-overload,no-any-return]

    def in_sqlite(self, name: str, table: str) -> list[int]:
        with closing(sqlite3.connect(self.folder / name)) as connection:
            return [number for (number,) in connection.execute(f"SELECT * FROM ({table}) ORDER BY 1")]


@pytest.fixture(scope="module")
def left(spark: SparkSession, postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    folder = tmp_path_factory.mktemp("left")
    with tarfile.open(ARCHIVE) as packed:
        # Python 3.11.2, Debian 12's, has no such filter yet, and later ones warn without one.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
    dsn = postgres.create_database("left_behind")
    with psycopg.connect(dsn) as connection:
        for statement in (folder / "postgres.sql").read_text().splitlines():
            connection.execute(statement)  # type: ignore[call-overload]
    with KafkaBroker(folder=folder / "kafka") as kafka:
        earlier.produce(kafka.bootstrap_servers, WRITTEN)
        yield Left(folder, kafka.bootstrap_servers, dsn)
    postgres.drop_database("left_behind")


def run(left: Left, name: str) -> dk.Pipeline:
    """The pipeline goes on, to the end of what is there, and the count of its ledger is right."""
    batches: list[int] = []
    pipeline = left.pipelines[name]
    pipeline.report = lambda report: batches.append(report.batch_id)
    pipeline.run()
    assert batches == list(range(3, LAST_BATCH + 1))
    findings = verify(left.pipelines[name])
    assert findings
    assert all(finding.is_right for finding in findings), findings
    return pipeline


@pytest.mark.slow
def test_a_sqlite_file_goes_on_and_so_do_its_dead_letters(left: Left) -> None:
    run(left, "sqlite")
    rejected = [number for number in NUMBERS if number % 5 == 4]
    assert left.in_sqlite("air.sqlite", "SELECT number FROM numbers") == [
        number for number in NUMBERS if number % 5 != 4
    ]
    assert left.in_sqlite("air.sqlite", "SELECT CAST(value AS INTEGER) FROM rejected") == rejected
    # Letters of the earlier version are tried again with those of this one.
    summary = left.pipelines["sqlite"].replay()
    assert (summary.letters, summary.rejected) == (len(rejected), len(rejected))
    assert left.in_sqlite("air.sqlite", "SELECT CAST(value AS INTEGER) FROM rejected") == rejected


def test_a_duckdb_file_goes_on(left: Left) -> None:
    run(left, "duckdb")
    with duckdb.connect(str(left.folder / "air.duckdb")) as connection:
        assert connection.execute("SELECT number FROM numbers ORDER BY 1").fetchall() == [
            (number,) for number in NUMBERS
        ]


def test_a_database_of_postgres_goes_on_with_two_pipelines_in_it(left: Left) -> None:
    run(left, "postgres")
    assert left.query("SELECT number FROM numbers ORDER BY 1") == [(number,) for number in NUMBERS]
    run(left, "upsert")
    assert left.query("SELECT partition, number FROM newest ORDER BY 1") == [(0, 2), (1, 3)]


def test_a_ledger_in_kafka_goes_on(left: Left) -> None:
    run(left, "kafka")
    wait_until_stable(left.servers, "copied")
    assert sorted(int(record.value or b"") for record in read_committed(left.servers, "copied")) == NUMBERS


@pytest.mark.parametrize("form", ["parquet", pytest.param("json", marks=pytest.mark.slow)])
def test_a_directory_goes_on(left: Left, spark: SparkSession, form: str) -> None:
    run(left, form)
    rows = dk.read_parquet(spark, left.folder / form).collect()
    assert sorted(row.number for row in rows) == NUMBERS


@pytest.mark.slow
def test_a_delta_table_goes_on(left: Left) -> None:
    run(left, "delta")
    assert sorted(DeltaTable(left.folder / "delta").to_pyarrow_table()["number"].to_pylist()) == NUMBERS


def test_a_checkpoint_of_the_structured_engine_goes_on_with_its_state(left: Left) -> None:
    left.pipelines["structured"].run()
    # What was seen before comes again, and the state drops it.
    assert left.in_sqlite("structured.sqlite", "SELECT number FROM numbers") == sorted({*NUMBERS})


@pytest.mark.filterwarnings("ignore:DStream is deprecated:FutureWarning")
def test_a_direct_streams_checkpoint_says_at_which_offsets_to_go_on(left: Left, spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        earlier.direct_stream(spark, left.folder, left.servers)
    told = re.search(
        r"EnvironmentFaultError: .*? up to (\{.*?\})\. .*? with offsets=(\{.*?\}) in its", str(caught.value)
    )
    assert told is not None
    planned, starts = (eval(text, {"TopicPartition": dk.TopicPartition}) for text in told.groups())
    assert planned == {dk.TopicPartition(earlier.TOPIC, 0): 6, dk.TopicPartition(earlier.TOPIC, 1): 6}
    assert starts == dict.fromkeys(planned, 0)


@pytest.mark.slow
def test_a_checkpoint_of_a_query_of_the_users_own_goes_on(left: Left, spark: SparkSession) -> None:
    earlier.run_query(spark.newSession(), left.folder, left.servers)
    rows = ds.dataset(left.folder / "queried", format="parquet").to_table()
    assert sorted(rows["number"].to_pylist()) == NUMBERS
