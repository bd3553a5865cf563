"""Native pipelines: rows stay in the Python worker that reads them, into every kind of store, exactly once."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.chaos.pipelines import PARTITIONS
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.contract.mysql_harness import MySQLHarness
from tests.real.pipeline.conftest import COUNT, World

from directkafka import (
    ArrowTransform,
    DeltaSink,
    DuckDBSink,
    FilesSink,
    KafkaSink,
    MySQLSink,
    Pipeline,
    PostgresSink,
    SQLiteSink,
    read_parquet,
)
from directkafka.errors import DirectKafkaError, OptionError, TransformError
from directkafka.pipeline.execution.native.writer import NativeWriter
from directkafka.pipeline.verify import verify

pytestmark = pytest.mark.real


def number_of(batch: pa.RecordBatch) -> pa.Array:
    return pc.cast(pc.cast(batch.column("value"), pa.string()), pa.int64())


def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = ["topic", "partition", "offset"]
    return pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), number_of(batch)], [*names, "number"])


def as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["key", "value"])


def both(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    rows = numbered(batch)
    even = pc.equal(pc.bit_wise_and(rows.column("number"), 1), 0)
    return {"all": rows, "even": rows.filter(even), "records": as_records(batch)}


def native(pipeline: Pipeline) -> Pipeline:
    """The same pipeline, of which it is sure that no row passes through Spark."""
    writer, _ = pipeline._compiled(pipeline.session(), pipeline.routes)
    assert isinstance(writer, NativeWriter)
    return pipeline


def test_rows_are_there_once_and_a_second_run_finds_nothing_to_do(world: World) -> None:
    pipeline = native(world.pipeline(ArrowTransform(numbered)))
    assert pipeline.check()[-1] == "rows stay in the Python workers that read them"
    for _ in range(2):
        world.pipeline(ArrowTransform(numbered)).run()
    assert world.numbers() == list(range(COUNT))
    assert world.query('SELECT count(DISTINCT (topic, partition, "offset")) FROM records') == [(COUNT,)]
    findings = verify(pipeline)
    assert len(findings) == 1
    assert all(finding.is_right for finding in findings), findings


@pytest.mark.parametrize("inline_bytes_max", [0, pytest.param(1 << 24, marks=pytest.mark.slow)], ids=["staged", "held"])
def test_every_store_has_every_row_of_its_output_once(
    inline_bytes_max: int,
    world: World,
    spark: SparkSession,
    tmp_path: Path,
    create_topic: Callable[..., str],
    mysql_database: str,
) -> None:
    target = create_topic(partitions=PARTITIONS)
    few = {"inline_bytes_max": inline_bytes_max}
    sinks: dict[str, Any] = {
        "all": [
            PostgresSink(world.dsn, "records", **few),
            MySQLSink(mysql_database, "records", **few),
            SQLiteSink(tmp_path / "air.sqlite", "records"),
            DeltaSink(tmp_path / "delta"),
        ],
        "even": [DuckDBSink(tmp_path / "air.duckdb", "records"), FilesSink(tmp_path / "files")],
        "records": KafkaSink({"bootstrap.servers": world.kafka}, topic=target),
    }
    native(world.pipeline(ArrowTransform(both), sinks=sinks, name=target)).run()
    everything, even = list(range(COUNT)), list(range(0, COUNT, 2))
    assert world.numbers() == everything
    assert [row[0] for row in MySQLHarness(mysql_database).query("SELECT number FROM records ORDER BY 1")] == everything
    with closing(sqlite3.connect(tmp_path / "air.sqlite")) as connection:
        rows = connection.execute("SELECT number FROM records ORDER BY 1").fetchall()
    assert [row[0] for row in rows] == everything
    assert sorted(DeltaTable(tmp_path / "delta").to_pyarrow_table()["number"].to_pylist()) == everything
    with duckdb.connect(str(tmp_path / "air.duckdb")) as connection:
        assert [row[0] for row in connection.execute("SELECT number FROM records ORDER BY 1").fetchall()] == even
    assert sorted(row.number for row in read_parquet(spark, tmp_path / "files").collect()) == even
    wait_until_stable(world.kafka, target)
    assert sorted(int(record.value) for record in read_committed(world.kafka, target)) == everything


@pytest.mark.parametrize("execution", ["auto", "spark"])
def test_a_transform_that_holds_much_leaves_nothing_on_the_driver_s_disk(
    execution: str, world: World, spark: SparkSession
) -> None:
    """Spark broadcasts what is larger than 1 MiB, and keeps the broadcast's file until the application ends."""
    model = bytes(2 << 20)

    def score(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert len(model) == 2 << 20
        return numbered(batch)

    folder = Path(str(spark.sparkContext._temp_dir))
    before = set(folder.iterdir())
    world.pipeline(ArrowTransform(score), execution=execution, name=execution).run()
    assert world.numbers() == list(range(COUNT))
    assert {path.stat().st_size for path in set(folder.iterdir()) - before if path.is_file()} == set()


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ({"mode": "upsert", "key": ["partition"], "order": ["offset"]}, None),
        pytest.param({"mode": "merge", "key": ["partition"], "add": ["number"]}, "sum", marks=pytest.mark.slow),
        pytest.param({"mode": "ignore"}, "all", marks=pytest.mark.slow),
        pytest.param({"mode": "replace"}, "last", marks=pytest.mark.slow),
    ],
)
def test_every_mode_means_what_it_does_by_spark(mode: dict[str, Any], wanted: str | None, world: World) -> None:
    def run(table: str, execution: str) -> list[tuple[Any, ...]]:
        transform = ArrowTransform(pair if mode["mode"] in ("merge", "upsert") else numbered)
        sink = PostgresSink(world.dsn, table, **mode)
        world.pipeline(transform, sinks=sink, name=table, execution=execution).run()
        return world.query(
            f"SELECT * FROM {table} ORDER BY 1, 2, 3"
            if len(columns(table)) > 2
            else f"SELECT * FROM {table} ORDER BY 1"
        )

    def columns(table: str) -> list[Any]:
        return world.query(f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'")

    def pair(batch: pa.RecordBatch) -> pa.RecordBatch:
        names = ["partition", "number"] if mode["mode"] == "merge" else ["partition", "offset", "number"]
        return numbered(batch).select(names)

    assert run("natively", "auto") == run("by_spark", "spark") != []


def test_without_a_transform_the_columns_are_the_sources_own(world: World) -> None:
    native(world.pipeline(None, source={"columns": "value,partition,offset"})).run()
    rows = world.query("SELECT convert_from(value, 'UTF8')::int FROM records ORDER BY 1")
    assert [row[0] for row in rows] == list(range(COUNT))


def test_fields_of_json_are_columns_of_the_batch(world: World, create_topic: Callable[..., str]) -> None:
    topic = create_topic(partitions=2)
    producer = Producer({"bootstrap.servers": world.kafka})
    for number in range(100):
        value = {"id": number, "carrier": "UA", "price": number / 4}
        producer.produce(topic, json.dumps(value).encode(), partition=number % 2)
    producer.flush()
    source = {"subscribe": topic, "value.format": "json", "value.schema": "id BIGINT, carrier STRING, price DOUBLE"}
    native(world.pipeline(ArrowTransform(fields), source=source)).run()
    assert world.query("SELECT count(*), sum(id), sum(price) FROM records") == [(100, 4950, 1237.5)]
    by_query = world.pipeline(
        "SELECT value.* FROM source", source=source, name="by_query", sinks=PostgresSink(world.dsn, "again")
    )
    by_query.run()
    assert world.query("SELECT count(*), sum(id), sum(price) FROM again") == [(100, 4950, 1237.5)]


def fields(batch: pa.RecordBatch) -> pa.RecordBatch:
    value = batch.column("value")
    return pa.RecordBatch.from_arrays(value.flatten(), [field.name for field in value.type])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda batch: 1 / 0 if batch.num_rows else numbered(batch), "ZeroDivisionError"),
        (lambda batch: batch.to_pylist(), "is a list; return a RecordBatch"),
        (
            lambda batch: numbered(batch) if not batch.num_rows else numbered(batch).select([0, 1, 2]),
            "it gives the columns",
        ),
        (lambda batch: {"default": numbered(batch)} | ({"more": batch} if batch.num_rows else {}), "the outputs more"),
    ],
    ids=["raises", "no batch", "other columns", "other outputs"],
)
def test_a_function_that_fails_is_told_with_its_place_and_nothing_is_committed(
    function: Any, message: str, world: World
) -> None:
    with pytest.raises(TransformError, match=message) as raised:
        world.pipeline(ArrowTransform(function, "mine")).run()
    assert raised.value.source == "mine"
    if "list" not in message:
        assert world.topic in str(raised.value)
        assert world.query("SELECT max(batch_id) FROM directkafka_ledger") == [(0,)]


