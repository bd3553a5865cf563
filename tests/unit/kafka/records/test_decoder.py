import hashlib
import json
import random
import struct
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.record_encoder import (
    ABORT,
    CODECS,
    COMMIT,
    TRANSACTIONAL,
    Record,
    compress,
    decode,
    decode_rows,
    decoder,
    encode_batch,
    expected_row,
    index_of,
    marker,
    seal,
    with_crc,
)

from directkafka.errors import MalformedBatchError
from directkafka.errors.streams import DecompressionLimitError
from directkafka.kafka.records.arrow import schema

VECTORS = Path(__file__).parents[3] / "vectors"
NAMES = sorted(path.stem for path in VECTORS.glob("*.records"))


def numbered(first: int, until: int, step: int = 1, size: int = 20) -> list[Record]:
    return [
        Record(offset=at, key=b"%d" % at, value=b"v" * size, headers=((b"h", b"%d" % at),) * (at % 3))
        for at in range(first, until, step)
    ]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]


def test_there_are_vectors_of_every_codec() -> None:
    assert {f"librdkafka-{codec}" for codec in CODECS} <= set(NAMES)
    assert {"java-snappy", "java-lz4", "java-gzip", "java-zstd", "log-append-time", "compacted"} <= set(NAMES)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("name", NAMES)
def test_bytes_of_a_real_broker_give_what_another_client_read(name: str, isolation: str) -> None:
    records = (VECTORS / f"{name}.records").read_bytes()
    document = json.loads((VECTORS / f"{name}.json").read_text())
    until = index_of(records).next_offset
    assert until is not None
    using = decoder(read_committed=isolation == "read_committed")
    aborted = [(producer_id, first) for producer_id, first in document["aborted"]]
    rows = decode_rows(records, aborted, using)
    oracle = document.get(isolation, document["read_uncommitted"])
    assert [as_oracle(row) for row in rows] == [record for record in oracle if record["offset"] < until]
    assert rows
    assert using.position == until


def as_oracle(row: dict[str, Any]) -> dict[str, Any]:
    headers = row["headers"]
    return {
        "offset": row["offset"],
        "timestamp_ms": round(row["timestamp"].timestamp() * 1000),
        "timestamp_type": row["timestampType"],
        "key": as_hex(row["key"]),
        "value": as_hex(row["value"]),
        "headers": headers and [[header["key"], as_hex(header["value"])] for header in headers],
    }


def as_hex(data: bytes | None) -> str | None:
    if data is None:
        return None
    return data.hex() if len(data) <= 1024 else "sha256:" + hashlib.sha256(data).hexdigest()


def test_aborted_records_are_in_the_vector_and_left_out_only_under_read_committed() -> None:
    document = json.loads((VECTORS / "transactions.json").read_text())
    values = {bytes.fromhex(record["value"]) for record in document["read_committed"]}
    assert b"both 0.0" in values
    assert not any(value.startswith((b"aborts", b"both 1")) for value in values)
    assert len(document["read_uncommitted"]) > len(values)


