"""Who writes an output's rows on a real Spark: tasks, or the driver where the last batch says that they are few."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from directkafka.errors import TransformError
from directkafka.pipeline.execution.output_writer import OutputWriter
from directkafka.pipeline.execution.routes import Route
from directkafka.sinks.api import BatchAttempt, Sink, TaskReport
from directkafka.sinks.capabilities import SinkCapabilities
from directkafka.sinks.staging import buffer, report_inline
from directkafka.spark.dataframe import arrow_schema

pytestmark = pytest.mark.real

NAME = BatchAttempt(pipeline="flights", generation=1, batch_id=7, attempt="this try")
BYTES_MAX = 64 * 1024


@dataclass(frozen=True)
class PidWriter:
    """Holds few rows, drops many, and says in which process it did."""

    bytes_max: int
    is_folding: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        rows = buffer(batches, bytes_max=self.bytes_max).batches
        pid = str(os.getpid()).encode()
        if not isinstance(rows, tuple):
            return TaskReport(rows=sum(batch.num_rows for batch in rows), attempt="a", staged=True, payload=pid)
        if self.is_folding and rows:
            folded = report_inline((rows[0].slice(0, 1),))
            return replace(folded, rows=sum(batch.num_rows for batch in rows), payload=pid)
        return replace(report_inline(rows), payload=pid)


class PidSink(Sink):
    """A sink for the frame at hand."""

    name = "pids"
    store: Any = None
    capabilities = SinkCapabilities(inline_bytes_max=BYTES_MAX)
    is_folding = False
    check: Any = None
    prepare: Any = None
    apply: Any = None
    recount: Any = None

    def task_writer(self, batch: BatchAttempt, schema: pa.Schema, *, task_count: int = 1) -> PidWriter:
        return PidWriter(BYTES_MAX // task_count, self.is_folding)


@pytest.fixture
def sink() -> PidSink:
    return PidSink()


@pytest.fixture
def writer(spark: SparkSession, sink: PidSink) -> OutputWriter:
    route: Any = Route(output="default", sink=sink)  # type: ignore[arg-type]
    return OutputWriter(spark, route, arrow_schema(rows_of(spark, 1)))


def rows_of(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, numPartitions=2).select("id", f.concat(f.lit("row "), "id").alias("name"))


def write(writer: OutputWriter, rows: DataFrame, *, records: int) -> tuple[TaskReport, ...]:
    return writer.write(rows, NAME, range_count=2, record_count=records)


def is_by_driver(reports: tuple[TaskReport, ...]) -> bool:
    return [int(report.payload) for report in reports] == [os.getpid()]


def held(reports: tuple[TaskReport, ...]) -> list[int]:
    return [number for report in reports for batch in report.inline for number in batch.column("id").to_pylist()]


def test_rows_that_will_fit_as_the_last_ones_did_are_brought_by_spark_itself(
    spark: SparkSession, writer: OutputWriter
) -> None:
    first = write(writer, rows_of(spark, 100), records=100)
    assert (is_by_driver(first), held(first)) == (False, list(range(100)))
    second = write(writer, rows_of(spark, 150), records=200)
    assert (is_by_driver(second), held(second)) == (True, list(range(150)))


def test_more_than_twice_the_records_go_by_tasks(spark: SparkSession, writer: OutputWriter) -> None:
    write(writer, rows_of(spark, 100), records=100)
    assert not is_by_driver(write(writer, rows_of(spark, 100), records=201))
    assert is_by_driver(write(writer, rows_of(spark, 100), records=402))


def test_rows_that_were_unexpectedly_many_are_computed_again_by_tasks_and_so_is_the_next_batch(
    spark: SparkSession, writer: OutputWriter
) -> None:
    write(writer, rows_of(spark, 100), records=100)
    many = write(writer, rows_of(spark, 10_000), records=100)
    assert not is_by_driver(many)
    assert [report.staged for report in many] == [True, True]
    assert not is_by_driver(write(writer, rows_of(spark, 100), records=100))


def test_a_batch_that_failed_on_its_way_to_the_driver_is_tried_again_by_tasks(
    spark: SparkSession, writer: OutputWriter
) -> None:
    write(writer, rows_of(spark, 100), records=100)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        write(writer, rows_of(spark, 1).selectExpr("1 div id AS id", "name"), records=100)
    assert not is_by_driver(write(writer, rows_of(spark, 100), records=100))


def test_without_a_limit_of_sparks_no_rows_are_brought(spark: SparkSession, writer: OutputWriter) -> None:
    with result_size_max(spark, "0"):
        write(writer, rows_of(spark, 100), records=100)
    assert not is_by_driver(write(writer, rows_of(spark, 100), records=100))


def test_a_sink_that_does_not_say_how_much_it_holds_is_brought_nothing_to_be_dropped(
    spark: SparkSession, writer: OutputWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PidSink, "capabilities", SinkCapabilities())
    write(writer, rows_of(spark, 100), records=100)
    monkeypatch.setattr(OutputWriter, "_by_driver", lambda *_: pytest.fail("rows were brought"))
    assert not is_by_driver(write(writer, rows_of(spark, 100), records=100))


def test_what_spark_does_not_bring_to_the_driver_goes_by_tasks(spark: SparkSession, writer: OutputWriter) -> None:
    write(writer, rows_of(spark, 100), records=100)
    with result_size_max(spark, "10k"):
        reports = write(writer, rows_of(spark, 10_000), records=100)
    assert not is_by_driver(reports)
    assert sum(report.rows for report in reports) == 10_000


@pytest.mark.parametrize("rows", [0, 100])
def test_rows_that_are_folded_or_none_say_nothing_of_the_next_batch(
    spark: SparkSession, writer: OutputWriter, sink: PidSink, rows: int
) -> None:
    sink.is_folding = True
    write(writer, rows_of(spark, rows), records=100)
    assert not is_by_driver(write(writer, rows_of(spark, 100), records=100))


def test_a_batch_of_which_nobody_knows_how_many_records_it_has_goes_by_tasks(
    spark: SparkSession, writer: OutputWriter
) -> None:
    write(writer, rows_of(spark, 100), records=100)
    assert not is_by_driver(write(writer, rows_of(spark, 100), records=0))


def test_other_columns_than_at_the_start_are_refused_by_name(spark: SparkSession, writer: OutputWriter) -> None:
    with pytest.raises(TransformError, match=r"gives other columns .* \[id int64\], not \[id int64, name string\]"):
        write(writer, rows_of(spark, 1).select("id"), records=1)


@contextmanager
def result_size_max(spark: SparkSession, size: str) -> Iterator[None]:
    """Spark reads the limit anew for each job, from a configuration that only its own code can reach."""
    context: Any = spark.sparkContext._jsc
    conf = context.sc().conf()
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", size)
    try:
        yield
    finally:
        conf.set("spark.driver.maxResultSize", before)


def test_rows_that_are_kept_are_reported_in_the_order_of_their_partitions(
    spark: SparkSession, writer: OutputWriter, sink: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of rows that collide is to stay, and fewer tasks than partitions are given these as they lie about."""
    monkeypatch.setattr(SparkContext, "defaultParallelism", 8)
    sink.capabilities = replace(sink.capabilities, writers_max=3)
    rows = spark.range(0, 120, numPartitions=12).select("id", f.concat(f.lit("row "), "id").alias("name"))
    kept = rows.localCheckpoint()
    # Where blocks lie, Spark looks up once a job has used them.
    assert kept.count() == 120
    spark_gave = [row.id for row in kept.coalesce(3).collect()]
    assert spark_gave != list(range(120)), "Spark kept the order, so this proves nothing"
    assert held(write(writer, kept, records=0)) == list(range(120))
