"""One pipeline into every kind of store at once: seven commits a batch, each store exactly once by itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.chaos.pipelines import PARTITIONS
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.contract.mysql_harness import MySQLHarness
from tests.real.pipeline.conftest import COUNT, World

from directkafka import (
    DeltaSink,
    DuckDBSink,
    KafkaSink,
    MySQLSink,
    ParquetSink,
    PostgresSink,
    SQLiteSink,
    read_parquet,
)

pytestmark = pytest.mark.real


def keys(number: Column) -> dict[str, Column]:
    """What a map's key may be where the map becomes JSON, beside a text."""
    price = number.cast("decimal(9,2)")
    return {"whole": number, "price": price, "real": number.cast("double") + 0.5, "flag": number == 5}


def numbers(source: DataFrame) -> Mapping[str, DataFrame]:
    """Numbers with what is nested in them, plain ones for the files, and records for Kafka."""
    number = f.col("value").cast("string").cast("long")
    none = f.lit(None).cast("int")
    plain = source.select("topic", "partition", "offset", number.alias("number"))
    nested = plain.select(
        "number",
        f.array(f.col("number"), f.lit(None).cast("long")).alias("pair"),
        f.struct(f.col("number").alias("n"), f.array("number").alias("many"), none.alias("none")).alias("whole"),
        f.create_map(f.lit("n"), f.col("number")).alias("named"),
        f.struct(*[f.create_map(key, f.lit(1)).alias(name) for name, key in keys(f.col("number")).items()]).alias(
            "keyed"
        ),
    )
    latest = plain.groupBy("partition").agg(f.max("offset").alias("offset"), f.max("number").alias("number"))
    return {"nested": nested, "plain": plain, "latest": latest, "records": source.select("key", "value")}


@pytest.fixture
def target(create_topic: Callable[..., str]) -> str:
    return create_topic(PARTITIONS)


@pytest.mark.slow
def test_every_store_has_every_record_once_and_nested_columns_in_its_own_way(
    world: World, spark: SparkSession, tmp_path: Path, target: str, mysql_database: str
) -> None:
    sinks: dict[str, Any] = {
        "nested": [
            PostgresSink(world.dsn, "nested"),
            MySQLSink(mysql_database, "nested"),
            SQLiteSink(tmp_path / "air.sqlite", "nested"),
            DuckDBSink(tmp_path / "air.duckdb", "nested"),
        ],
        "plain": [ParquetSink(tmp_path / "files"), DeltaSink(tmp_path / "delta")],
        "latest": [PostgresSink(world.dsn, "latest", "upsert", ["partition"], order=["offset"])],
        "records": KafkaSink({"bootstrap.servers": world.kafka}, target),
    }
    for _ in range(2):  # the second run finds nothing to do
        # The broker is shared by all tests, and so are the names of ledgers in it.
        world.pipeline(numbers, sinks=sinks, name=f"every-{target[-8:]}").run()
    whole = {"n": 5, "many": [5], "none": None}
    keyed = {"whole": {"5": 1}, "price": {"5.00": 1}, "real": {"5.5": 1}, "flag": {"true": 1}}
    assert world.query("SELECT * FROM nested WHERE number = 5") == [(5, [5, None], whole, {"n": 5}, keyed)]
    with closing(sqlite3.connect(tmp_path / "air.sqlite")) as connection:
        rows = connection.execute("SELECT * FROM nested ORDER BY number").fetchall()
    assert [row[0] for row in rows] == list(range(COUNT))
    assert [json.loads(text) for text in rows[5][1:]] == [[5, None], whole, {"n": 5}, keyed]
    rows = MySQLHarness(mysql_database).query("SELECT * FROM nested ORDER BY number")
    assert [row[0] for row in rows] == list(range(COUNT))
    assert [json.loads(text) for text in rows[5][1:]] == [[5, None], whole, {"n": 5}, keyed]
    with duckdb.connect(str(tmp_path / "air.duckdb")) as connection:
        assert connection.execute("SELECT * FROM nested WHERE number = 5").fetchall() == [
            (5, [5, None], whole, {"n": 5}, {"whole": {5: 1}, "price": {5: 1}, "real": {5.5: 1}, "flag": {True: 1}})
        ]
        assert connection.execute("SELECT count(*), sum(number) FROM nested").fetchone() == (COUNT, sum(range(COUNT)))
    assert sorted(row.number for row in read_parquet(spark, tmp_path / "files").collect()) == list(range(COUNT))
    assert sorted(DeltaTable(tmp_path / "delta").to_pyarrow_table()["number"].to_pylist()) == list(range(COUNT))
    latest = {partition: max(range(partition, COUNT, PARTITIONS)) for partition in range(PARTITIONS)}
    assert dict(world.query("SELECT partition, number FROM latest")) == latest
    wait_until_stable(world.kafka, target)
    assert sorted(int(record.value) for record in read_committed(world.kafka, target)) == list(range(COUNT))
