"""The Parquet sink with Spark on both sides: types, formats, readers, pipelines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.chaos.pipelines import PARTITIONS, produce_numbers
from tests.real.pipeline.conftest import COUNT, QUERY
from tests.real.sinks.spark_batches import commit_frame

import directkafka as dk
from directkafka.errors import SchemaMismatchError
from directkafka.pipeline.verify import verify
from directkafka.sinks.files.reader import committed_files
from directkafka.sinks.files.schema import Format
from directkafka.testing import KafkaBroker
from directkafka.testing.store_driver import Job

pytestmark = pytest.mark.real

#: Every type that a Spark query gives and a file holds; a null of each in the second row.
TYPES = {
    "flag": "true",
    "tiny": "CAST(-128 AS TINYINT)",
    "small": "CAST(32767 AS SMALLINT)",
    "whole": "CAST(-2147483648 AS INT)",
    "long": "CAST(9223372036854775807 AS BIGINT)",
    "real": "CAST(1.5 AS FLOAT)",
    "double": "CAST(0.1 AS DOUBLE)",
    "price": "CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18))",
    "text": "'naïve \"quoted\" \\\\ line\\nbreak'",
    "day": "DATE '1999-12-31'",
    "instant": "TIMESTAMP '2020-02-29 23:59:59.123456Z'",
    "local_time": "TIMESTAMP_NTZ '2020-02-29 23:59:59.123456'",
    "numbers": "array(1, NULL, 3)",
    "nested": "named_struct('a', 1, 'b', array(named_struct('c', 'x')))",
    "pairs": "map('k', 1, 'z', NULL)",
}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(dk.ParquetSink(tmp_path / "data").store).start()


def frame_of_types(spark: SparkSession, *more: str) -> DataFrame:
    columns = [f"{text} AS `{name}`" for name, text in TYPES.items()]
    nulls = [f"IF(id = 0, `{name}`, NULL) AS `{name}`" for name in TYPES]
    return spark.range(2).selectExpr("id", *columns, *more).selectExpr("id", *nulls, *(m.split()[-1] for m in more))


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_every_type_comes_back_as_it_was(format: Format, job: Job, spark: SparkSession, tmp_path: Path) -> None:
    more = ["CAST('raw' AS BINARY) AS bytes"] if format == "parquet" else []
    frame = frame_of_types(spark, *more)
    commit_frame(job, dk.ParquetSink(tmp_path / "data", format=format), frame)
    back = dk.read_parquet(spark, tmp_path / "data")
    assert back.columns == frame.columns
    assert [field.dataType.simpleString() for field in back.schema] == [
        field.dataType.simpleString() for field in frame.schema
    ]
    assert back.orderBy("id").collect() == frame.orderBy("id").collect()


@pytest.mark.parametrize("compression", ["none", pytest.param("gzip", marks=pytest.mark.slow)])
def test_lines_of_text_come_back_as_they_were(compression: Any, job: Job, spark: SparkSession, tmp_path: Path) -> None:
    lines = ["first", "", " spaced ", "naïve"]
    sink = dk.ParquetSink(tmp_path / "data", format="text", compression=compression)
    commit_frame(job, sink, spark.createDataFrame([(line,) for line in lines], "value string"))
    back = dk.read_parquet(spark, tmp_path / "data")
    assert sorted(row.value for row in back.collect()) == sorted(lines)
    assert sink.recount().rows == len(lines)


def test_a_dataframe_goes_on_reading_what_was_committed_when_it_was_made(
    job: Job, spark: SparkSession, tmp_path: Path
) -> None:
    sink = dk.ParquetSink(tmp_path / "data")
    commit_frame(job, sink, spark.range(10).selectExpr("id"))
    before = dk.read_parquet(spark, tmp_path / "data")
    commit_frame(job, sink, spark.range(10, 30).selectExpr("id"))
    assert before.count() == 10
    assert dk.read_parquet(spark, tmp_path / "data").count() == 30


def test_added_columns_are_null_in_the_files_that_lack_them(job: Job, spark: SparkSession, tmp_path: Path) -> None:
    sink = dk.ParquetSink(tmp_path / "data", schema_policy="add-columns")
    commit_frame(job, sink, spark.range(1).selectExpr("id"))
    commit_frame(job, sink, spark.range(1, 2).selectExpr("named_struct('a', 1) AS more", "id"))
    commit_frame(job, sink, spark.range(2, 3).selectExpr("id"))
    rows = dk.read_parquet(spark, tmp_path / "data").orderBy("id").collect()
    assert [(row.id, row.more and row.more.a) for row in rows] == [(0, None), (1, 1), (2, None)]
    assert committed_files(tmp_path / "data").dataset().to_table().num_rows == 3


def test_an_empty_table_in_a_folder_with_an_odd_name_is_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a [1] {b,c} *100%20"
    sink = dk.ParquetSink(folder)
    job = Job(sink.store).start()
    commit_frame(job, sink, spark.range(0).selectExpr("id"))
    assert dk.read_parquet(spark, folder).collect() == []
    commit_frame(job, sink, spark.range(3).selectExpr("id"))
    assert sorted(row.id for row in dk.read_parquet(spark, folder).collect()) == [0, 1, 2]


def test_a_directory_without_a_log_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="no such table"):
        dk.read_parquet(spark, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_pipeline_writes_two_tables_of_one_directory(
    spark: SparkSession, kafka_broker: KafkaBroker, create_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = create_topic(partitions=PARTITIONS)
    produce_numbers(kafka_broker.bootstrap_servers, topic, COUNT)

    def transform(source: DataFrame) -> dict[str, DataFrame]:
        source.createOrReplaceTempView("source")
        records = source.sparkSession.sql(QUERY)
        return {"all": records, "odd": records.where("number % 2 = 1")}

    pipeline = dk.Pipeline(
        "numbers",
        source={
            "kafka.bootstrap.servers": kafka_broker.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "30",
        },
        transform=transform,
        sinks={
            "all": dk.ParquetSink(tmp_path / "data", table="all"),
            "odd": dk.ParquetSink(tmp_path / "data", table="odd", format="json", compression="gzip"),
        },
        trigger="available-now",
    )
    pipeline.run()
    rows = dk.read_parquet(spark, tmp_path / "data", "all").collect()
    assert sorted(row.number for row in rows) == list(range(COUNT))
    odd = dk.read_parquet(spark, tmp_path / "data", "odd").collect()
    assert sorted(row.number for row in odd) == list(range(1, COUNT, 2))
    assert [finding.is_right for finding in verify(pipeline)] == [True, True]
