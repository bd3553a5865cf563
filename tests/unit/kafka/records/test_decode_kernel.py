"""Each check on a record's bytes, reached through the decoder with a checksum that is right."""

import pytest
from tests.record_encoder import (
    LOG_APPEND_TIME,
    Record,
    decode,
    decode_rows,
    encode_batch,
    encode_record,
    seal,
    varint,
)

from directkafka.errors import MalformedBatchError
from directkafka.errors.data_loss import KafkaMalformedRecordTimestampError

PLAIN = encode_record(Record(offset=0, timestamp_ms=0), 0, 0)


def body(fields: bytes) -> bytes:
    """A record of these fields after the attributes."""
    return varint(len(fields) + 1) + b"\x00" + fields


def reason(records: bytes, *, count: int = 1, last_offset_delta: int = 9, headers: bool = True) -> str:
    with pytest.raises(MalformedBatchError) as caught:
        decode_rows(seal(100, records, count=count, last_offset_delta=last_offset_delta), include_headers=headers)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.position) == ("flights", 3, 100, 0)
    return error.reason


@pytest.mark.parametrize(
    ("records", "count", "words"),
    [
        (PLAIN, -1, "counts -1 records"),
        (PLAIN, 2**31 - 1, "counts 2147483647 records, 12 bytes cannot hold them"),
        (PLAIN, 0, "12 bytes are left over after the last of 0 records"),
        (PLAIN + b"\x00", 1, "1 bytes are left over after the last of 1 records"),
        (varint(-1) + PLAIN, 1, "record's length is -1"),
        (varint(5) + PLAIN, 1, "record's length is 5"),
        (varint(13) + PLAIN[1:], 1, "record's length is 13, 11 bytes remain"),
        (varint(2**31 - 1) + PLAIN, 1, "record's length is 2147483647"),
        (b"\xff" * 20, 1, "variable-length integer does not end within the 20 bytes"),
        (b"\xff\xff\xff\xff\x1f" + bytes(20), 1, "longer than 32 bits"),
        (body(b"\xff" * 10 + PLAIN), 1, "longer than 64 bits"),
        (body(b"\xff" * 9 + b"\x02" + PLAIN), 1, "longer than 64 bits"),
        (body(b"\x00\x00" + varint(-2) + b"\x00\x00\x00"), 1, "key's length is -2"),
        (body(b"\x00\x00" + varint(9) + b"\x00\x00\x00"), 1, "key's length is 9, 3 bytes of the record remain"),
        (body(b"\x00\x00\x00" + varint(-2) + b"\x00\x00"), 1, "value's length is -2"),
        (body(b"\x00\x00\x00" + varint(3) + b"\x00\x00"), 1, "value's length is 3, 2 bytes of the record remain"),
        (body(b"\x00\x00\x00\x00" + varint(-1) + b"\x00"), 1, "counts -1 headers"),
        (body(b"\x00\x00\x00\x00" + varint(2) + b"\x00\x00\x00"), 1, "counts 2 headers, 3 bytes"),
        (body(b"\x00\x00\x00\x00" + varint(1) + varint(-1) + b"\x00"), 1, "header key's length is -1"),
        (body(b"\x00\x00\x00\x00" + varint(1) + varint(2) + b"\x00"), 1, "header key's length is 2"),
        (body(b"\x00\x00\x00\x00" + varint(1) + b"\x00" + varint(-2)), 1, "header value's length is -2"),
        (body(b"\x00\x00\x00\x00" + varint(1) + b"\x00" + varint(1)), 1, "header value's length is 1"),
        (body(b"\x00\x00\x00\x00\x00\x07\x07"), 1, "2 bytes of the record are left over"),
        (body(b"\x00" + varint(10) + bytes(3)), 1, "offset delta 10 does not lie above the previous one and at or"),
        (body(b"\x00" + varint(-1) + bytes(3)), 1, "offset delta -1"),
        (PLAIN * 2, 2, "record 1 (byte 12 of the records): the record's offset delta 0"),
    ],
)
def test_a_record_that_is_none_is_refused_with_its_numbers(records: bytes, count: int, words: str) -> None:
    assert words in reason(records, count=count)


def test_headers_that_are_not_wanted_are_stepped_over_but_must_lie_within_their_record() -> None:
    broken = body(b"\x00\x00\x00\x00" + varint(1) + varint(-1) + b"\x00")
    assert len(decode_rows(seal(0, broken, count=1), include_headers=False)) == 1
    assert "counts 2 headers" in reason(body(b"\x00\x00\x00\x00" + varint(2) + bytes(3)), headers=False)
    assert "are left over" in reason(body(b"\x00\x00\x00\x00\x00\x07"), headers=False)


def test_varints_that_are_longer_than_they_need_be_are_read_as_java_reads_them() -> None:
    overlong = b"\x80\x80\x80\x80\x00"
    record = body(b"\x80" * 9 + b"\x00" + overlong * 4)
    (row,) = decode_rows(seal(7, record, count=1))
    assert (row["offset"], row["key"], row["value"], row["headers"]) == (7, b"", b"", None)


@pytest.mark.parametrize("timestamp_ms", [2**63 - 1, -(2**63), 9223372036854776, -9223372036854776])
@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_a_timestamp_that_does_not_fit_into_microseconds_names_offset_and_value(
    timestamp_ms: int, attributes: int
) -> None:
    data = encode_batch([Record(offset=41, timestamp_ms=timestamp_ms)], attributes=attributes)
    with pytest.raises(KafkaMalformedRecordTimestampError, match="KAFKA_MALFORMED_RECORD_TIMESTAMP") as caught:
        decode_rows(data)
    assert f"offset 41 has a timestamp of {timestamp_ms} ms" in caught.value.reason


def test_a_timestamp_whose_sum_wraps_around_is_refused() -> None:
    record = varint(15) + b"\x00" + varint(2**62) + b"\x00" + bytes(3)
    data = seal(41, record, count=1, base_timestamp_ms=2**63 - 1)
    with pytest.raises(MalformedBatchError, match="offset 41 has a timestamp"):
        decode_rows(data)


@pytest.mark.parametrize("timestamp_ms", [0, -1, 9223372036854775, -9223372036854775, 1_700_000_000_123])
def test_timestamps_to_the_very_limits_become_microseconds(timestamp_ms: int) -> None:
    from tests.record_encoder import decoder

    data = encode_batch([Record(offset=0, timestamp_ms=timestamp_ms)])
    (batch,) = decode(decoder(), data)
    assert batch.column("timestamp").cast("int64").to_pylist() == [timestamp_ms * 1000]


def test_log_append_time_gives_every_record_the_batch_s_time() -> None:
    records = [Record(offset=at, timestamp_ms=at * 10) for at in range(3)]
    rows = decode_rows(encode_batch(records, attributes=LOG_APPEND_TIME, max_timestamp_ms=5_000))
    assert [(row["timestamp"].timestamp(), row["timestampType"]) for row in rows] == [(5.0, 1)] * 3
