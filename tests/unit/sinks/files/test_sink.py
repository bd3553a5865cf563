"""The Parquet sink and its store without Spark: options, damage, what is removed and what never is."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from directkafka.errors import (
    CommitUnknownError,
    OptionError,
    RowCountError,
    RowRejectedError,
    SchemaMismatchError,
    StoreUnavailableError,
)
from directkafka.sinks.files import log, posix, task_writer
from directkafka.sinks.files.reader import committed_files
from directkafka.sinks.files.sink import ParquetSink
from directkafka.sinks.files.store import FilesStore
from directkafka.testing.store_driver import SCHEMA, Job, batches_of, run_together


@pytest.fixture
def sink(tmp_path: Path) -> ParquetSink:
    return ParquetSink(tmp_path / "data", durable=False)


@pytest.fixture
def job(sink: ParquetSink) -> Job:
    return Job(sink.store).start()


def rows(folder: Path) -> list[int]:
    return sorted(committed_files(folder).dataset().to_table().column("id").to_pylist())


@pytest.mark.parametrize(
    ("options", "option", "words"),
    [
        ({"path": "s3://bucket/x"}, "path", "scheme 's3'"),
        ({"mode": "merge"}, "mode", "Committed files are never changed"),
        ({"format": "avro"}, "format", "'parquet', 'json' or 'text'"),
        ({"compression": "brotli"}, "compression", "zstd"),
        ({"format": "json", "compression": "zstd"}, "compression", "none, gzip for json"),
        ({"table": "../up"}, "table", "no name of a sub-folder"),
        ({"table": "_hidden"}, "table", "no name of a sub-folder"),
        ({"row_group_bytes": 0}, "row_group_bytes", "greater than or equal to 1"),
        ({"schema_policy": "guess"}, "schema_policy", "add-columns"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], option: str, words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        ParquetSink(**({"path": "/data"} | options))
    assert caught.value.option == option


def test_a_check_makes_nothing(tmp_path: Path) -> None:
    ParquetSink(tmp_path / "a" / "b").check(SCHEMA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("harm", ["removed", "cut", "overwritten", "replaced"])
def test_a_file_that_is_not_what_was_reported_stops_the_commit(harm: str, job: Job, sink: ParquetSink) -> None:
    entry = job.next_entry()
    write = job.write(sink, job.batch(entry), [[(1, 1), (2, 1)]])
    (path,) = sink.store.folder.glob("part-*")
    size = path.stat().st_size
    match harm:
        case "removed":
            path.unlink()
        case "cut":
            os.truncate(path, size - 1)
        case "overwritten":
            path.write_bytes(bytes(size))
        case "replaced":
            pq.write_table(pa.table({"id": [7, 8]}), path)
    with pytest.raises(RowCountError) as caught:
        job.store.commit(entry, previous=None, writes=[write])
    assert (caught.value.reported, caught.value.found) == (2, 0)
    assert committed_files(sink.store.folder).paths == ()


def test_nulls_in_what_spark_calls_not_nullable_are_written(tmp_path: Path) -> None:
    strict = pa.field("a", pa.int32(), nullable=False)
    schema = pa.schema([("s", pa.struct([strict]))])
    child = pa.array([1, None], pa.int32())
    array = pa.StructArray.from_arrays([child], fields=[strict], mask=pa.array([False, True]))
    sink = ParquetSink(tmp_path / "data", durable=False)
    sink.prepare(schema)
    job = Job(sink.store).start()
    batch = job.batch(job.next_entry())
    report = sink.task_writer(batch, schema)(iter([pa.record_batch([array], schema=schema)]))
    job.store.commit(job.next_entry(), previous=None, writes=[(sink, batch, [report])])
    rows = committed_files(tmp_path / "data").dataset().to_table().to_pylist()
    assert rows == [{"s": {"a": 1}}, {"s": None}]


def test_row_groups_are_as_large_as_asked_for(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "data", row_group_bytes=1000, compression="snappy")
    sink.prepare(SCHEMA)
    job = Job(sink.store).start()
    writer = sink.task_writer(job.batch(job.next_entry()), SCHEMA)
    batches = [batch for _ in range(40) for batch in batches_of([(1, 1)] * 10)]
    report = writer(iter(batches))
    (path,) = (tmp_path / "data").glob("part-*.snappy.parquet")
    metadata = pq.read_metadata(path)
    assert (report.rows, metadata.num_rows, metadata.num_row_groups) == (400, 400, 6)
    assert metadata.row_group(0).column(0).compression == "SNAPPY"


@pytest.mark.parametrize(("value", "words"), [(None, "a null"), ("two\nlines", "line break in 'two"), ("a\rb", "line")])
def test_a_text_that_is_no_line_is_refused(value: str | None, words: str, tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "data", format="text")
    schema = pa.schema([("value", pa.string())])
    sink.prepare(schema)
    job = Job(sink.store).start()
    batch = pa.record_batch([pa.array(["good", value])], schema=schema)
    with pytest.raises(RowRejectedError, match=words):
        sink.task_writer(job.batch(job.next_entry()), schema)(iter([batch]))
    assert list((tmp_path / "data").glob("*part-*")) == []


def test_a_fence_removes_what_older_drivers_left_and_nothing_else(job: Job, sink: ParquetSink) -> None:
    folder = sink.store.folder
    job.run((sink, [[(1, 1)]]))
    job.write(sink, job.batch(job.next_entry()), [[(2, 1)], [(3, 1)]])
    other = Job(FilesStore(folder), pipeline="weather").start()
    other.write(sink, other.batch(other.next_entry()), [[(4, 1)]])
    (folder / "part-of-somebody-else.parquet").touch()
    before = set(folder.glob("part-*"))
    Job(FilesStore(folder)).start()
    gone = before - set(folder.glob("part-*"))
    assert len(before) == 5
    assert len(gone) == 2
    assert rows(folder) == [1]


def test_a_listed_file_is_never_removed_whatever_its_name_says(job: Job, sink: ParquetSink) -> None:
    job.run((sink, [[(1, 1)]]))
    for _ in range(3):
        Job(FilesStore(sink.store.folder)).start()
    assert rows(sink.store.folder) == [1]


def test_the_entry_is_found_after_the_file_system_failed(
    job: Job, sink: ParquetSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is linked, then the directory cannot be synced for a while."""
    job.store.force_durable()
    sync = posix.sync_directory
    failures = iter([True])

    def fail_once(folder: Path) -> None:
        if (folder / f"{2:020d}.json").exists() and next(failures, False):
            raise OSError(errno.EIO, "Input/output error")
        sync(folder)

    monkeypatch.setattr(log, "sync_directory", fail_once)
    assert job.run((sink, [[(1, 1)]])).row_counts == {".": 1}
    assert next(failures, False) is False
    assert rows(sink.store.folder) == [1]


