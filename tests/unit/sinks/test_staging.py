"""What a task holds, and when it stops holding."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest

from directkafka.sinks.staging import InlineRows, buffer, fold, report_encoded, report_inline
from directkafka.sinks.write_modes import WriteMode


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        yield pa.record_batch({"id": pa.array(range(first, first + size), pa.int64())})
        first += size


MERGE = WriteMode(name="merge", key=("key",), add=("hits",))


def hits(*batch_keys: str, count: int = 1) -> Iterator[pa.RecordBatch]:
    """A batch for each text, with a row for each letter of it, ``count`` times over."""
    for keys in batch_keys:
        yield pa.record_batch({"key": list(keys) * count, "hits": pa.array([1] * len(keys) * count, pa.int64())})


def sums(rows: Iterator[pa.RecordBatch] | InlineRows) -> dict[str, int]:
    added: dict[str, int] = {}
    for batch in rows:
        for row in batch.to_pylist():
            added[row["key"]] = added.get(row["key"], 0) + row["hits"]
    return added


def ids(rows: Iterator[pa.RecordBatch] | tuple[pa.RecordBatch, ...]) -> list[int]:
    return [number for batch in rows for number in batch.column(0).to_pylist()]


def test_rows_up_to_the_limit_are_held_and_empty_batches_are_left_out() -> None:
    few = buffer(batches(4, 0, 4), bytes_max=64).batches
    assert isinstance(few, tuple)
    assert [batch.num_rows for batch in few] == [4, 4]
    assert ids(few) == list(range(8))


def test_a_byte_more_than_the_limit_is_many_and_none_is_lost() -> None:
    many = buffer(batches(4, 4, 4), bytes_max=63).batches
    assert not isinstance(many, tuple)
    assert ids(many) == list(range(12))


def test_batches_that_were_held_are_let_go_as_they_are_taken() -> None:
    many = buffer(batches(100, 100, 100), bytes_max=1000).batches
    assert not isinstance(many, tuple)
    seen = weakref.ref(next(many))
    next(many)
    gc.collect()
    assert seen() is None


def test_what_a_row_has_in_the_store_s_form_counts_too() -> None:
    assert isinstance(buffer(batches(4, 4), bytes_max=104, row_bytes=5).batches, tuple)
    assert not isinstance(buffer(batches(4, 4), bytes_max=103, row_bytes=5).batches, tuple)


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
    report = report_encoded(tuple(batches(2, 1)), encode)
    assert (report.rows, report.held_count, report.staged, report.inline) == (3, 3, False, ())
    assert report.encoded is not None
    assert report.encoded.chunks == tuple(f"{report.attempt}:{{'id': {number}}}".encode() for number in range(3))


def test_rows_of_a_merge_are_folded_where_they_are_held_and_all_are_counted() -> None:
    rows = buffer(hits("aba", "b"), bytes_max=1000, mode=MERGE)
    assert isinstance(rows.batches, tuple)
    assert (sums(rows.batches), rows.folded) == ({"a": 2, "b": 2}, 2)
    report = report_encoded(rows.batches, encode, rows.folded)
    assert (report.rows, report.held_count, report.folded) == (4, 2, 2)
    assert report.encoded is not None
    assert len(report.encoded.chunks) == 2
    assert report_inline(rows.batches, rows.folded).rows == 4


def test_many_rows_of_few_keys_are_few() -> None:
    rows = buffer(hits(*["abc"] * 50, count=100), bytes_max=5000, mode=MERGE)
    assert isinstance(rows.batches, tuple)
    assert (sums(rows.batches), rows.folded) == ({"a": 5000, "b": 5000, "c": 5000}, 15_000 - 3)


def test_rows_of_many_keys_are_many_and_those_that_were_folded_are_counted() -> None:
    keys = "".join(chr(0x4E00 + number) for number in range(500))
    rows = buffer(hits(keys[:300] * 2, keys[300:], "a"), bytes_max=6000, mode=MERGE)
    assert not isinstance(rows.batches, tuple)
    assert rows.folded == 300
    assert sums(rows.batches) == dict.fromkeys(keys[:300], 2) | dict.fromkeys(keys[300:], 1) | {"a": 1}


def test_rows_that_fit_once_they_are_folded_are_few() -> None:
    rows = buffer(hits("".join(chr(0x4E00 + number) for number in range(300)) * 2), bytes_max=6000, mode=MERGE)
    assert isinstance(rows.batches, tuple)
    assert (rows.folded, set(sums(rows.batches).values())) == (300, {2})


@pytest.mark.parametrize("mode", [WriteMode(), WriteMode(name="upsert", key=("key",)), None])
def test_rows_of_other_modes_are_as_they_came(mode: WriteMode | None) -> None:
    rows = buffer(hits("aba", "b"), bytes_max=1000, mode=mode)
    assert ([batch.num_rows for batch in rows.batches], rows.folded) == ([3, 1], 0)


def test_rows_whose_sum_may_not_fit_and_those_of_nested_keys_stay_apart() -> None:
    large = pa.table({"key": ["a", "a"], "hits": pa.array([2**62, 2**62], pa.int64())})
    assert fold(large, ["key"], ["hits"]).num_rows == 2
    for floats in ([1e308, 1e308], [float("inf"), -1.0]):
        assert fold(pa.table({"key": ["a", "a"], "hits": floats}), ["key"], ["hits"]).num_rows == 2
    nested = pa.table({"key": [["a"], ["a"]], "hits": [1, 2]})
    assert fold(nested, ["key"], ["hits"]).num_rows == 2


def test_rows_with_a_null_in_their_key_stay_apart() -> None:
    rows = pa.table({"a": ["x", None, "x", None], "b": [1, 1, 1, None], "n": [1, 2, 4, 8]})
    folded = fold(rows, ["a", "b"], ["n"])
    assert folded.to_pylist() == [
        {"a": "x", "b": 1, "n": 5}, {"a": None, "b": 1, "n": 2}, {"a": None, "b": None, "n": 8},
    ]  # fmt: skip
    assert folded.schema == rows.schema


def test_keys_may_come_with_a_dictionary_for_each_batch() -> None:
    keys = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()])
    rows = pa.table({"key": keys, "n": [1, 2, 4, 8]})
    assert fold(rows, ["key"], ["n"]).sort_by("n").to_pylist() == [
        {"key": "b", "n": 2}, {"key": "c", "n": 4}, {"key": "a", "n": 9},
    ]  # fmt: skip


def test_a_task_without_rows_has_nothing_encoded() -> None:
    report = report_encoded((), encode)
    assert (report.rows, report.held_count, report.encoded) == (0, 0, None)


def test_a_key_may_be_named_as_a_sum_would_be_and_have_a_point_in_front() -> None:
    rows = pa.table({".k": ["a", "a"], "n_sum": ["b", "b"], "n": [1, 2]})
    assert fold(rows, [".k", "n_sum"], ["n"]).to_pylist() == [{".k": "a", "n_sum": "b", "n": 3}]
