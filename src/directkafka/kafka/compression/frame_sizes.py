"""Sizes that compressed bytes declare, before any is decompressed.

Nothing of it is believed, for whoever wrote the bytes may have lied: it is a reason to refuse, and a first guess of
the room that they need. Each codec has a place for it:

- **gzip**: the last four bytes, modulo 4 GiB, of the last member (RFC 1952, ISIZE);
- **snappy**: a varint before each block; in Java's shape each chunk is a block;
- **lz4**: eight bytes of the frame's header, when a flag says so; Java and librdkafka write none;
- **zstd**: up to eight bytes of the frame's header (RFC 8878, 3.1.1.1); librdkafka writes them, Java's stream does not.

Of several frames or members one is looked at, so the whole is at least as large.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import cramjam

from directkafka.kafka.compression.kernels import GZIP, LZ4, SNAPPY, ZSTD

__all__ = ["XERIAL_HEADER_SIZE", "XERIAL_MAGIC", "declared_bytes"]

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE: Final = 16

_GZIP_MAGIC: Final = b"\x1f\x8b"
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HAS_SIZE: Final = 1 << 3
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: Bytes of the dictionary's id, by the two lowest bits of the frame's descriptor; of the size, by the two highest.
_ZSTD_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_ZSTD_SIZE_BYTES: Final = (0, 2, 4, 8)
_ZSTD_SINGLE_SEGMENT: Final = 1 << 5
#: A size of two bytes does not count what one byte can say.
_ZSTD_TWO_BYTES_FROM: Final = 256


def declared_bytes(codec: int, source: Any) -> int:
    """How many bytes a source says that it decompresses to, at least; 0 when it says nothing.

    Args:
        codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        source: a one-dimensional array of uint8.
    """
    data = memoryview(source)
    if codec == SNAPPY:
        return _snappy(data)
    try:
        return {GZIP: _gzip, LZ4: _lz4, ZSTD: _zstd}[codec](data)
    except (struct.error, IndexError):
        return 0


def _gzip(data: memoryview) -> int:
    return int(struct.unpack_from("<I", data, len(data) - 4)[0]) if bytes(data[:2]) == _GZIP_MAGIC else 0


def _lz4(data: memoryview) -> int:
    is_told = bytes(data[:4]) == _LZ4_MAGIC and data[4] & _LZ4_HAS_SIZE
    return int(struct.unpack_from("<Q", data, 6)[0]) if is_told else 0


def _zstd(data: memoryview) -> int:
    if bytes(data[:4]) != _ZSTD_MAGIC:
        return 0
    descriptor = data[4]
    is_single = bool(descriptor & _ZSTD_SINGLE_SEGMENT)
    size_bytes = _ZSTD_SIZE_BYTES[descriptor >> 6] or int(is_single)
    start = 5 + (not is_single) + _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    size = int.from_bytes(data[start : start + size_bytes], "little")
    return size + _ZSTD_TWO_BYTES_FROM if size_bytes == _ZSTD_SIZE_BYTES[1] else size


def _snappy(data: memoryview) -> int:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _snappy_block(data)
    at, total = XERIAL_HEADER_SIZE, 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        total += _snappy_block(data[at + 4 : at + 4 + length])
        at += 4 + length
    return total


def _snappy_block(data: memoryview) -> int:
    try:
        # The length is a varint of at most five bytes.
        return int(cramjam.snappy.decompress_raw_len(bytes(data[:5])))
    except cramjam.DecompressionError:
        return 0