def test_what_is_asked_for_and_cannot_be_is_refused(world: World) -> None:
    with pytest.raises(OptionError, match="has no output 'other'; it has default"):
        world.pipeline(ArrowTransform(numbered), sinks={"other": PostgresSink(world.dsn, "t")}).check()
    with pytest.raises(OptionError, match="expected 'auto' or 'spark'"):
        world.pipeline(ArrowTransform(numbered), execution="jvm")


def test_check_says_why_rows_pass_through_spark(world: World, tmp_path: Path) -> None:
    why = {
        "query": world.pipeline(),
        "asked": world.pipeline(ArrowTransform(numbered), execution="spark"),
        "structured": world.pipeline(ArrowTransform(numbered), engine="structured", checkpoint=tmp_path / "c"),
    }
    reasons = {name: pipeline.check()[-1] for name, pipeline in why.items()}
    assert reasons == {
        "query": "rows pass through Spark: its transform is a query or a function over DataFrames",
        "asked": 'rows pass through Spark: execution = "spark" says so',
        "structured": "rows pass through Spark: the structured engine's batches are Spark's",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["structured", "asked"])
def test_the_function_runs_where_spark_carries_the_rows_too(name: str, world: World, tmp_path: Path) -> None:
    ways: dict[str, dict[str, Any]] = {
        "structured": {"engine": "structured", "checkpoint": tmp_path / "c"},
        "asked": {"execution": "spark"},
    }
    world.pipeline(ArrowTransform(numbered), **ways[name]).run()
    assert world.numbers() == list(range(COUNT))


