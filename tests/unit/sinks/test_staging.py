"""What a task holds, and when it stops holding."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pyarrow as pa

from directkafka.sinks.staging import buffer, fold, report_encoded, report_inline
from directkafka.sinks.write_modes import WriteMode


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


def test_what_a_row_has_in_the_store_s_form_counts_too() -> None:
    assert isinstance(buffer(batches(4, 4), bytes_max=104, row_bytes=5), tuple)
    assert not isinstance(buffer(batches(4, 4), bytes_max=103, row_bytes=5), tuple)


def test_a_report_of_held_rows_counts_them() -> None:
    few = tuple(batches(2, 3))
    report = report_inline(few)
    assert (report.rows, report.held_count, report.staged, report.inline) == (5, 5, False, few)
    assert report_inline(few).attempt != report_inline(few).attempt


def encode(attempt: str, batch: pa.RecordBatch) -> Iterator[bytes]:
    """A chunk for each row."""
    for row in batch.to_pylist():
        yield f"{attempt}:{row}".encode()


def test_encoded_rows_have_their_attempt_and_stay_in_order() -> None:
    report = report_encoded(tuple(batches(2, 1)), WriteMode(), encode)
    assert (report.rows, report.held_count, report.staged, report.inline) == (3, 3, False, ())
    assert report.encoded is not None
    assert report.encoded.chunks == tuple(f"{report.attempt}:{{'id': {number}}}".encode() for number in range(3))


def test_rows_of_a_merge_are_folded_before_they_are_encoded_and_all_are_counted() -> None:
    few = (pa.record_batch({"key": ["a", "b", "a"], "hits": [1, 2, 4]}), pa.record_batch({"key": ["b"], "hits": [8]}))
    report = report_encoded(
        few, WriteMode(name="merge", key=("key",), add=("hits",)), lambda _, batch: encode("", batch)
    )
    assert (report.rows, report.held_count) == (4, 2)
    assert report.encoded is not None
    assert sorted(report.encoded.chunks) == [b":{'key': 'a', 'hits': 5}", b":{'key': 'b', 'hits': 10}"]


def test_a_task_without_rows_has_nothing_encoded() -> None:
    report = report_encoded((), WriteMode(name="merge", key=("key",), add=("hits",)), encode)
    assert (report.rows, report.held_count, report.encoded) == (0, 0, None)


def test_a_key_may_be_named_as_a_sum_would_be_and_have_a_point_in_front() -> None:
    rows = pa.table({".k": ["a", "a"], "n_sum": ["b", "b"], "n": [1, 2]})
    assert fold(rows, [".k", "n_sum"], ["n"]).to_pylist() == [{".k": "a", "n_sum": "b", "n": 3}]
