"""One record's fields, read from bytes that nobody has checked; and what can be wrong with such bytes.

A record, after decompression (varints are zigzag; length -1 is null, which a header's key cannot be)::

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    | key length varint, key | value length varint, value
    | number of headers varint | each: key length varint, key, value length varint, value

Every reader is told where its bytes end, reads none behind that, and reports what is wrong in the corruption array; the
position it returns is then -1. A record's own attributes are ignored (no bit of them is in use).

Sources: https://kafka.apache.org/documentation/#record, KIP-82 (headers), Kafka's ``DefaultRecord.java``.

What can be wrong with the bytes of a record batch, and the sentence for each.

The kernels cannot raise with a text. They fill a small array, ``[corruption, byte, a, b, record, batch]``, and
:func:`describe` makes the sentence of it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from directkafka.kafka.compression.decompress import CODEC_NAMES
from directkafka.kafka.kernels.compile import helper, wide

FAULT_SIZE = 6


class Corruption(IntEnum):
    """Which check failed. The kernels report ``[corruption, byte, first number, second number, record, batch]``."""

    NONE = 0
    BATCH_LENGTH = 1
    MAGIC = 2
    OFFSETS = 3
    ORDER = 4
    RECORD_COUNT = 5
    RECORD_LENGTH = 6
    VARINT = 7
    OFFSET_DELTA = 8
    KEY_LENGTH = 9
    VALUE_LENGTH = 10
    HEADER_COUNT = 11
    HEADER_KEY_LENGTH = 12
    HEADER_VALUE_LENGTH = 13
    RECORD_TAIL = 14
    BATCH_TAIL = 15
    TIMESTAMP = 16
    CODEC = 17
    CHECKSUM = 18
    CONTROL_COMPRESSED = 19
    CONTROL_KEY = 20


#: One sentence per corruption over ``a`` and ``b``, the two numbers that the kernel reports with it.
_REASONS = {
    Corruption.BATCH_LENGTH: "the batch's length is {a}, a batch header alone has 49 bytes after it",
    Corruption.MAGIC: "its magic byte is {a}, only record format 2 is read; the broker has records in a format before "
    "Kafka 0.11 if it is 0 or 1 (unsupported: let them expire, or copy the topic with a client of today)",
    Corruption.OFFSETS: "base offset {a} with last offset delta {b} is no range of offsets",
    Corruption.ORDER: "base offset {a} is not above the last offset {b} of the batch before it",
    Corruption.RECORD_COUNT: "the header counts {a} records, {b} bytes cannot hold them",
    Corruption.RECORD_LENGTH: "the record's length is {a}, {b} bytes remain",
    Corruption.VARINT: "a variable-length integer does not end within the {a} bytes that remain, or is longer than "
    "{b} bits",
    Corruption.OFFSET_DELTA: "the record's offset delta {a} does not lie above the previous one and at or below the "
    "batch's last offset delta {b}",
    Corruption.KEY_LENGTH: "the key's length is {a}, {b} bytes of the record remain",
    Corruption.VALUE_LENGTH: "the value's length is {a}, {b} bytes of the record remain",
    Corruption.HEADER_COUNT: "the record counts {a} headers, {b} bytes of the record remain",
    Corruption.HEADER_KEY_LENGTH: "a header key's length is {a}, {b} bytes of the record remain",
    Corruption.HEADER_VALUE_LENGTH: "a header value's length is {a}, {b} bytes of the record remain",
    Corruption.RECORD_TAIL: "{a} bytes of the record are left over after its last field",
    Corruption.BATCH_TAIL: "{a} bytes are left over after the last of {b} records",
    Corruption.TIMESTAMP: "the record at offset {b} has a timestamp of {a} ms (modulo 2^64), which does not fit into "
    "microseconds of 64 bits (Spark's KAFKA_MALFORMED_RECORD_TIMESTAMP)",
    Corruption.CODEC: "codec {a} is none of {codecs}",
    Corruption.CHECKSUM: "its CRC32C is {a:#010x}, the header says {b:#010x}",
    Corruption.CONTROL_COMPRESSED: "a control batch is compressed",
    Corruption.CONTROL_KEY: "a control batch's first record has no key of version and type",
}

_OF_A_RECORD = frozenset(range(Corruption.RECORD_COUNT, Corruption.TIMESTAMP + 1))


def describe(corruption: np.ndarray[Any, Any]) -> str:
    """The reason of a corruption as a kernel reported it: which record and byte, which check, the numbers."""
    code, byte, a, b, record, _ = corruption.tolist()
    reason = _REASONS[Corruption(code)].format(a=a, b=b, codecs=CODEC_NAMES)
    return f"record {record} (byte {byte} of the records): {reason}" if code in _OF_A_RECORD else reason


def new_corruption() -> np.ndarray[Any, np.dtype[np.int64]]:
    """What a kernel reports in: all zeros is no corruption."""
    return np.zeros(FAULT_SIZE, np.int64)


@helper
def report(corruption: Any, code: int, byte: int, a: int, b: int) -> int:
    """Used by the kernels: fill the array, and return the -1 that stands for a corruption."""
    corruption[0] = code
    corruption[1] = byte
    corruption[2] = a
    corruption[3] = b
    return -1


# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments


#: A record has at least length, attributes, two deltas, two lengths and a header count of one byte each.
RECORD_SIZE_MIN = 7
#: A header has at least the two lengths.
_HEADER_SIZE_MIN = 2
#: A control record's key: version int16, type int16.
_CONTROL_KEY_SIZE = 4
_INT64_MAX = 9223372036854775807


class Fields(NamedTuple):
    """What stands in a record; lengths are -1 for null, ``key`` and ``value`` are where the bytes start.

    ``end`` is the position of the first header, or -1 where a corruption was met: then nothing else means anything.
    """

    timestamp_delta: int
    offset_delta: int
    key_length: int
    key: int
    value_length: int
    value: int
    headers: int
    end: int


@helper
def _varint(data: Any, position: int, end: int, bits: int, corruption: Any) -> tuple[int, int]:
    """A zigzag varint of at most ``bits`` bits (32: 5 bytes, 64: 10): its value and the position after it, or -1."""
    value = shift = 0
    at = position
    while at < end and shift < bits:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift + 7 > bits and byte >> (bits - shift) != 0:
                break
            return ((value >> 1) & _INT64_MAX) ^ -(value & 1), at
        shift += 7
    return 0, report(corruption, Corruption.VARINT, position, end - position, bits)


@helper
def span(data: Any, position: int, end: int, null_allowed: bool, code: int, corruption: Any) -> tuple[int, int, int]:
    """A length and as many bytes: length (-1 for null), where they start, and the position after them, or -1."""
    length, start = _varint(data, position, end, 32, corruption)
    after = start + max(length, 0)
    if start < 0:
        after = -1
    elif length < -1 or after > end or (length == -1 and not null_allowed):
        after = report(corruption, code, position, length, end - start)
    return length, start, after


@helper
def record_bounds(data: Any, position: int, end: int, corruption: Any) -> tuple[int, int]:
    """Where the body of the record at ``position`` starts and ends; the end is -1 on a corruption."""
    length, start = _varint(data, position, end, 32, corruption)
    if start < 0:
        return start, -1
    if length < RECORD_SIZE_MIN - 1 or length > end - start:
        return start, report(corruption, Corruption.RECORD_LENGTH, position, length, end - start)
    return start, start + length


@helper
def read_record(data: Any, start: int, end: int, corruption: Any) -> Fields:
    """The fields of the record whose body is ``[start, end)``, up to its headers."""
    # The attributes byte at `start` has no bit in use.
    timestamp_delta, at = _varint(data, start + 1, end, 64, corruption)
    offset_delta = key_length = key = value_length = value = headers = 0
    if at >= 0:
        offset_delta, at = _varint(data, at, end, 32, corruption)
    if at >= 0:
        key_length, key, at = span(data, at, end, True, Corruption.KEY_LENGTH, corruption)
    if at >= 0:
        value_length, value, at = span(data, at, end, True, Corruption.VALUE_LENGTH, corruption)
    if at >= 0:
        counted_at = at
        headers, at = _varint(data, at, end, 32, corruption)
        if at >= 0 and not 0 <= headers <= (end - at) // _HEADER_SIZE_MIN:
            at = report(corruption, Corruption.HEADER_COUNT, counted_at, headers, end - at)
    return Fields(timestamp_delta, offset_delta, key_length, key, value_length, value, headers, at)


@helper
def control_record_type(data: Any, start: int, end: int, corruption: Any) -> int:
    """The type in the key of a control batch's first record (0 abort, 1 commit), or -1 where there is none."""
    body, after = record_bounds(data, start, end, corruption)
    if after < 0:
        return -1
    record = read_record(data, body, after, corruption)
    if record.end < 0 or record.key_length < _CONTROL_KEY_SIZE:
        return -1
    return wide(data[record.key + 2]) << 8 | wide(data[record.key + 3])
