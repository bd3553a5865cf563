"""Rows in chunks: all of them, in order, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from directkafka import row_chunks
from directkafka.row_chunks import (
    CHUNK,
    chunks_by_share,
    chunks_of,
    compressed,
    decompressed,
    packed,
    rows_of_chunks,
    unpacked,
)


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    values = range(first, first + count)
    return pa.record_batch({"number": pa.array(values, pa.int64()), "text": [f"number {value}" for value in values]})


def read(chunks: Sequence[bytes]) -> list[int]:
    """The numbers in chunks, as a task that is given a frame of them finds them."""
    frame = pa.record_batch({CHUNK: pa.array(chunks, pa.binary())})
    return [number for batch in rows_of_chunks([frame]) for number in batch.column("number").to_pylist()]


@given(shares=st.lists(st.integers(0, 3), max_size=50), skipped=st.integers(0, 3))
def test_every_row_is_in_its_share_and_in_order(shares: list[int], skipped: int) -> None:
    batch = numbers(len(shares) + skipped).slice(skipped)
    rows_by_share: dict[int, list[int]] = {}
    for share, chunk in chunks_by_share(batch, np.array(shares, np.int32), 4):
        rows_by_share.setdefault(share, []).extend(read([chunk]))
    expected: dict[int, list[int]] = {}
    for row, share in enumerate(shares):
        expected.setdefault(share, []).append(skipped + row)
    assert rows_by_share == expected


@pytest.mark.parametrize("row_bytes", [1, 1_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_no_chunk_is_much_larger_than_it_may_be_unless_a_row_is(
    row_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_chunks, "_CHUNK_BYTES", 10_000)
    batch = pa.record_batch({"number": range(100), "value": pa.array([bytes(row_bytes)] * 100, pa.large_binary())})
    chunks = list(chunks_of(batch))
    assert read(chunks) == list(range(100))
    assert max(sum(rows.num_rows for rows in unpacked(chunk)) for chunk in chunks) <= max(1, 10_000 // row_bytes)


def test_of_a_slice_only_its_own_rows_are_in_the_chunk() -> None:
    assert len(packed([numbers(1_000_000).slice(500_000, 10)])) < 5_000


def test_a_batch_without_rows_has_no_chunk() -> None:
    assert list(chunks_of(numbers(0))) == []
    assert list(chunks_by_share(numbers(0), np.array([], np.int32), 2)) == []


@given(encoded=st.binary(max_size=200))
def test_bytes_of_a_store_come_back_as_they_were(encoded: bytes) -> None:
    assert decompressed(compressed(encoded)) == encoded
