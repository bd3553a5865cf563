"""A plain installation at work: the wheel, no extras, no pandas; what a user does first, what the terminal shows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from tests import plain_install
from tests.contract.mysql_harness import MySQLHarness
from tests.plain_install import Environment

from directkafka.testing import KafkaBroker
from directkafka.testing.java import java_home

pytestmark = pytest.mark.real

RECORDS = 100

FILE = """
[pipeline]
name = "clicks"
trigger = "available-now"

[source]
"kafka.bootstrap.servers" = "${KAFKA}"
subscribe = "${TOPIC}"
startingOffsets = "earliest"

[transform]
sql = "SELECT topic, partition, offset, string(value) AS value FROM source"

[[sink]]
"""

SINKS = {
    "sqlite": 'type = "sqlite"\npath = "clicks.db"\ntable = "clicks"\n',
    "duckdb": 'type = "duckdb"\npath = "clicks.duckdb"\ntable = "clicks"\n',
    "delta": 'type = "delta"\npath = "clicks"\n',
    "mysql": 'type = "mysql"\ndsn = "${DSN}"\ntable = "clicks"\n',
}

#: The format, as a user tries it.
FORMAT = """
import os
import sys
from importlib.util import find_spec
from pathlib import Path

assert find_spec("pandas") is None
assert find_spec("pymysql") is None
assert Path(sys.executable).with_name("directkafka-python").exists()
import directkafka as dk
from directkafka import *
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
dk.register(spark)
params = {"bootstrap.servers": os.environ["KAFKA"]}
topic, copy = os.environ["TOPIC"], os.environ["COPY"]
options = {
    "kafka.bootstrap.servers": os.environ["KAFKA"],
    "subscribe": topic,
    "startingOffsets": "earliest",
    "kafka.session.timeout.ms": "10000",
}
records = spark.read.format("directkafka").options(**options).load()
print("batch", records.count(), records.filter("partition = 0").count())
"""

#: The other ways in and out that need no file.
OTHERS = """
query = (
    spark.readStream.format("directkafka").options(**options).load()
    .writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
)
query.awaitTermination()
print("stream", spark.table("seen").count())
with dk.Cluster(params) as cluster:
    ranges = cluster.offset_ranges([topic])
print("rdd", dk.create_rdd(spark.sparkContext, params, ranges).map(lambda record: record.value).distinct().count())
frame = dk.create_dataframe(spark, params, ranges)
print("frame", frame.count())
target = {"kafka.bootstrap.servers": os.environ["KAFKA"], "topic": copy}
frame.select("value").write.format("directkafka").options(**target).mode("append").save()
print("written", spark.read.format("directkafka").options(**{**options, "subscribe": copy}).load().count())
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain_install.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One for all: its kernels are compiled once."""
    return plain_install.linked_environment(tmp_path_factory.mktemp("plain") / "venv", wheel)


@pytest.fixture
def world(kafka_broker: KafkaBroker, create_topic: Callable[..., str]) -> Mapping[str, str]:
    """What the programs find in their environment; the topic has its records."""
    from confluent_kafka import Producer

    topic, copy = create_topic(partitions=2), create_topic()
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    return {
        "KAFKA": kafka_broker.bootstrap_servers,
        "TOPIC": topic,
        "COPY": copy,
        "JAVA_HOME": str(java_home()),
    }


def run_pipeline(where: Environment, folder: Path, world: Mapping[str, str], *, sink: str, verb: str = "run") -> None:
    (folder / "clicks.toml").write_text(FILE + SINKS[sink])
    done = where.run(where.command, verb, "clicks.toml", folder=folder, **world)
    assert done.returncode == 0, done.stderr
    assert "pandas" not in done.stderr
    assert "Traceback" not in done.stderr
    # Log lines and notes of ours, and nothing of Spark's.
    ours = r"\S+ \S+ INFO directkafka|note rows pass through Spark: "
    shown = [line for line in done.stderr.splitlines() if not re.match(ours, line)]
    assert shown == [], done.stderr


def run_program(where: Environment, folder: Path, world: Mapping[str, str], *, others: bool) -> None:
    done = where.run(where.python, "-c", FORMAT + OTHERS * others, folder=folder, **world)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"batch {RECORDS} {RECORDS // 2}"
    assert lines[1:] == [f"{name} {RECORDS}" for name in ("stream", "rdd", "frame", "written") if others]
    assert "pandas" not in done.stderr
    # PySpark's daemon may find at its end that the JVM is gone.
    tracebacks = re.split(r"^(?=Traceback)", done.stderr, flags=re.MULTILINE)[1:]
    assert [traceback for traceback in tracebacks if "pyspark/daemon.py" not in traceback] == []
    ignored = [line for line in done.stderr.splitlines() if "kafka.session.timeout.ms" in line]
    assert len(ignored) == 1, done.stderr


def rows_of(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "clicks.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM clicks").fetchone()[0])


def test_a_pipeline_runs_into_sqlite(plain: Environment, tmp_path: Path, world: Mapping[str, str]) -> None:
    run_pipeline(plain, tmp_path, world, sink="sqlite")
    assert rows_of(tmp_path) == RECORDS


@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["format", "all"])
def test_the_format_runs_and_so_do_rdds_frames_and_the_writer(
    plain: Environment, tmp_path: Path, world: Mapping[str, str], *, others: bool
) -> None:
    run_program(plain, tmp_path, world, others=others)


@pytest.mark.slow
def test_the_oldest_supported_pyspark_does_all_of_it(wheel: Path, tmp_path: Path, world: Mapping[str, str]) -> None:
    where = plain_install.installed_environment(tmp_path / "venv", wheel, pyspark="4.2.0")
    run_pipeline(where, tmp_path, world, sink="sqlite", verb="check")
    run_pipeline(where, tmp_path, world, sink="sqlite")
    assert rows_of(tmp_path) == RECORDS
    run_program(where, tmp_path, world, others=True)


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["duckdb", "delta"])
def test_an_extra_alone_is_enough_for_its_sink(
    extra: str, wheel: Path, tmp_path: Path, world: Mapping[str, str]
) -> None:
    where = plain_install.linked_environment(tmp_path / "venv", wheel, extras=[extra])
    run_pipeline(where, tmp_path, world, sink=extra, verb="check")
    run_pipeline(where, tmp_path, world, sink=extra)
    assert list(tmp_path.glob("clicks*"))


@pytest.mark.slow
def test_the_extra_mysql_alone_is_enough_for_its_sink_and_without_it_the_error_says_what_to_install(
    plain: Environment, wheel: Path, tmp_path: Path, world: Mapping[str, str], mysql_database: str
) -> None:
    (tmp_path / "clicks.toml").write_text(FILE + SINKS["mysql"])
    refused = plain.run(plain.command, "check", "clicks.toml", folder=tmp_path, **world, DSN=mysql_database)
    assert refused.returncode == 2, refused.stderr
    assert "run pip install '.[mysql]' in a checkout of directkafka" in refused.stderr
    assert "Traceback" not in refused.stderr

    where = plain_install.linked_environment(tmp_path / "venv", wheel, extras=["mysql"])
    for verb in ("check", "run"):
        run_pipeline(where, tmp_path, {**world, "DSN": mysql_database}, sink="mysql", verb=verb)
    assert MySQLHarness(mysql_database).query("SELECT count(*) FROM clicks") == [(RECORDS,)]