@pytest.mark.parametrize("include_headers", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_out_with_the_sources_schema(codec: str, include_headers: bool) -> None:
    records = [
        Record(offset=10, key=None, value=None),
        Record(offset=11, key=b"", value=b"", headers=((b"", None), (b"\xc3\xa9", b""))),
        *numbered(12, 40),
    ]
    data = encode_batch(records, codec=codec)
    (batch,) = decode(decoder(include_headers=include_headers), data)
    assert batch.schema.equals(schema(include_headers=include_headers), check_metadata=True)
    batch.validate(full=True)
    rows = batch.drop_columns(["timestamp"]).to_pylist()
    assert rows == [expected_row(record, with_headers=include_headers) for record in records]


def test_columns_without_nulls_carry_no_bitmap() -> None:
    (batch,) = decode(decoder(), encode_batch(numbered(1, 3)))
    assert batch.column("key").buffers()[0] is None
    assert batch.column("value").null_count == 0


def test_header_keys_that_are_not_utf8_are_replaced_as_java_does() -> None:
    record = Record(offset=0, headers=((b"a\xff\xfeb", b"1"), (b"fine", None)))
    (row,) = decode_rows(encode_batch([record]))
    assert [header["key"] for header in row["headers"]] == ["a\ufffd\ufffdb", "fine"]


def test_records_outside_the_wanted_offsets_are_dropped_from_batches_that_reach_over() -> None:
    data = encode_batch(numbered(0, 10), codec="lz4") + encode_batch(numbered(10, 20)) + encode_batch(numbered(20, 30))
    using = decoder(4, 17)
    assert offsets(decode_rows(data, using=using)) == list(range(4, 17))
    assert using.position == 17


def test_a_batch_beyond_the_end_proves_that_the_gap_before_it_is_empty() -> None:
    using = decoder(0, 15)
    assert offsets(decode_rows(encode_batch(numbered(0, 3)) + encode_batch(numbered(50, 52)), using=using)) == [0, 1, 2]
    assert using.position == 15


def test_gaps_within_and_between_batches_are_normal() -> None:
    first = encode_batch(numbered(0, 20, 5), last_offset=30)
    using = decoder()
    assert offsets(decode_rows(first + encode_batch(numbered(40, 44, 2)), using=using)) == [0, 5, 10, 15, 40, 42]
    assert using.position == 43


def test_a_batch_emptied_by_compaction_moves_the_position() -> None:
    using = decoder()
    assert decode_rows(encode_batch([], base_offset=7, last_offset=9), using=using) == []
    assert using.position == 10


def test_a_batch_that_is_cut_off_is_left_for_the_next_response() -> None:
    data = encode_batch(numbered(0, 3)) + encode_batch(numbered(3, 6))
    using = decoder()
    assert offsets(decode_rows(data[:-1], using=using)) == [0, 1, 2]
    assert using.position == 3
    assert offsets(decode_rows(data, using=using)) == [3, 4, 5], "what was emitted is not emitted again"
    assert using.position == 6


def test_nothing_is_read_once_the_end_is_reached() -> None:
    using = decoder(0, 3)
    assert len(decode_rows(encode_batch(numbered(0, 3)), using=using)) == 3
    assert decode_rows(b"\xff" * 100, using=using) == []
    assert using.position == 3


@pytest.mark.parametrize("codec", CODECS)
def test_limits_hold_for_every_emitted_batch(codec: str) -> None:
    data = b"".join(encode_batch(numbered(first, first + 30), codec=codec) for first in range(0, 300, 30))
    using = decoder(batch_rows_max=70, batch_bytes_max=1500)
    batches = list(decode(using, bytearray(data)))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(300))
    assert all(batch.num_rows <= 70 for batch in batches)
    assert all(size_of(batch) <= 1500 for batch in batches)


def size_of(batch: Any) -> int:
    columns = (batch.column("key"), batch.column("value"))
    return sum(len(value or b"") for column in columns for value in column.to_pylist())


def test_a_record_larger_than_the_limit_goes_through_alone() -> None:
    records = [Record(offset=0), Record(offset=1, value=b"x" * 5000), Record(offset=2)]
    batches = list(decode(decoder(batch_bytes_max=1000), encode_batch(records, codec="zstd")))
    assert [batch.column("offset").to_pylist() for batch in batches] == [[0], [1], [2]]


@pytest.mark.parametrize("codec", CODECS)
def test_a_response_of_several_megabytes_comes_out_whole(codec: str) -> None:
    chance = random.Random(2)
    records = [Record(offset=at, value=chance.randbytes(150) + b"0" * 250) for at in range(8000)]
    data = b"".join(encode_batch(records[at : at + 300], codec=codec) for at in range(0, 8000, 300))
    batches = list(decode(decoder(batch_bytes_max=10**6), data))
    assert [value for batch in batches for value in batch["value"].to_pylist()] == [record.value for record in records]
    assert all(700_000 < size_of(batch) <= 1_000_000 for batch in batches[:-1])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_more_headers_than_rows_usually_have_make_smaller_batches_and_lose_nothing(codec: str) -> None:
    records = [
        Record(offset=at, value=b"", headers=tuple((b"name%d" % number, b"%d" % at) for number in range(at % 90)))
        for at in range(400)
    ]
    data = b"".join(encode_batch(records[at : at + 50], codec=codec) for at in range(0, 400, 50))
    rows = decode_rows(data, batch_rows_max=100, batch_bytes_max=20_000)
    assert [len(row["headers"] or ()) for row in rows] == [at % 90 for at in range(400)]
    assert rows[89]["headers"][-1] == {"key": "name88", "value": b"89"}


