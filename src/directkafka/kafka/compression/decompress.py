"""Kafka's compression codecs into a caller's buffer: gzip, snappy, lz4, zstd; bounded, so that no bomb goes off.

Codec ids are bits 0..2 of a batch's attributes. Two of the four need care:

- **snappy** comes in two shapes: raw (librdkafka, franz-go), or the chunks of Java's ``SnappyOutputStream``: a
  header of 8 bytes magic and two int32 versions, then (length int32 big-endian, raw snappy) over and over;
- **lz4** is the LZ4 frame format. Java and librdkafka write independent blocks without checksums of their own
  (the batch has its CRC32C). Such frames are taken apart, and their blocks decompressed one by one; all others go
  through the library's frame decoder.

A compiled kernel decompresses what it can without Python (:mod:`directkafka.kafka.compression.lz4`); the rest is
done here.

Sources: KIP-110 (zstd), https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md, Kafka's
``Lz4BlockOutputStream.java``, snappy-java's ``SnappyOutputStream.java``.

Sizes that compressed bytes declare, before any is decompressed.

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
from collections.abc import Callable
from typing import Any, Final

import cramjam
import numpy as np

from directkafka.kafka.compression.lz4 import GZIP, LZ4, NO_COMPRESSION, SNAPPY, ZSTD, unpack
from directkafka.kafka.kernels.c_functions import Decompressors

__all__ = [
    "CODEC_NAMES",
    "SNAPPY",
    "XERIAL_HEADER_SIZE",
    "XERIAL_MAGIC",
    "CorruptDataError",
    "RoomError",
    "Scratch",
    "TooLargeError",
    "declared_bytes",
    "decompress_into",
]

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
        return _snappy_size(data)
    try:
        return {GZIP: _gzip_size, LZ4: _lz4_size, ZSTD: _zstd_size}[codec](data)
    except (struct.error, IndexError):
        return 0


def _gzip_size(data: memoryview) -> int:
    return int(struct.unpack_from("<I", data, len(data) - 4)[0]) if bytes(data[:2]) == _GZIP_MAGIC else 0


def _lz4_size(data: memoryview) -> int:
    is_told = bytes(data[:4]) == _LZ4_MAGIC and data[4] & _LZ4_HAS_SIZE
    return int(struct.unpack_from("<Q", data, 6)[0]) if is_told else 0


def _zstd_size(data: memoryview) -> int:
    if bytes(data[:4]) != _ZSTD_MAGIC:
        return 0
    descriptor = data[4]
    is_single = bool(descriptor & _ZSTD_SINGLE_SEGMENT)
    size_bytes = _ZSTD_SIZE_BYTES[descriptor >> 6] or int(is_single)
    start = 5 + (not is_single) + _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    size = int.from_bytes(data[start : start + size_bytes], "little")
    return size + _ZSTD_TWO_BYTES_FROM if size_bytes == _ZSTD_SIZE_BYTES[1] else size


def _snappy_size(data: memoryview) -> int:
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


#: A one-dimensional array of uint8. (That an array is a buffer, type checkers know from Python 3.12 on only.)
Bytes = Any
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Names by codec id, as Kafka's ``compression.type`` spells them.
CODEC_NAMES = {NO_COMPRESSION: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

#: Largest block in bytes by the 7 bytes a plain LZ4 frame starts with: magic, flags (version 1, independent blocks,
#: no checksums, no content size, no dictionary), block size, and the checksum over these two.
_LZ4_PLAIN_FRAMES = {
    b"\x04\x22\x4d\x18\x60\x40\x82": 64 * 1024,
    b"\x04\x22\x4d\x18\x60\x50\xfb": 256 * 1024,
    b"\x04\x22\x4d\x18\x60\x60\x51": 1024 * 1024,
    b"\x04\x22\x4d\x18\x60\x70\x73": 4 * 1024 * 1024,
}
_LZ4_START = struct.Struct("<7sI")
_LZ4_LENGTH = struct.Struct("<I")
_LZ4_STORED = 1 << 31

_XERIAL_LENGTH = struct.Struct(">I")

#: The scratch buffer keeps so many times the size that it starts with.
_KEPT_SIZES = 4
_NOTHING = np.empty(0, np.uint8)

#: What cramjam's stream decoders say when the target is full before the source is read.
_TARGET_FULL = "failed to write whole buffer"


class CorruptDataError(Exception):
    """Bytes that their codec cannot read; the text says why."""


class RoomError(Exception):
    """The target is too small for what the source decompresses to."""


class TooLargeError(Exception):
    """A source decompresses to more than is allowed.

    Args:
        declared_bytes: what it says itself; 0 when it says nothing, and the limit was met while decompressing.
    """

    def __init__(self, declared_bytes: int) -> None:
        super().__init__(declared_bytes)
        self.declared_bytes = declared_bytes


def decompress_into(codec: int, source: Bytes, target: Bytes) -> int:
    """Decompress all of a source into the front of a target.

    Args:
        codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        source: the compressed bytes.
        target: writable; what lies behind the decompressed bytes may be overwritten too.

    Returns:
        Number of bytes the source decompressed to.

    Raises:
        RoomError: the target is too small; nothing in it means anything.
        CorruptDataError: the source is not what the codec writes.
    """
    decompress = _DECOMPRESSORS[codec]
    try:
        return decompress(source, target)
    except cramjam.DecompressionError as error:
        if _TARGET_FULL in str(error):
            raise RoomError from None
        raise CorruptDataError(str(error)) from None


class Scratch:
    """A reused buffer for decompressed batches, which lie one behind the other; grown on demand up to a limit.

    What a large batch has made it grow to is given back behind that batch: it may be the only one.

    Args:
        size: bytes of the buffer when it is first needed; up to four times as many are kept.
        size_max: bytes it may grow to, and the most that one batch may decompress to.
    """

    def __init__(self, size: int, size_max: int) -> None:
        self._size = min(size, size_max)
        self._size_max = size_max
        self._buffer: Bytes = _NOTHING
        self._used = np.zeros(1, np.int64)
        self._sizes = np.zeros(2, np.int64)
        self._kinds: set[int] = set()
        self._decompressors = Decompressors.of(self, lz4=False, gzip=False, zstd=False)

    @property
    def bytes(self) -> Bytes:
        """A read-only view over the whole buffer."""
        view = self._buffer.view()
        view.setflags(write=False)
        return view

    def clear(self) -> None:
        """Forget all batches, and give back what is not needed for most."""
        self._used[0] = 0
        if self._buffer.size > _KEPT_SIZES * self._size:
            self._buffer = _NOTHING

    def append_run(self, records: Bytes, run: Table, first: int) -> int:
        """Decompress member after member of a run, which says afterwards where each of them lies.

        The call costs as much as a batch that it leaves: not to be made for snappy, which it always leaves.

        Args:
            records: the response's bytes, read-only.
            run: columns as in :class:`directkafka.kafka.records.record_columns.Member`.
            first: the member to begin with.

        Returns:
            The first compressed member that was not: for lack of room, because of its codec, or because it is
            damaged. The run's end when there is none.
        """
        kinds = set(run[first:, 1].tolist())
        if kinds == {NO_COMPRESSION}:
            return len(run)
        if not kinds <= self._kinds:
            self._kinds |= kinds
            self._decompressors = Decompressors.of(
                self, lz4=LZ4 in self._kinds, gzip=GZIP in self._kinds, zstd=ZSTD in self._kinds
            )
        if not self._buffer.size:
            self._buffer = np.empty(self._size, np.uint8)
        return int(unpack(self._decompressors, records, run, first, self._buffer, self._used, self._sizes))

    def append(self, codec: int, source: Bytes) -> tuple[int, int] | None:
        """Decompress behind what is there: where it begins and ends, or None when there is not enough room.

        Raises:
            CorruptDataError: the bytes are damaged.
        """
        start = int(self._used[0])
        try:
            end = start + decompress_into(codec, source, self._buffer[start:])
        except RoomError:
            return None
        self._used[0] = end
        return start, end

    def append_growing(self, codec: int, source: Bytes) -> tuple[int, int]:
        """Decompress as the only batch, into a larger buffer where that is needed.

        Raises:
            CorruptDataError: the bytes are damaged.
            TooLargeError: they decompress to more than the limit, or say that they do.
        """
        self.clear()
        declared = declared_bytes(codec, source)
        if declared > self._size_max:
            raise TooLargeError(declared)
        if declared > self._buffer.size:
            self._resize(declared)
        while (span := self.append(codec, source)) is None:
            if self._buffer.size >= self._size_max:
                raise TooLargeError(0)
            self._resize(min(max(self._size, 2 * self._buffer.size), self._size_max))
        return span

    def _resize(self, size: int) -> None:
        # Not both at once.
        self._buffer = _NOTHING
        self._buffer = np.empty(size, np.uint8)


def _gzip(source: Bytes, target: Bytes) -> int:
    return int(cramjam.gzip.decompress_into(source, target))


def _zstd(source: Bytes, target: Bytes) -> int:
    return int(cramjam.zstd.decompress_into(source, target))


def _lz4(source: Bytes, target: Bytes) -> int:
    start, length = _unpack(_LZ4_START, source, 0)
    block_size_max = _LZ4_PLAIN_FRAMES.get(start)
    if block_size_max is None:
        return int(cramjam.lz4.decompress_into(source, target))
    return _lz4_blocks(source, target, length, block_size_max)


def _lz4_blocks(source: Bytes, target: Bytes, length: int, block_size_max: int) -> int:
    """The blocks of one plain frame: length uint32 little-endian (top bit: stored as it is), bytes; length 0 ends.

    ``length`` is that of the first block, which was read together with what the frame starts with.
    """
    at, written = _LZ4_START.size, 0
    while length:
        stored = length & _LZ4_STORED
        end = at + (length & ~_LZ4_STORED)
        if end > source.size or end - at > block_size_max:
            raise CorruptDataError(
                f"lz4: a block of {end - at} bytes at byte {at}, {source.size - at} remain, {block_size_max} allowed"
            )
        room = target[written : written + block_size_max]
        written += _store(source[at:end], room) if stored else _lz4_block(source[at:end], room, block_size_max)
        (length,) = _unpack(_LZ4_LENGTH, source, end)
        at = end + _LZ4_LENGTH.size
    if at != source.size:
        raise CorruptDataError(f"lz4: {source.size - at} bytes after the end of the frame")
    return written


def _lz4_block(block: Bytes, room: Bytes, block_size_max: int) -> int:
    try:
        return int(cramjam.lz4.decompress_block_into(block, room, output_len=room.size))
    except cramjam.DecompressionError:
        # The decoder says the same of too small a target and of a corrupt block; the size of the room tells.
        if room.size < block_size_max:
            raise RoomError from None
        raise


def _snappy(source: Bytes, target: Bytes) -> int:
    if source[: len(XERIAL_MAGIC)].tobytes() != XERIAL_MAGIC:
        return _snappy_raw(source, target)
    if source.size < XERIAL_HEADER_SIZE:
        raise CorruptDataError(f"snappy: {source.size} bytes are less than the stream's header")
    at, written = XERIAL_HEADER_SIZE, 0
    while at < source.size:
        (length,) = _unpack(_XERIAL_LENGTH, source, at)
        at += _XERIAL_LENGTH.size
        if length > source.size - at:
            raise CorruptDataError(f"snappy: a chunk of {length} bytes, {source.size - at} remain")
        written += _snappy_raw(source[at : at + length], target[written:])
        at += length
    return written


def _snappy_raw(source: Bytes, target: Bytes) -> int:
    # Its own length comes first in a snappy block, so the room is known to be enough before anything is written.
    if cramjam.snappy.decompress_raw_len(source) > target.size:
        raise RoomError
    return int(cramjam.snappy.decompress_raw_into(source, target))


def _unpack(layout: struct.Struct, source: Bytes, at: int) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(source, at)
    except struct.error:
        raise CorruptDataError(f"the compressed bytes end at {source.size}, inside a length at {at}") from None


def _store(block: Bytes, room: Bytes) -> int:
    if block.size > room.size:
        raise RoomError
    room[: block.size] = block
    return int(block.size)


_DECOMPRESSORS: dict[int, Callable[[Bytes, Bytes], int]] = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
