"""Timestamps of first records, out of batches that kafka-python has built."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from directkafka.kafka.consumer import first_records
from directkafka.kafka.consumer.first_records import FetchedPartition, timestamp_in_response
from directkafka.offsets import OffsetRange
from directkafka.options.client import ClientOptions

OPTIONS = ClientOptions(bootstrap_servers=("one:9092",), isolation_level="read_committed")


def batch(base_offset: int, *timestamps_ms: int, transactional: bool = False, producer_id: int = -1) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=transactional, producer_id=producer_id,
        producer_epoch=0, base_sequence=0, batch_size=1 << 20,
    )  # fmt: skip
    for number, timestamp_ms in enumerate(timestamps_ms):
        builder.append(number, timestamp=timestamp_ms, key=None, value=b"v", headers=[])
    built = bytearray(builder.build())
    built[:8] = base_offset.to_bytes(8, "big")
    return bytes(built)


def first_timestamp_and_next_offset(
    records: bytes, from_offset: int, *, until_offset: int = 100, aborted: Any = ()
) -> tuple[int | None, int]:
    unread = OffsetRange("flights", 0, from_offset, until_offset)
    fetched = FetchedPartition(records=records, aborted_transactions=aborted)
    timestamp_ms, rest = timestamp_in_response(unread, fetched, OPTIONS)
    return timestamp_ms, rest.from_offset


@pytest.fixture
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the header says it")

    monkeypatch.setattr(first_records, "_decoded", fail)


@pytest.mark.usefixtures("no_decoding")
@pytest.mark.parametrize(("from_offset", "timestamp_ms"), [(0, 5000), (9, 5000), (10, 5000), (13, 7000)])
def test_a_batch_s_first_record_has_the_header_s_timestamp(from_offset: int, timestamp_ms: int) -> None:
    records = batch(10, 5000, 6000, 4000) + batch(13, 7000, 8000)
    assert first_timestamp_and_next_offset(records, from_offset)[0] == timestamp_ms


@pytest.mark.parametrize("timestamps_ms", [(5000, 6000, 4000), (6000, 5000, 6000), (5000, 5000, 5000)])
@pytest.mark.parametrize("position", [1, 2])
def test_in_the_middle_of_a_batch_its_records_are_read(position: int, timestamps_ms: tuple[int, ...]) -> None:
    assert first_timestamp_and_next_offset(batch(10, *timestamps_ms), 10 + position)[0] == timestamps_ms[position]


def test_a_batch_that_lies_across_the_range_s_end_ends_it() -> None:
    markers_s = bytearray(batch(10, 5000, 6000, 7000))
    markers_s[22] |= 1 << 5
    assert first_timestamp_and_next_offset(bytes(markers_s), 10, until_offset=12) == (None, 12)


def test_bytes_that_are_no_batch_are_no_records() -> None:
    no_length = bytearray(batch(10, 5000))
    no_length[8:12] = (-12).to_bytes(4, "big", signed=True)
    old_magic = bytearray(batch(10, 5000))
    old_magic[16] = 1
    assert (
        first_timestamp_and_next_offset(bytes(no_length), 10)
        == first_timestamp_and_next_offset(bytes(old_magic), 10)
        == (None, 10)
    )


def test_what_lies_behind_the_range_does_not_count() -> None:
    assert first_timestamp_and_next_offset(batch(10, 5000), 3, until_offset=10) == (None, 10)


def test_records_of_an_aborted_transaction_are_not_seen() -> None:
    records = batch(10, 5000, 6000, transactional=True, producer_id=7) + batch(13, 9000, 9500)
    assert first_timestamp_and_next_offset(records, 10, aborted=[(7, 10)])[0] == 9000
    assert first_timestamp_and_next_offset(records, 10, aborted=[(8, 10)])[0] == 5000


def test_a_batch_that_is_cut_off_in_its_records_is_asked_for_again() -> None:
    cut = batch(10, 5000, 6000)[:-3]
    assert first_timestamp_and_next_offset(cut, 11) == (None, 11)
    # Its header is there, which is enough at its beginning.
    assert first_timestamp_and_next_offset(cut, 10) == (5000, 10)


def test_an_answer_without_records_leaves_the_reader_where_it_is() -> None:
    assert first_timestamp_and_next_offset(b"", 4) == (None, 4)
