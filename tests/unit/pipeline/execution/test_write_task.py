"""Reports on their way from a task to the driver."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from directkafka import row_chunks
from directkafka.errors import RowRejectedError
from directkafka.errors.transport import Notes
from directkafka.pipeline.execution.write_task import PART, WriteTask, reports_of
from directkafka.row_files import RowFolder
from directkafka.sinks.api import EncodedRows, TaskReport
from directkafka.sinks.staging import report_inline

NUMBERS = pa.record_batch({"id": pa.array(range(1_000_000), pa.int64())})


def collected(*tasks: WriteTask) -> pa.Table:
    return pa.Table.from_batches([report for task in tasks for report in task(iter(()))])


def test_reports_come_in_the_order_of_the_tasks_with_the_rows_that_were_held() -> None:
    few = (NUMBERS.slice(3, 2), NUMBERS.slice(0, 1))
    sent = [
        report_inline(few),
        TaskReport(rows=7, attempt="b", staged=True, payload=b"files"),
        TaskReport(rows=0, attempt="c", staged=False),
    ]
    tasks = [WriteTask(lambda _, report=report: report) for report in sent]  # type: ignore[misc]
    reports = [replace(report, inline=tuple(report.inline)) for report in reports_of(collected(*tasks))]
    assert reports == sent


def test_a_task_that_writes_several_partitions_reports_each_and_the_driver_puts_them_in_order() -> None:
    """Two tasks, which were given the partitions 3 and 0, and 2 and 1."""

    def rows(*parts: int) -> Iterator[pa.RecordBatch]:
        ids = [10 * part + row for part in parts for row in range(3)]
        numbers = [part for part in parts for _ in range(3)]
        table = pa.record_batch({"id": pa.array(ids), PART: pa.array(numbers, pa.int32())})
        # Arrow batches end where they like; some have no rows.
        return iter([table.slice(0, 2), table.slice(0, 0), table.slice(2)])

    def write(batches: Iterator[pa.RecordBatch]) -> TaskReport:
        return report_inline(tuple(batches))

    tasks = [report for parts in ((3, 0), (2, 1)) for report in WriteTask(write)(rows(*parts))]
    reports = reports_of(pa.Table.from_batches(tasks))
    ids_by_partition = [pa.Table.from_batches(report.inline).column("id").to_pylist() for report in reports]
    assert ids_by_partition == [[0, 1, 2], [10, 11, 12], [20, 21, 22], [30, 31, 32]]
    assert [report.rows for report in reports] == [3, 3, 3, 3]


def test_rows_that_were_held_stay_a_chunk_until_somebody_reads_them_and_can_be_read_again() -> None:
    """The driver only hands them on, to a process that has the database file open, for example."""
    (report,) = reports_of(collected(WriteTask(lambda _: report_inline((NUMBERS.slice(0, 100_000),)))))
    handed_on = pickle.loads(pickle.dumps(report))
    assert len(pickle.dumps(report)) < NUMBERS.slice(0, 100_000).nbytes
    for _ in range(2):
        assert pa.Table.from_batches(handed_on.inline).column("id").to_pylist() == list(range(100_000))
    assert (len(handed_on.inline), handed_on.held_count) == (1, 100_000)
    assert NUMBERS.slice(0, 100_000) in handed_on.inline
    assert NUMBERS not in handed_on.inline


def many_rows(kind: str) -> TaskReport:
    if kind == "inline":
        return report_inline((NUMBERS.slice(0, 100_000), NUMBERS.slice(0, 1)))
    rows = EncodedRows(row_count=2, chunks=(b"a" * 100_000, b"b"))
    return TaskReport(rows=2, attempt="a", staged=False, encoded=rows)


def content(report: TaskReport) -> object:
    return list(report.encoded.chunks) if report.encoded else pa.Table.from_batches(list(report.inline))


@pytest.mark.parametrize("kind", ["inline", "encoded"])
def test_many_rows_on_the_driver_s_machine_are_in_a_file(kind: str, tmp_path: Path) -> None:
    folder, sent = RowFolder(tmp_path), many_rows(kind)
    task = collected(WriteTask(lambda _: sent, folder.path))
    assert task.nbytes < 1_000
    (report,) = reports_of(task, folder)
    assert [content(report), content(report)] == [content(sent)] * 2
    assert len(list(folder.path.iterdir())) == 1


@pytest.mark.parametrize("kind", ["inline", "encoded"])
def test_few_rows_and_those_that_no_file_takes_travel_with_the_report(kind: str, tmp_path: Path) -> None:
    """The folder is gone when the batch is over, for example."""
    few = report_inline((NUMBERS.slice(0, 10),))
    for sent, folder in ((many_rows(kind), tmp_path / "gone"), (few, tmp_path)):
        (report,) = reports_of(collected(WriteTask(lambda _, sent=sent: sent, folder)))  # type: ignore[misc]
        assert content(report) == content(sent)
    assert list(tmp_path.iterdir()) == []


def test_of_a_slice_only_its_own_rows_travel() -> None:
    task = WriteTask(lambda _: report_inline((NUMBERS.slice(500_000, 10),)))
    assert collected(task).nbytes < 5_000


def test_bytes_that_repeat_themselves_take_less_room_on_the_way() -> None:
    rows = EncodedRows(row_count=1_000, chunks=(b"the same row" * 1_000,))
    task = WriteTask(lambda _: TaskReport(rows=1_000, attempt="a", staged=False, encoded=rows))
    assert collected(task).nbytes < 1_000


def test_bytes_of_a_store_s_own_are_there_for_each_try_of_the_commit() -> None:
    rows = EncodedRows(row_count=3, chunks=(b"of", b"COPY"))
    task = WriteTask(lambda _: TaskReport(rows=9, attempt="d", staged=False, encoded=rows))
    (report,) = reports_of(collected(task))
    assert (report.rows, report.attempt) == (9, "d")
    assert report.encoded is not None
    assert report.encoded.row_count == 3
    for _ in range(2):
        assert list(report.encoded.chunks) == [b"of", b"COPY"]


def test_bytes_of_a_store_s_own_are_decompressed_when_it_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of a batch at once, before the first of them is sent."""
    rows = EncodedRows(row_count=3, chunks=(b"one", b"two", b"three"))
    task = WriteTask(lambda _: TaskReport(rows=3, attempt="a", staged=False, encoded=rows))
    (report,) = reports_of(collected(task))
    decompressed: list[bytes] = []

    def counted(chunk: bytes) -> bytes:
        decompressed.append(chunk)
        return original(chunk)

    original = row_chunks.decompressed
    monkeypatch.setattr(row_chunks, "decompressed", counted)
    assert report.encoded is not None
    chunks = iter(report.encoded.chunks)
    assert (next(chunks), len(decompressed)) == (b"one", 1)
    assert (next(chunks), len(decompressed)) == (b"two", 2)


def test_an_error_of_ours_keeps_its_fields_on_the_way() -> None:
    def refuse(batches: Iterator[pa.RecordBatch]) -> TaskReport:
        raise RowRejectedError(store="here", sink="flights", detail="offset 7")

    with pytest.raises(Exception, match="offset 7") as caught:
        collected(WriteTask(refuse))
    error = Notes.of_this_process().read("".join(traceback.format_exception(caught.value)))
    assert isinstance(error, RowRejectedError)
    assert error.detail == "offset 7"
