"""Rows that tasks of the driver's own machine hand over in files."""

from __future__ import annotations

import gc
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.chaos.pipelines import PARTITIONS
from tests.contract.kafka_harness import read_committed, wait_until_stable
from tests.contract.mysql_harness import MySQLHarness
from tests.real.pipeline.conftest import COUNT, QUERY, World
from tests.real.pipeline.test_native import numbered

from directkafka import ArrowTransform, DuckDBSink, KafkaSink, MySQLSink, PostgresSink, SQLiteSink, row_files
from directkafka.errors import TransformError
from directkafka.pipeline.execution import write_task
from directkafka.pipeline.progress import BatchReport
from directkafka.row_files import BatchesOfFile, EncodedOfFile
from directkafka.spark.private_folder import private_folder

pytestmark = pytest.mark.real

TEXT = "text " * 2_000
NUMBERS = list(range(COUNT))


def wide(batch: pa.RecordBatch) -> pa.RecordBatch:
    """So that few rows are many bytes."""
    return numbered(batch).append_column("text", pa.array([TEXT] * batch.num_rows, pa.string()))


def outputs(batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
    return {"rows": wide(batch), "records": batch.select(["key"]).append_column("value", wide(batch).column("text"))}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that reports have named."""
    monkeypatch.setattr(row_files, "_given_up", threading.Event())
    named: list[Path] = []

    def noted(kind: Any) -> Callable[..., Any]:
        def make(file: Any, folder: Any) -> Any:
            named.append(Path(file.path))
            assert named[-1].parent.parent == private_folder()
            return kind(file, folder)

        return make

    for kind in (EncodedOfFile, BatchesOfFile):
        monkeypatch.setattr(write_task, kind.__name__, noted(kind))
    return named


def batches_of(sink: Any, files: list[Path], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches that a kind of sink is given; before the first one, somebody removes the folder with its files."""
    apply, seen = sink.apply, list[int]()

    def cleaned_before(self: Any, transaction: Any, batch: Any, reports: Any) -> int:
        if not seen:
            shutil.rmtree(files[0].parent)
        seen.append(batch.batch_id)
        return int(apply(self, transaction, batch, reports))

    monkeypatch.setattr(sink, "apply", cleaned_before)
    return seen


def assert_gone(files: list[Path]) -> None:
    gc.collect()
    assert files
    assert [file for file in files if file.parent.exists()] == []


@pytest.mark.parametrize("transform", [ArrowTransform(wide), f"SELECT *, '{TEXT}' AS text FROM ({QUERY})"])
def test_they_come_whole_and_leave_nothing_behind(world: World, files: list[Path], transform: Any) -> None:
    folder_counts: list[int] = []

    def look(_: BatchReport) -> None:
        folder_counts.append(len(list(private_folder().glob("rows-*"))))

    world.pipeline(transform, report=look).run()
    assert world.query(f"SELECT number FROM records WHERE text = '{TEXT}' ORDER BY 1") == [(n,) for n in NUMBERS]
    # Of the batch that has just been committed, and of the one that was computed meanwhile.
    assert len(folder_counts) == 3
    assert max(folder_counts) <= 2
    assert_gone(files)


def test_those_of_a_job_that_fails_do_not_wait_for_its_error_to_be_forgotten(world: World, files: list[Path]) -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows and batch.column("partition")[0].as_py() == 1:
            raise ValueError("of this partition")
        return wide(batch)

    with pytest.raises(TransformError) as raised:
        world.pipeline(ArrowTransform(fail)).run()
    assert list(private_folder().glob("rows-*")) == []
    assert "of this partition" in str(raised.value)
    assert files == []


def test_a_store_that_comes_second_has_its_rows_although_the_files_are_gone(
    world: World, files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first store has the batch, so what is kept for the second one must not be tried again and again."""
    seen = batches_of(SQLiteSink, files, monkeypatch)
    sinks = [PostgresSink(world.dsn, "records"), SQLiteSink(tmp_path / "air.sqlite", "records")]
    world.pipeline(ArrowTransform(wide), sinks=sinks).run()
    assert seen == [1, 1, 2, 3]
    assert world.numbers() == NUMBERS
    with closing(sqlite3.connect(tmp_path / "air.sqlite")) as connection:
        assert [row[0] for row in connection.execute("SELECT number FROM records ORDER BY 1").fetchall()] == NUMBERS
    # From the second try on, the JVM has carried them.
    assert len({file.parent for file in files}) <= 2


def test_every_store_that_is_given_rows_takes_them_out_of_files(
    world: World, files: list[Path], tmp_path: Path, create_topic: Callable[..., str], mysql_database: str
) -> None:
    target = create_topic(partitions=PARTITIONS)
    tables = [
        PostgresSink(world.dsn, "records"),
        MySQLSink(mysql_database, "records"),
        SQLiteSink(tmp_path / "air.sqlite", "records"),
        DuckDBSink(tmp_path / "air.duckdb", "records"),
    ]
    sinks: dict[str, Any] = {"rows": tables, "records": KafkaSink({"bootstrap.servers": world.kafka}, topic=target)}
    world.pipeline(ArrowTransform(outputs), sinks=sinks, name=target).run()
    query = "SELECT number FROM records ORDER BY 1"
    assert world.numbers() == NUMBERS
    assert [row[0] for row in MySQLHarness(mysql_database).query(query)] == NUMBERS
    with duckdb.connect(str(tmp_path / "air.duckdb")) as connection:
        assert [row[0] for row in connection.execute(query).fetchall()] == NUMBERS
    with closing(sqlite3.connect(tmp_path / "air.sqlite")) as connection:
        assert [row[0] for row in connection.execute(query).fetchall()] == NUMBERS
    wait_until_stable(world.kafka, target)
    assert [record.value for record in read_committed(world.kafka, target)] == [TEXT.encode()] * COUNT
    # Three batches of three ranges, each for five sinks.
    assert len(files) == 3 * PARTITIONS * 5
    assert_gone(files)


def test_a_batch_whose_files_somebody_has_removed_is_done_again(
    world: World, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner of the temporary folder, for example."""
    seen = batches_of(PostgresSink, files, monkeypatch)
    world.pipeline(ArrowTransform(wide)).run()
    assert seen == [1, 1, 2, 3]
    assert world.numbers() == NUMBERS
    assert_gone(files)


def test_where_no_folder_can_be_made_the_jvm_carries_them(
    world: World, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(row_files, "RowFolder", full)
    world.pipeline(ArrowTransform(wide)).run()
    assert world.numbers() == NUMBERS
    assert files == []
