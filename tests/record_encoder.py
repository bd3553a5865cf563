"""A slow encoder of record batches, written from Kafka's format description and independent of ``src``."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cramjam
import google_crc32c
import pyarrow as pa

from directkafka.kafka.records.decoder import RecordDecoder
from directkafka.kafka.records.record_batch import BatchIndex, index_batches, readonly_bytes

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32
ABORT, COMMIT = 0, 1
LZ4_FRAME = b"\x04\x22\x4d\x18\x60\x40\x82"
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record as a test names it."""

    offset: int
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000


def varint(number: int) -> bytes:
    """Zigzag, seven bits a byte, least significant first."""
    rest = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def sized(data: bytes | None) -> bytes:
    """A length and the bytes; -1 for null."""
    return varint(-1) if data is None else varint(len(data)) + data


def encode_record(record: Record, base_offset: int, base_timestamp_ms: int) -> bytes:
    """A record with its length."""
    body = b"".join(
        [
            b"\x00",
            varint(record.timestamp_ms - base_timestamp_ms),
            varint(record.offset - base_offset),
            sized(record.key),
            sized(record.value),
            varint(len(record.headers)),
            *(sized(key) + sized(value) for key, value in record.headers),
        ]
    )
    return varint(len(body)) + body


def encode_batch(
    records: Sequence[Record],
    *,
    codec: str = "none",
    attributes: int = 0,
    producer_id: int = -1,
    max_timestamp_ms: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """A batch of these records, the first of which gives base offset and base timestamp."""
    base = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp_ms if records else 0
    latest = (
        max((record.timestamp_ms for record in records), default=0) if max_timestamp_ms is None else max_timestamp_ms
    )
    encoded = b"".join(encode_record(record, base, base_timestamp) for record in records)
    return seal(
        base,
        compress(codec, encoded),
        attributes=attributes | CODECS[codec],
        last_offset_delta=last - base,
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=latest,
        producer_id=producer_id,
        count=len(records),
    )


def seal(
    base_offset: int,
    records: bytes,
    *,
    count: int,
    attributes: int = 0,
    last_offset_delta: int = 0,
    base_timestamp_ms: int = 0,
    max_timestamp_ms: int = 0,
    producer_id: int = -1,
) -> bytes:
    """A batch header before these record bytes, whatever they are."""
    after_crc = (
        struct.pack(
            ">hiqqqhii",
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            0,
            -1,
            count,
        )
        + records
    )
    return with_crc(struct.pack(">qiibI", base_offset, len(after_crc) + 9, 0, 2, 0) + after_crc)


def with_crc(batch: bytes) -> bytes:
    """The batch with the checksum that its bytes have."""
    return batch[:17] + struct.pack(">I", google_crc32c.value(batch[21:])) + batch[21:]


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """The control batch that ends a transaction."""
    record = Record(offset=offset, key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, 0))
    return encode_batch([record], attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def compress(codec: str, data: bytes) -> bytes:
    """As a producer does; lz4 as Java writes it, snappy raw as librdkafka does."""
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data, 1)
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    return lz4_frame(data) if codec == "lz4" else bytes(cramjam.zstd.compress(data))


def lz4_frame(data: bytes, *, stored: bool = False) -> bytes:
    """A plain frame of 64 KiB blocks; those that do not shrink are stored as they are."""
    frame = [LZ4_FRAME]
    for start in range(0, len(data), 65_536):
        block = data[start : start + 65_536]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        as_it_is = stored or len(packed) >= len(block)
        frame += (
            [struct.pack("<I", len(block) | 1 << 31), block] if as_it_is else [struct.pack("<I", len(packed)), packed]
        )
    return b"".join([*frame, bytes(4)])


def xerial(data: bytes, chunk: int = 32_768) -> bytes:
    """Snappy as Java's stream writes it."""
    parts = [bytes(cramjam.snappy.compress_raw(data[at : at + chunk])) for at in range(0, len(data), chunk)]
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(part)) + part for part in parts)


def decoder(from_offset: int = 0, until_offset: int = 2**62, **options: Any) -> RecordDecoder:
    """A decoder for topic ``flights``, partition 3, with headers and read_committed unless said."""
    settings: dict[str, Any] = {"include_headers": True, "read_committed": True}
    return RecordDecoder("flights", 3, from_offset, until_offset, **(settings | options))


def index_of(records: Any) -> BatchIndex:
    """The batch headers of a response, as who receives it reads them."""
    return index_batches(readonly_bytes(records))


def decode(using: RecordDecoder, records: Any, aborted: Sequence[tuple[int, int]] = ()) -> Iterator[pa.RecordBatch]:
    """A response's records."""
    view = memoryview(records)
    return using.decode(view, index_of(view), aborted)


def decode_rows(
    data: bytes, aborted: Sequence[tuple[int, int]] = (), using: RecordDecoder | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Rows of a response, as Python objects; the buffer is overwritten before they are looked at."""
    buffer = bytearray(data)
    batches = list(decode(using or decoder(**options), buffer, aborted))
    buffer[:] = b"\xee" * len(buffer)
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows > 0
    return [row for batch in batches for row in batch.to_pylist()]


def expected_row(record: Record, *, with_headers: bool = True) -> dict[str, Any]:
    """What a record is in Arrow, without the timestamp, which Python's datetime cannot always hold."""
    row: dict[str, Any] = {
        "key": record.key,
        "value": record.value,
        "topic": "flights",
        "partition": 3,
        "offset": record.offset,
        "timestampType": 0,
    }
    if with_headers:
        pairs = [{"key": key.decode("utf-8", "replace"), "value": value} for key, value in record.headers]
        row["headers"] = pairs or None
    return row