def test_what_is_not_filled_is_given_back() -> None:
    data = b"".join(encode_batch([Record(offset=at, value=bytes(1000))], codec="zstd") for at in range(100))
    (batch,) = decode(decoder(10, 20), data)
    assert batch.num_rows == 10
    assert sum(buffer.size for column in batch for buffer in column.buffers() if buffer) < 4_000_000
    assert batch["value"].buffers()[2].size == 10_000


@pytest.mark.parametrize("first", range(len(CODECS)), ids=[*CODECS])
def test_codecs_may_change_from_batch_to_batch(first: int) -> None:
    kinds = [*CODECS][first:] + [*CODECS][:first]
    data = b"".join(
        encode_batch(numbered(at * 10, at * 10 + 10, size=100), codec=codec) for at, codec in enumerate(kinds * 4)
    )
    for bytes_max in (500, 2_000, 5_000, 10**6):
        rows = decode_rows(data, batch_bytes_max=bytes_max)
        assert [row["value"] for row in rows] == [b"v" * 100] * 200
        assert offsets(rows) == list(range(200))


def test_the_position_follows_what_was_handed_out() -> None:
    data = b"".join(encode_batch(numbered(first, first + 10)) for first in range(0, 30, 10))
    using = decoder(batch_rows_max=4)
    positions = [(batch.column("offset")[-1].as_py(), using.position) for batch in decode(using, data)]
    assert positions == [(at, {9: 10, 19: 20, 29: 30}.get(at, at // 10 * 10)) for at, _ in positions]
    assert using.position == 30


def test_control_batches_are_never_rows() -> None:
    data = encode_batch([Record(offset=0)]) + marker(1, 7, COMMIT) + marker(2, 7, ABORT)
    for read_committed in (True, False):
        using = decoder(read_committed=read_committed)
        assert offsets(decode_rows(data, using=using)) == [0]
        assert using.position == 3


def transactional(first: int, producer_id: int) -> bytes:
    return encode_batch(numbered(first, first + 2), attributes=TRANSACTIONAL, producer_id=producer_id)


def test_batches_of_an_aborted_transaction_are_dropped_up_to_its_marker() -> None:
    data = (
        transactional(0, 7)
        + transactional(2, 8)
        + encode_batch(numbered(4, 6), producer_id=7)
        + marker(6, 7, ABORT)
        + transactional(7, 7)
        + marker(9, 8, COMMIT)
        + marker(10, 7, COMMIT)
        + transactional(11, 7)
        + marker(13, 7, ABORT)
    )
    aborted = [(7, 11), (7, 0)]
    assert offsets(decode_rows(data, aborted)) == [2, 3, 4, 5, 7, 8]
    assert offsets(decode_rows(data, aborted, read_committed=False)) == [0, 1, 2, 3, 4, 5, 7, 8, 11, 12]


def test_a_transaction_that_began_before_the_response_is_dropped_too() -> None:
    using = decoder(50)
    assert decode_rows(transactional(50, 7) + marker(52, 7, ABORT), [(7, 3)], using) == []
    assert using.position == 53


def test_a_commit_marker_does_not_end_an_aborted_transaction_of_the_list() -> None:
    data = transactional(3, 7) + transactional(5, 7) + marker(7, 7, COMMIT) + transactional(8, 7) + marker(10, 7, ABORT)
    assert offsets(decode_rows(data + transactional(11, 7), [(7, 5)])) == [3, 4, 11, 12]


def test_the_transactions_of_many_producers_are_kept_apart() -> None:
    producers = [5, -3, 2**62, 0, 9, 7]
    data, expected = [], []
    for at, producer_id in enumerate(producers * 3):
        data.append(transactional(at * 2, producer_id))
        expected += [at * 2, at * 2 + 1] * (producer_id in {0, -3})
    aborted = [(producer_id, 0) for producer_id in producers if producer_id > 0]
    assert offsets(decode_rows(b"".join(data), aborted)) == expected


def test_thousands_of_transactions_of_one_record_each_are_told_apart() -> None:
    data, aborted, expected = [], [], []
    for number in range(6000):
        offset, is_aborted = number * 2, number % 10 == 3
        data.append(encode_batch([Record(offset=offset)], attributes=TRANSACTIONAL, producer_id=number % 7))
        data.append(marker(offset + 1, number % 7, ABORT if is_aborted else COMMIT))
        aborted += [(number % 7, offset)] * is_aborted
        expected += [offset] * (not is_aborted)
    using = decoder(include_headers=False)
    assert offsets(decode_rows(b"".join(data), aborted, using)) == expected
    assert using.position == 12_000


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_marker_without_version_and_type_is_malformed(key: bytes | None) -> None:
    data = encode_batch([Record(offset=0, key=key)], attributes=TRANSACTIONAL | 32, producer_id=7)
    with pytest.raises(MalformedBatchError, match="no key of version and type"):
        decode_rows(data)
    assert decode_rows(data, read_committed=False) == []


def test_a_wrong_checksum_is_refused_with_both_and_passes_when_nobody_asks() -> None:
    data = bytearray(encode_batch(numbered(0, 3)) + encode_batch(numbered(3, 6)))
    start = struct.unpack_from(">i", data, 8)[0] + 12
    data[start + 17] ^= 1
    using = decoder()
    with pytest.raises(MalformedBatchError, match=r"CRC32C is 0x\w{8}, the header says 0x\w{8}") as caught:
        decode_rows(bytes(data), using=using)
    assert (caught.value.offset, caught.value.position, using.position) == (3, start, 3)
    assert len(decode_rows(bytes(data), check_crcs=False)) == 6


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(MalformedBatchError, match=f"codec {codec} is none of"):
        decode_rows(seal(0, b"", count=0, attributes=codec))


@pytest.mark.parametrize("magic", [0, 1])
def test_formats_before_kafka_0_11_are_refused_by_name(magic: int) -> None:
    message = struct.pack(">qiibbq", 12, 34, 0, magic, 0, 0) + bytes(20)
    with pytest.raises(MalformedBatchError, match=r"before Kafka 0\.11"):
        decode_rows(message)


def test_what_comes_before_a_faulty_header_is_read_first() -> None:
    using = decoder()
    stream = decode(using, encode_batch(numbered(0, 3)) + b"\x07" * 40)
    assert next(stream).num_rows == 3
    with pytest.raises(MalformedBatchError, match="magic byte is 7"):
        next(stream)
    assert using.position == 3


MALFORMED = {
    "a wrong checksum": lambda batch: batch[:17] + bytes(4) + batch[21:],
    "a record that is none": lambda batch: with_crc(batch[:61] + b"\x03" + batch[62:]),
    "a count that does not match": lambda batch: with_crc(batch[:57] + struct.pack(">i", 4) + batch[61:]),
    "bytes its codec cannot read": lambda batch: with_crc(batch[:22] + b"\x04" + batch[23:]),
}


@pytest.mark.parametrize("codec", ["none", "lz4", "gzip"])
@pytest.mark.parametrize("name", MALFORMED)
def test_every_record_before_a_malformed_batch_is_delivered_before_the_error(name: str, codec: str) -> None:
    before = [encode_batch(numbered(first, first + 3), codec=codec) for first in (0, 3, 6)]
    data = b"".join(before) + MALFORMED[name](encode_batch(numbered(9, 12))) + encode_batch(numbered(12, 15))
    using = decoder()
    stream = decode(using, data)
    assert next(stream).column("offset").to_pylist() == list(range(9))
    with pytest.raises(MalformedBatchError) as caught:
        next(stream)
    assert (caught.value.offset, caught.value.position) == (9, sum(map(len, before)))
    assert using.position == 9


def test_damaged_compressed_bytes_are_refused_with_the_codec_s_reason() -> None:
    data = bytearray(encode_batch(numbered(0, 50), codec="lz4"))
    data[61 + 7 + 4 + 1] ^= 0xFF
    data[61] ^= 0xFF
    with pytest.raises(MalformedBatchError, match="lz4"):
        decode_rows(with_crc(bytes(data)))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_decompresses_to_more_than_the_limit_is_refused_behind_those_before_it(codec: str) -> None:
    before = encode_batch(numbered(0, 5), codec=codec)
    data = before + encode_batch([Record(offset=5, value=bytes(10**6))], codec=codec)
    assert len(decode_rows(data)) == 6
    using = decoder(decompressed_bytes_max=100_000)
    stream = decode(using, data)
    assert next(stream).num_rows == 5
    with pytest.raises(DecompressionLimitError) as caught:
        next(stream)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.codec) == ("flights", 3, 5, codec)
    assert (error.compressed_bytes, error.limit_bytes) == (len(data) - len(before) - 61, 100_000)
    assert error.option == "max.decompressed.batch.bytes"
    assert error.decompressed == ("more than is allowed" if codec == "lz4" else "1000011 bytes, as it says itself")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_decompression_bomb_needs_no_more_memory_than_its_limit(codec: str) -> None:
    data = seal(0, compress(codec, bytes(300_000_000)), count=1, attributes=CODECS[codec])
    using = decoder(decompressed_bytes_max=8_000_000)
    before = resident_bytes()
    with Sampler() as sampler, pytest.raises(DecompressionLimitError, match="8000000 are allowed"):
        list(decode(using, data))
    assert sampler.peak - before < 40_000_000


def test_memory_of_one_large_batch_is_not_kept_for_the_others() -> None:
    large = encode_batch([Record(offset=0, value=bytes(100_000_000))], codec="zstd")
    using = decoder()
    before = resident_bytes()
    assert sum(batch.num_rows for batch in decode(using, large)) == 1
    assert resident_bytes() - before < 60_000_000, "the next response may be long in coming"
    small = encode_batch(numbered(1, 51), codec="zstd")
    assert sum(batch.num_rows for batch in decode(using, small)) == 50
    assert resident_bytes() - before < 60_000_000


def test_an_error_that_somebody_keeps_keeps_no_memory() -> None:
    large = encode_batch([Record(offset=0, value=bytes(150_000_000))], codec="lz4")
    using = decoder(decompressed_bytes_max=100_000_000)
    before = resident_bytes()
    with pytest.raises(DecompressionLimitError) as caught:
        list(decode(using, large))
    assert resident_bytes() - before < 60_000_000
    assert caught.value.limit_bytes == 100_000_000


def resident_bytes() -> int:
    return psutil.Process().memory_info().rss


class Sampler(threading.Thread):
    """The process's highest resident size, looked at again and again while a block runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            self.peak = max(self.peak, resident_bytes())

    def __enter__(self) -> "Sampler":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self.peak = max(self.peak, resident_bytes())


def test_the_buffer_is_free_for_reuse_once_the_iterator_is_exhausted() -> None:
    buffer = bytearray(encode_batch(numbered(0, 3)))
    view = memoryview(buffer)
    batches = list(decode(decoder(), view))
    view.release()
    buffer.clear()
    assert batches[0].num_rows == 3


@pytest.mark.parametrize(
    "limits",
    [
        {"batch_rows_max": 0},
        {"batch_bytes_max": 0},
        {"decompressed_bytes_max": 0},
        {"batch_bytes_max": 2**31},
        {"decompressed_bytes_max": 2**31},
    ],
)
def test_limits_that_arrow_s_offsets_cannot_keep_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(limits.values())))):
        decoder(**limits)
