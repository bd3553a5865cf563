"""What a task holds, and when it stops holding."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pyarrow as pa

from directkafka.sinks.staging import buffer, report_inline


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        yield pa.record_batch({"id": pa.array(range(first, first + size), pa.int64())})
        first += size


def ids(rows: Iterator[pa.RecordBatch] | tuple[pa.RecordBatch, ...]) -> list[int]:
    return [number for batch in rows for number in batch.column(0).to_pylist()]


def test_rows_up_to_the_limit_are_held_and_empty_batches_are_left_out() -> None:
    few = buffer(batches(4, 0, 4), bytes_max=64)
    assert isinstance(few, tuple)
    assert [batch.num_rows for batch in few] == [4, 4]
    assert ids(few) == list(range(8))


def test_a_byte_more_than_the_limit_is_many_and_none_is_lost() -> None:
    many = buffer(batches(4, 4, 4), bytes_max=63)
    assert not isinstance(many, tuple)
    assert ids(many) == list(range(12))


def test_batches_that_were_held_are_let_go_as_they_are_taken() -> None:
    many = buffer(batches(100, 100, 100), bytes_max=1000)
    assert not isinstance(many, tuple)
    seen = weakref.ref(next(many))
    next(many)
    gc.collect()
    assert seen() is None


def test_a_report_of_held_rows_counts_them_or_what_they_were_folded_from() -> None:
    few = tuple(batches(2, 3))
    assert (report_inline(few).rows, report_inline(few, rows=40).rows) == (5, 40)
    assert report_inline(few).inline == few
    assert not report_inline(few).staged
    assert report_inline(few).attempt != report_inline(few).attempt
