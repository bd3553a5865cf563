from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from kafka.record import MemoryRecords
from tests.record_encoder import CODECS, Record, decode_rows, encode_record

from directkafka.errors import OptionError
from directkafka.errors.kafka import RecordRejectedError, RecordTooLargeError
from directkafka.kafka.records.encoder import EncodedBatch, ProducerIdentity, RecordEncoder
from directkafka.kafka.records.record_batch import HEADER_SIZE
from directkafka.offsets import TopicPartition
from directkafka.options.producer import ProducerOptions

IDENTITY = ProducerIdentity(producer_id=4711, epoch=7)
PARTITIONS = [TopicPartition("flights", number) for number in range(3)]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME_MS = 1_700_000_000_000


class Header(NamedTuple):
    """A batch header as the format has it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    epoch: int
    base_sequence: int
    records: int


def header_of(batch: EncodedBatch) -> Header:
    return Header(*struct.unpack_from(">qiibIhiqqqhii", batch.data))


def encoder(identity: ProducerIdentity = IDENTITY, **options: Any) -> RecordEncoder:
    return RecordEncoder(ProducerOptions(**options), identity)


def values(*each: bytes | None, **columns: Any) -> pa.RecordBatch:
    count = len(each)
    times = {"timestamp": pa.array([TIME_MS] * count, pa.int64())}
    return pa.record_batch({"value": pa.array(each, pa.binary())} | times | columns)


def to_first(rows: pa.RecordBatch, **options: Any) -> list[EncodedBatch]:
    return encoder(**options).encode(rows, PARTITIONS, np.zeros(rows.num_rows, np.int32))


def read(batches: list[EncodedBatch]) -> list[dict[str, Any]]:
    """All rows, batch after batch, as our decoder reads them."""
    return [row for batch in batches for row in decode_rows(bytes(batch.data))]


def times_ms(batches: list[EncodedBatch]) -> list[int]:
    return [round(row["timestamp"].timestamp() * 1000) for row in read(batches)]


def test_rows_go_to_their_targets_in_the_order_they_came() -> None:
    rows = values(*(b"%d" % number for number in range(10)))
    target_of = np.array([2, 0, 2, 0, 0, 2, 2, 0, 2, 0], np.int32)
    batches = encoder().encode(rows, PARTITIONS, target_of)
    assert {batch.target: [row["value"] for row in read([batch])] for batch in batches} == {
        PARTITIONS[0]: [b"1", b"3", b"4", b"7", b"9"],
        PARTITIONS[2]: [b"0", b"2", b"5", b"6", b"8"],
    }


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_by_our_decoder(codec: str) -> None:
    each = [b"value %d" % (number % 7) for number in range(5000)]
    batches = to_first(values(*each), compression=codec, batch_size_bytes=30_000)
    assert len(batches) > 1
    assert [row["value"] for row in read(batches)] == each
    assert {header_of(batch).attributes for batch in batches} == {CODECS[codec]}


# It needs further packages for the other codecs; tests/real reads those with confluent-kafka.
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_batches_are_read_by_kafka_python(codec: str) -> None:
    each = [b"value %d" % (number % 7) for number in range(5000)]
    batches = to_first(values(*each), compression=codec, batch_size_bytes=30_000)
    assert [bytes(record.value) for batch in batches for record in next_batch(batch)] == each


def next_batch(batch: EncodedBatch) -> Any:
    parsed = MemoryRecords(bytes(batch.data)).next_batch()
    assert parsed.validate_crc()
    return parsed


@pytest.mark.parametrize(
    "levels",
    [
        {"compression": "gzip", "gzip_level": 9},
        {"compression": "lz4", "lz4_level": 1},
        {"compression": "lz4", "lz4_level": 17},
        {"compression": "zstd", "zstd_level": 19},
        {"compression": "zstd", "zstd_level": -5},
    ],
)
def test_a_level_makes_other_bytes_of_the_same_records(levels: dict[str, Any]) -> None:
    words = b"the quick brown fox jumps over a lazy dog".split()
    each = [words[number * number % 9] * (number % 5) + b"%d" % (number * 7919 % 1000) for number in range(3000)]
    plain = to_first(values(*each), compression=levels["compression"])
    chosen = to_first(values(*each), **levels)
    assert [row["value"] for row in read(chosen)] == each
    assert len(chosen[0].data) != len(plain[0].data)


def test_records_have_the_bytes_that_the_format_description_says() -> None:
    records = [
        Record(offset=0, key=b"k", value=None, headers=((b"trace", b"1"), (b"none", None)), timestamp_ms=TIME_MS),
        Record(offset=1, key=None, value=b"v" * 200, timestamp_ms=TIME_MS - 70),
        Record(offset=2, key=b"", value=b"", headers=((b"", b""),), timestamp_ms=TIME_MS + 1_000_000),
    ]
    rows = values(
        *(record.value for record in records),
        key=pa.array([record.key for record in records], pa.binary()),
        headers=pa.array(
            [[{"key": key.decode(), "value": value} for key, value in record.headers] for record in records], HEADERS
        ),
        timestamp=pa.array([record.timestamp_ms for record in records], pa.int64()),
    )
    (batch,) = to_first(rows)
    assert bytes(batch.data[HEADER_SIZE:]) == b"".join(encode_record(record, 0, TIME_MS) for record in records)


def test_a_header_says_who_wrote_what_and_when() -> None:
    rows = values(b"a", b"b", b"c", timestamp=pa.array([TIME_MS, TIME_MS + 9, TIME_MS + 5], pa.int64()))
    (batch,) = to_first(rows)
    header = header_of(batch)
    assert header._replace(crc=0) == Header(
        base_offset=0,
        length=len(batch.data) - 12,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=2,
        base_timestamp=TIME_MS,
        max_timestamp=TIME_MS + 9,
        producer_id=4711,
        epoch=7,
        base_sequence=0,
        records=3,
    )
    assert batch.records == 3


def test_records_of_a_transaction_are_marked() -> None:
    identity = ProducerIdentity(producer_id=1, epoch=0, transactional_id="flights-to-delays")
    (batch,) = encoder(identity, compression="zstd").encode(values(b"a"), PARTITIONS, np.zeros(1, np.int32))
    assert header_of(batch).attributes == 16 | CODECS["zstd"]


def test_sequence_numbers_go_on_from_batch_to_batch_and_from_call_to_call_in_each_partition() -> None:
    record_encoder = encoder(batch_size_bytes=100)
    target_of = np.array([0, 1, 0, 0, 1], np.int32)
    rows = values(*(bytes(20) for _ in range(5)))
    batches = record_encoder.encode(rows, PARTITIONS, target_of) + record_encoder.encode(
        rows, PARTITIONS[::-1], target_of
    )
    for target in PARTITIONS:
        mine = [batch for batch in batches if batch.target == target]
        counted = np.cumsum([0, *(batch.records for batch in mine)])[: len(mine)]
        assert [batch.base_sequence for batch in mine] == counted.tolist()
        assert [header_of(batch).base_sequence for batch in mine] == counted.tolist()
    assert {batch.target: batch.base_sequence for batch in batches} == {
        PARTITIONS[0]: 2,
        PARTITIONS[1]: 3,
        PARTITIONS[2]: 2,
    }


def test_sequence_numbers_begin_again_after_the_largest_that_java_has() -> None:
    record_encoder = encoder()
    record_encoder._sequences[PARTITIONS[0]] = 2**31 - 2
    batches = [record_encoder.encode(values(b"a", b"b", b"c"), PARTITIONS, np.zeros(3, np.int32))[0] for _ in range(2)]
    assert [header_of(batch).base_sequence for batch in batches] == [2**31 - 2, 1]


def test_a_batch_is_as_large_as_it_may_be_and_no_larger() -> None:
    each = [bytes(20) for _ in range(100)]
    record = len(to_first(values(each[0]))[0].data) - HEADER_SIZE
    batches = to_first(values(*each), batch_size_bytes=HEADER_SIZE + 7 * record)
    assert [batch.records for batch in batches] == [7] * 14 + [2]
    smaller = to_first(values(*each), batch_size_bytes=HEADER_SIZE + 7 * record - 1)
    assert {batch.records for batch in smaller[:-1]} == {6}


def test_a_record_that_is_larger_than_a_batch_goes_alone() -> None:
    batches = to_first(values(b"a", b"b" * 500, b"c", b"d"), batch_size_bytes=200)
    assert [batch.records for batch in batches] == [1, 1, 2]


def test_a_record_that_is_larger_than_a_request_is_named() -> None:
    record_encoder = encoder(request_bytes_max=1000)
    rows, target_of = values(b"a", b"b" * 1001, b"c"), np.array([0, 2, 0], np.int32)
    with pytest.raises(RecordTooLargeError, match=r"row 1 of 3 .*flights, partition 2 .*1000 of kafka") as caught:
        record_encoder.encode(rows, PARTITIONS, target_of)
    assert (caught.value.row, caught.value.partition, caught.value.size_bytes_max) == (1, 2, 1000)
    assert caught.value.size_bytes > 1061
    assert record_encoder.encode(values(b"a"), PARTITIONS, np.zeros(1, np.int32))[0].base_sequence == 0


def test_a_record_that_is_just_as_large_as_a_request_is_written() -> None:
    size = len(to_first(values(b"b" * 900))[0].data)
    assert to_first(values(b"b" * 900), request_bytes_max=size)
    with pytest.raises(RecordTooLargeError):
        to_first(values(b"b" * 900), request_bytes_max=size - 1)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_keys_and_values_may_be_text_or_bytes(kind: pa.DataType) -> None:
    rows = pa.record_batch({"key": pa.array(["ü", None, ""], kind), "value": pa.array([None, "v", "w"], kind)})
    assert [(row["key"], row["value"]) for row in read(to_first(rows))] == [
        ("ü".encode(), None),
        (None, b"v"),
        (b"", b"w"),
    ]


def test_a_column_of_nulls_alone_has_no_type() -> None:
    rows = pa.record_batch({"key": pa.nulls(2), "value": pa.nulls(2), "headers": pa.nulls(2), "timestamp": pa.nulls(2)})
    assert [(row["key"], row["value"], row["headers"]) for row in read(to_first(rows))] == [(None, None, None)] * 2


def test_columns_may_be_slices() -> None:
    texts = pa.array([None if number % 3 == 0 else f"{number}" for number in range(40)])
    lists = pa.array(
        [None if number % 4 == 0 else [{"key": f"h{number}", "value": b"%d" % number}] * (number % 3)
         for number in range(40)], HEADERS,
    )  # fmt: skip
    times = pa.array([None if number % 5 == 0 else TIME_MS + number for number in range(40)], pa.int64())
    whole = pa.record_batch({"key": texts, "value": texts, "headers": lists, "timestamp": times})
    part = whole.slice(11, 17)
    copied = pa.RecordBatch.from_pylist(part.to_pylist(), part.schema)
    sliced_rows, expected = (
        [{name: row[name] for name in ("key", "value", "headers")} for row in read(to_first(rows))]
        for rows in (part, copied)
    )
    assert sliced_rows == expected
    assert sliced_rows[1] == {"key": None, "value": None, "headers": None}
    assert sliced_rows[2]["headers"] == [{"key": "h13", "value": b"13"}]


def test_headers_may_repeat_keys_and_have_no_value() -> None:
    lists = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], [], None, [{"key": "", "value": b""}]]
    headers = [row["headers"] for row in read(to_first(values(*[b""] * 4, headers=pa.array(lists, HEADERS))))]
    assert headers == [lists[0], None, None, lists[3]]


def test_headers_may_be_of_large_types() -> None:
    kind = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    lists = [[{"key": "a", "value": b"1"}], None]
    headers = [row["headers"] for row in read(to_first(values(b"", b"", headers=pa.array(lists, kind))))]
    assert headers == lists


@pytest.mark.parametrize("header", [{"key": None, "value": b"1"}, None])
def test_a_header_without_key_is_refused_by_row(header: dict[str, Any] | None) -> None:
    lists = [[{"key": "a", "value": b"1"}], None, [{"key": "b", "value": b"2"}, header]]
    with pytest.raises(RecordRejectedError, match=r"row 2 of 3 for topic flights, partition 0.*no key"):
        to_first(values(b"", b"", b"", headers=pa.array(lists, HEADERS)))


def test_headers_of_rows_that_were_sliced_away_are_not_looked_at() -> None:
    lists = [[{"key": None, "value": b"1"}], [{"key": "a", "value": b"1"}]]
    rows = values(b"", b"", headers=pa.array(lists, HEADERS)).slice(1, 1)
    assert [row["headers"] for row in read(to_first(rows))] == [lists[1]]


@pytest.mark.parametrize(("unit", "per_ms"), [("ms", 1), ("us", 1000), ("ns", 1_000_000)])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_may_have_any_unit_and_are_instants(unit: str, per_ms: int, zone: str | None) -> None:
    raw = [TIME_MS * per_ms, (TIME_MS + 2) * per_ms - 1]
    batches = to_first(values(b"", b"", timestamp=pa.array(raw, pa.int64()).cast(pa.timestamp(unit, zone))))
    assert times_ms(batches) == [TIME_MS, TIME_MS + (2 if per_ms == 1 else 1) - (per_ms == 1)]


def test_a_timestamp_that_is_missing_is_now() -> None:
    absent = pa.record_batch({"value": pa.array([b"a"])})
    null = values(b"a", timestamp=pa.array([None], pa.timestamp("us", "UTC")))
    for rows in (absent, null):
        (timestamp_ms,) = times_ms(to_first(rows))
        assert timestamp_ms == pytest.approx(
            pa.scalar(np.datetime64("now", "ms")).as_py().timestamp() * 1000, abs=60_000
        )


def test_a_timestamp_before_1970_is_refused_by_row() -> None:
    with pytest.raises(RecordRejectedError, match=r"row 1 of 2.* -5 ms"):
        to_first(values(b"", b"", timestamp=pa.array([TIME_MS, -5], pa.int64())))


@pytest.mark.parametrize(
    ("column", "content"),
    [
        ("value", pa.array([1])),
        ("key", pa.array([1])),
        ("timestamp", pa.array(["now"])),
        ("headers", pa.array(["a"])),
        ("headers", pa.array([[{"name": "a", "value": b""}]])),
        ("headers.key", None),
    ],
)
def test_a_column_of_another_type_is_named(column: str, content: pa.Array | None) -> None:
    name = column.partition(".")[0]
    wrong = pa.array([[{"key": 1, "value": b""}]]) if content is None else content
    with pytest.raises(OptionError) as caught:
        to_first(pa.record_batch({"value": pa.array([b""])} | {name: wrong}))
    assert caught.value.option == column
    assert str(wrong.type) in caught.value.reason or content is None


def test_rows_without_a_value_column_are_refused() -> None:
    with pytest.raises(OptionError, match="value"):
        to_first(pa.record_batch({"key": pa.array([b"a"])}))


def test_no_rows_are_no_batches() -> None:
    assert to_first(values()) == []


def test_batches_do_not_look_into_the_rows_any_more() -> None:
    data = bytearray(b"abcabc")
    array = pa.Array.from_buffers(
        pa.binary(), 2, [None, pa.py_buffer(np.array([0, 3, 6], np.int32)), pa.py_buffer(data)]
    )
    batches = to_first(pa.record_batch({"value": array}))
    data[:] = b"xxxxxx"
    assert [row["value"] for row in read(batches)] == [b"abc", b"abc"]
    assert all(batch.data.readonly for batch in batches)
