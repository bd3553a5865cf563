"""Reports on their way from a task to the driver."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pyarrow as pa
import pytest

from directkafka.error_notes import from_note
from directkafka.errors import RowRejectedError
from directkafka.pipeline.write_task import WriteTask, reports_of
from directkafka.sinks.few_rows import report_held
from directkafka.stores.base import TaskReport

NUMBERS = pa.record_batch({"id": pa.array(range(1_000_000), pa.int64())})


def collected(*tasks: WriteTask) -> pa.Table:
    return pa.Table.from_batches([report for task in tasks for report in task(iter(()))])


def test_reports_come_in_the_order_of_the_tasks_with_the_rows_that_were_held() -> None:
    few = (NUMBERS.slice(3, 2), NUMBERS.slice(0, 1))
    sent = [
        report_held(few),
        TaskReport(rows=7, attempt="b", staged=True, payload=b"files"),
        TaskReport(rows=0, attempt="c", staged=False),
    ]
    tasks = [WriteTask(lambda _, report=report: report) for report in sent]  # type: ignore[misc]
    assert reports_of(collected(*tasks)) == tuple(sent)


def test_of_a_slice_only_its_own_rows_travel() -> None:
    task = WriteTask(lambda _: report_held((NUMBERS.slice(500_000, 10),)))
    assert collected(task).nbytes < 5_000


def test_an_error_of_ours_keeps_its_fields_on_the_way() -> None:
    def refuse(batches: Iterator[pa.RecordBatch]) -> TaskReport:
        raise RowRejectedError(store="here", sink="flights", detail="offset 7")

    with pytest.raises(Exception, match="offset 7") as caught:
        collected(WriteTask(refuse))
    found = from_note("".join(traceback.format_exception(caught.value)))
    assert isinstance(found, RowRejectedError)
    assert found.detail == "offset 7"