def test_a_file_system_that_stays_away_leaves_the_commit_unknown(
    tmp_path: Path, sink: ParquetSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(FilesStore(tmp_path / "data", resolve_timeout_s=0.2)).start()
    write = job.write(sink, job.batch(job.next_entry()), [[(1, 1)]])

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(log, "sync_directory", fail)
    with pytest.raises(CommitUnknownError, match="Input/output error; then"):
        job.store.commit(job.next_entry(), previous=None, writes=[write])


def test_what_several_stores_force_reaches_a_sink_whose_store_was_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sinks of one directory share the first one's transaction."""
    first = ParquetSink(tmp_path / "data", table="first", durable=False)
    second = ParquetSink(tmp_path / "data", table="second", durable=False)
    first.store.force_durable()
    job = Job(first.store).start()
    synced: list[str] = []
    monkeypatch.setattr(task_writer, "sync_file", lambda path: synced.append(path.parent.name))
    job.run((first, [[(1, 1)]]), (second, [[(2, 1)], [(3, 1)]]))
    assert synced == ["first", "second", "second"]


def test_a_link_that_fails_is_a_definite_failure(job: Job, sink: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = job.next_entry()
    write = job.write(sink, job.batch(entry), [[(1, 1)]])

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "link", fail)
        with pytest.raises(StoreUnavailableError, match="No space left"):
            job.store.commit(entry, previous=None, writes=[write])
    assert job.store.read("flights") is None
    job.store.commit(entry, previous=None, writes=[write])
    assert rows(sink.store.folder) == [1]


def test_records_that_two_rows_name_are_counted(tmp_path: Path) -> None:
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    sink = ParquetSink(tmp_path / "data")
    sink.prepare(schema)
    job = Job(sink.store).start()
    entry = job.next_entry()
    batch = job.batch(entry)
    rows = pa.record_batch([["t"] * 4, pa.array([0, 0, 1, 0], pa.int32()), [5, 6, 5, 5]], schema=schema)
    report = sink.task_writer(batch, schema)(iter([rows]))
    job.store.commit(entry, previous=None, writes=[(sink, batch, [report])])
    counted = sink.recount()
    assert (counted.rows, counted.doubled) == (4, 1)


def test_two_pipelines_may_grow_one_table(tmp_path: Path) -> None:
    narrow = ParquetSink(tmp_path / "data", schema_policy="add-columns")
    wide = ParquetSink(tmp_path / "data", schema_policy="add-columns")
    narrow.prepare(SCHEMA)
    wide.prepare(pa.schema([("more", pa.string())]))
    assert committed_files(tmp_path / "data").schema.names == ["id", "flights", "more"]
    with pytest.raises(SchemaMismatchError, match="'more' of type int64 does not go into string"):
        narrow.prepare(pa.schema([("more", pa.int64())]))


def test_many_pipelines_at_once_go_on_at_each_others_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several checkpoints pass meanwhile, and a reader finds whole batches all the time."""
    monkeypatch.setattr(log, "GROUP", 4)
    pipelines, batches = 4, 12
    ParquetSink(tmp_path / "data", durable=False).prepare(SCHEMA)
    done = threading.Event()

    def drive(number: int) -> None:
        sink = ParquetSink(tmp_path / "data", durable=False)
        job = Job(sink.store, pipeline=f"pipeline-{number}").start()
        for batch in range(batches):
            job.run((sink, [[(number, batch)], [(number, batch)]]))

    def look() -> int:
        looks = 0
        while not done.is_set():
            files = committed_files(tmp_path / "data")
            assert len(files.paths) % 2 == 0
            assert files.rows == len(files.paths)
            looks += 1
        return looks

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(look)
        results = run_together(*(partial(drive, number) for number in range(pipelines)))
        done.set()
        assert reader.result() > 0
    assert results == [None] * pipelines
    rows = committed_files(tmp_path / "data").dataset().to_table().to_pylist()
    expected = [(number, batch) for number in range(pipelines) for batch in range(batches)] * 2
    assert sorted((row["id"], row["flights"]) for row in rows) == sorted(expected)
    entries = list((tmp_path / "data" / log.LOG_FOLDER).glob("*.json"))
    assert len(entries) < 12
