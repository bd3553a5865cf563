"""Rows on their way to a store that only the driver opens: inside the report, or in a file that it names."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from directkafka.errors import RowCountError, StoreAccessError, StoreUnavailableError
from directkafka.sinks.api import BatchAttempt, TaskReport
from directkafka.sinks.embedded.staging_files import Access, FileTaskWriter, StagedRows, StagingFolder
from directkafka.sinks.write_modes import WriteMode

SCHEMA = pa.schema([("id", pa.int64())])


def unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


APPEND = WriteMode()


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array([2 * number for number in batch.column(0).to_pylist()])})


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        yield pa.record_batch({"id": pa.array(range(first, first + size), pa.int64())})
        first += size


def writer(folder: Path, inline_bytes_max: int = 1000, mode: WriteMode = APPEND) -> FileTaskWriter:
    return FileTaskWriter(store="here", folder=folder, convert=unchanged, inline_bytes_max=inline_bytes_max, mode=mode)


def read(folder: Path, *reports: TaskReport) -> list[int]:
    rows = StagedRows(store="here", sink="flights", folder=folder, reports=reports)
    return [value for batch in rows.batches() for value in batch.column(0).to_pylist()]


def name(generation: int = 3, attempt: str = "a1", pipeline: str = "flights") -> BatchAttempt:
    return BatchAttempt(pipeline=pipeline, generation=generation, batch_id=7, attempt=attempt)


def test_few_rows_travel_inside_the_report(tmp_path: Path) -> None:
    report = writer(tmp_path / "batch")(batches(3, 0, 4))
    assert (report.rows, report.staged) == (7, False)
    assert read(tmp_path / "batch", report) == list(range(7))
    assert not (tmp_path / "batch").exists()


def test_no_rows_are_an_empty_report(tmp_path: Path) -> None:
    report = writer(tmp_path / "batch")(batches(0, 0))
    assert (report.rows, report.staged, report.inline) == (0, False, ())
    assert read(tmp_path / "batch", report) == []


def test_many_rows_go_to_a_file_those_that_were_held_too(tmp_path: Path) -> None:
    report = writer(tmp_path / "some" / "batch")(batches(100, 100, 1))
    assert (report.rows, report.staged, report.inline) == (201, True, ())
    assert [path.suffix for path in (tmp_path / "some" / "batch").iterdir()] == [".arrow"]
    assert read(tmp_path / "some" / "batch", report) == list(range(201))


def test_the_limit_counts_what_the_store_gets(tmp_path: Path) -> None:
    converting = replace(writer(tmp_path / "batch"), convert=doubled)
    assert read(tmp_path / "batch", converting(batches(2))) == [0, 2]


def test_a_writer_travels(tmp_path: Path) -> None:
    report = pickle.loads(pickle.dumps(writer(tmp_path / "batch", 0)))(batches(2))
    assert read(tmp_path / "batch", report) == [0, 1]


def test_an_attempt_that_does_not_count_is_not_read(tmp_path: Path) -> None:
    writer(tmp_path / "batch", 0)(batches(5))
    assert read(tmp_path / "batch", writer(tmp_path / "batch", 0)(batches(2))) == [0, 1]


@pytest.mark.parametrize(("inline_bytes_max", "is_staged"), [(0, True), (1000, False)])
def test_rows_of_a_merge_that_are_folded_count_as_they_came(
    tmp_path: Path, inline_bytes_max: int, is_staged: bool
) -> None:
    rows = [pa.record_batch({"id": [1, 2, 1], "hits": [1, 2, 4]}), pa.record_batch({"id": [2], "hits": [8]})]
    merge = WriteMode(name="merge", key=("id",), add=("hits",))
    report = writer(tmp_path / "batch", inline_bytes_max, merge)(iter(rows))
    assert (report.rows, report.staged) == (4, is_staged)
    assert report.folded == (1 if is_staged else 2)
    staged = StagedRows(store="here", sink="flights", folder=tmp_path / "batch", reports=[report])
    read_rows = [row for batch in staged.batches() for row in batch.to_pylist()]
    assert len(read_rows) == 4 - report.folded
    assert {key: sum(row["hits"] for row in read_rows if row["id"] == key) for key in (1, 2)} == {1: 5, 2: 10}


@pytest.mark.parametrize("inline_bytes_max", [0, 1000])
def test_other_numbers_than_reported_are_an_error(tmp_path: Path, inline_bytes_max: int) -> None:
    report = writer(tmp_path / "batch", inline_bytes_max)(batches(5))
    with pytest.raises(RowCountError) as caught:
        read(tmp_path / "batch", replace(report, rows=6))
    assert (caught.value.reported, caught.value.found) == (6, 5)


def test_a_file_that_is_not_there_says_what_to_set(tmp_path: Path) -> None:
    report = writer(tmp_path / "batch", 0)(batches(5))
    with pytest.raises(StoreAccessError, match=r"5 rows .* are not there.*set staging") as caught:
        read(tmp_path / "elsewhere", report)
    assert str(tmp_path / "elsewhere") in caught.value.cause


def test_a_folder_that_cannot_be_made_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreUnavailableError, match="staging rows in"):
        writer(tmp_path / "file" / "batch", 0)(batches(5))


def test_a_batch_s_folder_goes_and_the_staging_folder_with_the_last_one(tmp_path: Path) -> None:
    folder = StagingFolder(tmp_path / "staging")
    for attempt in ("a1", "a2"):
        writer(folder.of(name(attempt=attempt), "flights"), 0)(batches(5))
    folder.remove([folder.of(name(attempt="a1"), "flights").name])
    assert [path.name for path in folder.path.iterdir()] == [folder.of(name(attempt="a2"), "flights").name]
    folder.remove([folder.of(name(attempt="a2"), "flights").name])
    assert not folder.path.exists()


def test_only_older_drivers_of_the_pipeline_are_tidied_up_after(tmp_path: Path) -> None:
    folder = StagingFolder(tmp_path / "staging")
    kept = [name(generation=3), name(generation=4), name(generation=1, pipeline="weather")]
    for batch in [name(generation=1), name(generation=2), *kept]:
        folder.of(batch, "flights").mkdir(parents=True)
    (folder.path / "a user's file").touch()
    folder.remove_stale(name(generation=3))
    left = {path.name for path in folder.path.iterdir()}
    assert left == {folder.of(batch, "flights").name for batch in kept} | {"a user's file"}
    StagingFolder(tmp_path / "nothing").remove_stale(name())


def modes(folder: Path) -> set[str]:
    return {stat.filemode(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        (0o600, {"drwx------", "-rw-------"}),
        (0o640, {"drwxr-x---", "-rw-r-----"}),
        (0o664, {"drwxrwxr-x", "-rw-rw-r--"}),
        (0o400, {"drwx------", "-rw-------"}),
    ],
)
def test_staged_rows_are_as_open_as_the_database_is(tmp_path: Path, database: int, expected: set[str]) -> None:
    path = tmp_path / "flights.db"
    path.touch(mode=database)
    path.chmod(database)
    staging = writer(tmp_path / "staging" / "batch", 0)
    report = replace(staging, access=Access.of(path))(batches(2))
    assert modes(tmp_path / "staging") == expected
    assert read(tmp_path / "staging" / "batch", report) == [0, 1]


def test_a_group_that_is_not_the_database_s_is_given_nothing(tmp_path: Path) -> None:
    access = Access(mode=0o664, group=os.getgid() + 1)
    replace(writer(tmp_path / "staging" / "batch", 0), access=access)(batches(2))
    assert modes(tmp_path / "staging") == {"drwx---r-x", "-rw----r--"}
