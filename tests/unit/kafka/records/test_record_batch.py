import struct

import numpy as np
import pytest
from tests.record_encoder import LOG_APPEND_TIME, Record, encode_batch, index_of, seal

from directkafka.kafka.records.record import Corruption, describe
from directkafka.kafka.records.record_batch import Batch

TWO = encode_batch([Record(offset=5), Record(offset=6)]) + encode_batch([Record(offset=9)], producer_id=7)


def index(data: bytes) -> tuple[list[Batch], np.ndarray]:
    batch_index = index_of(data)
    return [Batch._make(row) for row in batch_index.batches.tolist()], batch_index.corruption


def test_every_field_of_a_batch_header_is_read() -> None:
    data = seal(
        2**60,
        b"",
        count=0,
        attributes=LOG_APPEND_TIME,
        last_offset_delta=41,
        base_timestamp_ms=-5,
        max_timestamp_ms=17,
        producer_id=2**50,
    )
    (batch,), corruption = index(data)
    assert not corruption.any()
    assert batch == Batch(
        start=0,
        end=61,
        base_offset=2**60,
        last_offset=2**60 + 41,
        crc=struct.unpack_from(">I", data, 17)[0],
        attributes=LOG_APPEND_TIME,
        base_timestamp=-5,
        max_timestamp=17,
        producer_id=2**50,
        record_count=0,
        leader_epoch=struct.unpack_from(">i", data, 12)[0],
    )


def test_more_batches_than_the_index_first_has_room_for_are_all_indexed() -> None:
    data = b"".join(encode_batch([Record(offset=offset)]) for offset in range(1000))
    batches, corruption = index(data)
    assert not corruption.any()
    assert [batch.base_offset for batch in batches] == list(range(1000))
    assert [batch.end for batch in batches[:-1]] == [batch.start for batch in batches[1:]]


@pytest.mark.parametrize("length", range(len(TWO)))
def test_a_batch_that_is_cut_off_anywhere_ends_the_run_without_a_corruption(length: int) -> None:
    batches, corruption = index(TWO[:length])
    first_end = struct.unpack_from(">i", TWO, 8)[0] + 12
    assert len(batches) == int(length >= first_end)
    assert not corruption.any()
    assert index_of(TWO[:length]).next_offset == (7 if length >= first_end else 0)


def test_the_next_offset_is_one_past_the_last_complete_batch() -> None:
    assert index_of(TWO).next_offset == 10
    assert index_of(bytearray(TWO)).next_offset == 10
    assert index_of(b"").next_offset == 0
    assert not index_of(TWO[:-1]).corruption.any()


def of_epochs(*epochs: int) -> bytes:
    """Batches of one record each, at the offsets 0, 10, 20, ..."""
    batches = [encode_batch([Record(offset=10 * number)]) for number in range(len(epochs))]
    return b"".join(
        batch[:12] + epoch.to_bytes(4, "big", signed=True) + batch[16:]
        for batch, epoch in zip(batches, epochs, strict=True)
    )


def test_the_first_batch_of_a_later_leader_epoch_is_found() -> None:
    data = of_epochs(3, 4, 5, 6, 7)
    size = len(data) // 5
    before, start = index_of(data).before_epoch(5, until_offset=2**62)
    assert (len(before.batches), before.next_offset, start) == (3, 21, 3 * size)
    assert index_of(data).before_epoch(2, until_offset=2**62)[1] == 0
    for bytes_of, epoch, until in (
        (data, 7, 2**62), (data, -1, 2**62), (data, 5, 30), (data[:-1], 6, 2**62), (of_epochs(-1, -1), 0, 2**62),
        (b"", 0, 2**62),
    ):  # fmt: skip
        batch_index = index_of(bytes_of)
        whole, start = batch_index.before_epoch(epoch, until)
        assert whole is batch_index
        assert start is None


def patched(position: int, layout: str, value: int) -> bytes:
    data = bytearray(TWO)
    struct.pack_into(layout, data, position, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "corruption", "words"),
    [
        (patched(16, ">b", 1), Corruption.MAGIC, "magic byte is 1, only record format 2"),
        (patched(16, ">b", 0), Corruption.MAGIC, "before Kafka 0.11"),
        (patched(16, ">B", 200), Corruption.MAGIC, "magic byte is 200"),
        (patched(8, ">i", 48), Corruption.BATCH_LENGTH, "length is 48"),
        (patched(8, ">i", -1), Corruption.BATCH_LENGTH, "length is -1"),
        (patched(0, ">q", -1), Corruption.OFFSETS, "base offset -1"),
        (patched(23, ">i", -2), Corruption.OFFSETS, "last offset delta -2"),
        (patched(0, ">q", 2**63 - 1), Corruption.OFFSETS, str(2**63 - 1)),
    ],
)
def test_a_header_that_is_none_is_refused_with_its_numbers(data: bytes, corruption: Corruption, words: str) -> None:
    batches, corruption_fields = index(data)
    assert batches == []
    assert corruption_fields[0] == corruption
    assert words in describe(corruption_fields)
    assert index_of(data).next_offset == 0


def test_offsets_that_do_not_rise_from_batch_to_batch_are_refused() -> None:
    data = encode_batch([Record(offset=5)]) * 2
    batches, corruption = index(data)
    assert len(batches) == 1
    assert describe(corruption) == "base offset 5 is not above the last offset 5 of the batch before it"
    assert index_of(data).next_offset == 6
