"""Writers side by side, and rows that a function of Arrow batches may give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from directkafka.errors import OptionError, TransformError
from directkafka.pipeline.execution.native.arrow_transform import ArrowTransform, schemas_of, transformed
from directkafka.pipeline.execution.native.task import SideBySide, WriterEndedError
from directkafka.sinks.api import TaskReport, TaskWriter

ROWS = [pa.record_batch({"n": [number]}) for number in range(20)]
RECORDS = pa.record_batch(
    {"topic": ["t"] * 3, "partition": pa.array([1] * 3, pa.int32()), "offset": pa.array([5, 6, 9], pa.int64())}
)


def write_side_by_side(
    rows: Iterator[dict[str, pa.RecordBatch]], writers: Sequence[tuple[str, TaskWriter]]
) -> tuple[TaskReport, ...]:
    with SideBySide(writers) as running:
        for batches in rows:
            running.put(batches)
        return running.finish()


def report(rows: int) -> TaskReport:
    return TaskReport(rows=rows, attempt="a", staged=True)


def takes_all(rows: Iterator[pa.RecordBatch]) -> TaskReport:
    return report(sum(batch.num_rows for batch in rows))


def takes(count: int) -> Any:
    def writer(rows: Iterator[pa.RecordBatch]) -> TaskReport:
        for _ in range(count):
            next(rows)
        return report(count)

    return writer


def fails(rows: Iterator[pa.RecordBatch]) -> TaskReport:
    next(rows)
    raise ConnectionError("the database is gone")


def outputs() -> Iterator[dict[str, pa.RecordBatch]]:
    return ({"all": batch} | ({"some": batch} if number % 2 else {}) for number, batch in enumerate(ROWS))


def test_each_writer_has_every_row_of_its_output() -> None:
    reports = write_side_by_side(outputs(), [("all", takes_all), ("some", takes_all), ("all", takes_all)])
    assert [report.rows for report in reports] == [20, 10, 20]


@pytest.mark.parametrize("count", [0, 1, 18, 19, 20])
def test_a_writer_that_returns_before_it_had_all_rows_has_not_written_them(count: int) -> None:
    with pytest.raises(WriterEndedError):
        write_side_by_side(outputs(), [("all", takes_all), ("all", takes(count))])


def test_what_a_writer_raises_ends_the_others() -> None:
    with pytest.raises(ConnectionError, match="the database is gone"):
        write_side_by_side(outputs(), [("all", takes_all), ("all", fails)])


def test_what_reading_raises_ends_all_writers() -> None:
    def broken() -> Iterator[dict[str, pa.RecordBatch]]:
        yield {"all": ROWS[0]}
        raise EOFError("the broker is gone")

    with pytest.raises(EOFError, match="the broker is gone"):
        write_side_by_side(broken(), [("all", takes_all), ("all", takes_all)])


@pytest.mark.parametrize(
    ("column", "values"), [("offset", [5, 6, 10]), ("offset", [4]), ("partition", [2]), ("topic", ["u"])]
)
def test_rows_of_records_that_the_batch_has_not_are_refused(column: str, values: list[Any]) -> None:
    given = RECORDS.slice(0, len(values))
    index = given.schema.get_field_index(column)
    changed = given.set_column(index, given.schema.field(index), pa.array(values, given.schema.field(index).type))
    transform = ArrowTransform(lambda batch: changed if batch.num_rows else batch, "mine")
    with pytest.raises(TransformError, match="rows of records that are not in the batch"):
        transformed(transform, RECORDS, schemas_of(transform, RECORDS.schema), "t-1[5, 10)")


def test_rows_may_name_no_record_that_a_gap_between_the_batch_s_offsets_has_left_out() -> None:
    offsets = RECORDS.schema.get_field_index("offset")

    def at(*values: int | None) -> pa.RecordBatch:
        return RECORDS.slice(0, len(values)).set_column(offsets, "offset", pa.array(values, pa.int64()))

    def give(rows: pa.RecordBatch) -> Any:
        transform = ArrowTransform(lambda batch: rows if batch.num_rows else batch, "mine")
        return transformed(transform, at(5, 7, 9), schemas_of(transform, RECORDS.schema), "t-1[5, 10)")

    assert give(at(9, 5, None))["default"].column("offset").to_pylist() == [9, 5, None]
    with pytest.raises(TransformError, match="rows of records that are not in the batch"):
        give(at(5, 6))


@pytest.mark.parametrize("error", [OptionError(option="schema", reason="it has no fields"), ValueError("no number")])
def test_whatever_the_function_raises_is_told_with_its_place(error: Exception) -> None:
    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows:
            raise error
        return batch

    transform = ArrowTransform(broken, "mine")
    with pytest.raises(
        TransformError, match=rf"the transform mine failed: on t-1\[5, 10\): {type(error).__name__}: "
    ) as caught:
        transformed(transform, RECORDS, schemas_of(transform, RECORDS.schema), "t-1[5, 10)")
    assert str(error) in str(caught.value)


def test_an_offset_of_another_meaning_is_a_column_like_others() -> None:
    transform = ArrowTransform(lambda batch: pa.record_batch({"offset": pa.array([77] * batch.num_rows, pa.int64())}))
    rows = transformed(transform, RECORDS, schemas_of(transform, RECORDS.schema), "t-1[5, 10)")
    assert rows["default"].column("offset").to_pylist() == [77, 77, 77]