@pytest.mark.slow
def test_a_large_batch_for_kafka_travels_in_chunks_and_its_other_sinks_have_the_same_rows(
    world: World, create_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function gives each row another number whenever it runs: what was written is of one run."""
    monkeypatch.setattr("directkafka.pipeline.execution.batch_writer.BatchWriter.write", None)
    target, other = create_topic(partitions=PARTITIONS), create_topic(partitions=1)

    def marked(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        marks = pa.array([uuid.uuid4().hex.encode() for _ in range(batch.num_rows)], pa.binary())
        rows = numbered(batch).append_column("mark", marks)
        value = pc.binary_join_element_wise(batch.column("value"), marks, b" ")
        return {"default": rows, "records": pa.record_batch({"key": batch.column("value"), "value": value})}

    kafka = {"bootstrap.servers": world.kafka}
    sinks = {
        "default": PostgresSink(world.dsn, "records"),
        "records": [KafkaSink(kafka, topic=target, inline_bytes_max=0), KafkaSink(kafka, topic=other)],
    }
    native(world.pipeline(ArrowTransform(marked), sinks=sinks, name=target)).run()
    rows = {(number, mark.decode()) for number, mark in world.query("SELECT number, mark FROM records")}
    for topic in (target, other):
        wait_until_stable(world.kafka, topic)
        records = [tuple(record.value.decode().split()) for record in read_committed(world.kafka, topic)]
        assert len(records) == COUNT
        assert {(int(number), mark) for number, mark in records} == rows


def test_a_pipeline_file_names_the_function_beside_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSN", world.dsn)
    (tmp_path / "native_job.py").write_text(
        "import pyarrow as pa\nimport pyarrow.compute as pc\n\n\ndef rows(batch):\n"
        '    number = pc.cast(pc.cast(batch.column("value"), pa.string()), pa.int64())\n'
        '    return pa.RecordBatch.from_arrays([number], ["number"])\n'
    )
    file = tmp_path / "job.toml"
    file.write_text(
        '[pipeline]\nname = "numbers"\ntrigger = "available-now"\n\n[source]\n'
        f'"kafka.bootstrap.servers" = "{world.kafka}"\nsubscribe = "{world.topic}"\nstartingOffsets = "earliest"\n\n'
        '[transform]\narrow = "native_job:rows"\n\n'
        '[[sink]]\ntype = "postgres"\ndsn = "${DSN}"\ntable = "records"\n'
    )
    native(Pipeline.from_toml(file)).run()
    assert world.numbers() == list(range(COUNT))
    file.write_text(file.read_text().replace('name = "numbers"', 'name = "numbers"\nexecution = "spark"'))
    assert Pipeline.from_toml(file).check()[-1] == 'rows pass through Spark: execution = "spark" says so'


def test_a_writer_that_fails_ends_the_others_and_the_batch(world: World, tmp_path: Path) -> None:
    world.query('CREATE TABLE records (topic text, partition int, "offset" bigint, number bigint CHECK (number < 40))')
    sinks = {"all": [PostgresSink(world.dsn, "records", inline_bytes_max=0), SQLiteSink(tmp_path / "a.db", "records")],
             "even": PostgresSink(world.dsn, "even"), "records": FilesSink(tmp_path / "files")}  # fmt: skip
    with pytest.raises(DirectKafkaError, match="check constraint"):
        world.pipeline(ArrowTransform(both), sinks=sinks).run()
    assert max(world.numbers(), default=0) < 40
