"""What can be wrong with the bytes of a record batch, and the sentence for each.

The kernels cannot raise with a text. They fill a small array, ``[fault, byte, a, b, record, batch]``, and
:func:`describe` makes the sentence of it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from directkafka.kafka.compression.decompress import CODEC_NAMES
from directkafka.kafka.kernels.compile import helper

__all__ = ["FAULT_SIZE", "Fault", "describe", "new_fault", "report"]

FAULT_SIZE = 6


class Fault(IntEnum):
    """Which check failed. The kernels report ``[fault, byte, first number, second number, record, batch]``."""

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


#: One sentence per fault over ``a`` and ``b``, the two numbers that the kernel reports with it.
_REASONS = {
    Fault.BATCH_LENGTH: "the batch's length is {a}, a batch header alone has 49 bytes after it",
    Fault.MAGIC: "its magic byte is {a}, only record format 2 is read; the broker has records in a format before "
    "Kafka 0.11 if it is 0 or 1 (unsupported: let them expire, or copy the topic with a client of today)",
    Fault.OFFSETS: "base offset {a} with last offset delta {b} is no range of offsets",
    Fault.ORDER: "base offset {a} is not above the last offset {b} of the batch before it",
    Fault.RECORD_COUNT: "the header counts {a} records, {b} bytes cannot hold them",
    Fault.RECORD_LENGTH: "the record's length is {a}, {b} bytes remain",
    Fault.VARINT: "a variable-length integer does not end within the {a} bytes that remain, or is longer than {b} bits",
    Fault.OFFSET_DELTA: "the record's offset delta {a} does not lie above the previous one and at or below the "
    "batch's last offset delta {b}",
    Fault.KEY_LENGTH: "the key's length is {a}, {b} bytes of the record remain",
    Fault.VALUE_LENGTH: "the value's length is {a}, {b} bytes of the record remain",
    Fault.HEADER_COUNT: "the record counts {a} headers, {b} bytes of the record remain",
    Fault.HEADER_KEY_LENGTH: "a header key's length is {a}, {b} bytes of the record remain",
    Fault.HEADER_VALUE_LENGTH: "a header value's length is {a}, {b} bytes of the record remain",
    Fault.RECORD_TAIL: "{a} bytes of the record are left over after its last field",
    Fault.BATCH_TAIL: "{a} bytes are left over after the last of {b} records",
    Fault.TIMESTAMP: "the record at offset {b} has a timestamp of {a} ms (modulo 2^64), which does not fit into "
    "microseconds of 64 bits (Spark's KAFKA_MALFORMED_RECORD_TIMESTAMP)",
    Fault.CODEC: "codec {a} is none of {codecs}",
    Fault.CHECKSUM: "its CRC32C is {a:#010x}, the header says {b:#010x}",
    Fault.CONTROL_COMPRESSED: "a control batch is compressed",
    Fault.CONTROL_KEY: "a control batch's first record has no key of version and type",
}

_OF_A_RECORD = frozenset(range(Fault.RECORD_COUNT, Fault.TIMESTAMP + 1))


def describe(fault: np.ndarray[Any, Any]) -> str:
    """The reason of a fault as a kernel reported it: which record and byte, which check, the numbers."""
    code, byte, a, b, record, _ = fault.tolist()
    reason = _REASONS[Fault(code)].format(a=a, b=b, codecs=CODEC_NAMES)
    return f"record {record} (byte {byte} of the records): {reason}" if code in _OF_A_RECORD else reason


def new_fault() -> np.ndarray[Any, np.dtype[np.int64]]:
    """What a kernel reports in: all zeros is no fault."""
    return np.zeros(FAULT_SIZE, np.int64)


@helper
def report(fault: Any, code: int, byte: int, a: int, b: int) -> int:
    """Used by the kernels: fill the array, and return the -1 that stands for a fault."""
    fault[0] = code
    fault[1] = byte
    fault[2] = a
    fault[3] = b
    return -1
