"""Decompression of Kafka's codecs (gzip, snappy, lz4, zstd) into a caller's buffer, up to a limit in bytes.

Codec ids are bits 0..2 of a batch's attributes. Two of the four need care:

- **snappy** comes in two shapes: raw (librdkafka, franz-go), or the chunks of Java's ``SnappyOutputStream``: a
  header of 8 bytes magic and two int32 versions, then (length int32 big-endian, raw snappy) over and over;
- **lz4** is the LZ4 frame format. Java and librdkafka write independent blocks without checksums of their own
  (the batch has its CRC32C): the kernel reads only frames of this kind.

A compiled kernel (:mod:`directkafka.kafka.compression.lz4`) decompresses what it can without calling Python. For the
rest, this module calls a library, batch by batch.

Sources: KIP-110 (zstd), https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md, Kafka's
``Lz4BlockOutputStream.java``, snappy-java's ``SnappyOutputStream.java``.

Compressed bytes may declare their decompressed size. It is not trusted, since whoever wrote the bytes may have lied: a
declared size above the limit is a reason to refuse the bytes, any other is a first guess of the buffer that they need.
Where each codec declares it:

- **gzip**: the last four bytes, modulo 4 GiB, of the last member (RFC 1952, ISIZE);
- **snappy**: a varint before each block; in Java's shape each chunk is a block;
- **lz4**: eight bytes of the frame's header, when a flag says so; Java and librdkafka write none;
- **zstd**: up to eight bytes of the frame's header (RFC 8878, 3.1.1.1); librdkafka writes them, Java's stream does not.

Of several gzip members, or lz4 or zstd frames, only one is looked at, so the whole is at least as large.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import cramjam
import lz4.frame
import numpy as np

from directkafka.kafka.compression.lz4 import GZIP, LZ4, NO_COMPRESSION, SNAPPY, ZSTD, unpack
from directkafka.kafka.kernels.c_functions import Decompressors

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE: Final = 16

_GZIP_MAGIC: Final = b"\x1f\x8b"


def declared_bytes(codec: int, source: Any) -> int:
    """How many bytes a source says that it decompresses to, at least; 0 when it says nothing.

    Args:
        codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        source: a one-dimensional array of uint8.
    """
    try:
        return _DECLARED[codec](memoryview(source))
    except (struct.error, RuntimeError, CorruptDataError):
        return 0


def _gzip_size(data: memoryview) -> int:
    return int(struct.unpack_from("<I", data, len(data) - 4)[0]) if bytes(data[:2]) == _GZIP_MAGIC else 0


def _lz4_size(data: memoryview) -> int:
    return int(lz4.frame.get_frame_info(data)["content_size"])


def _zstd_size(data: memoryview) -> int:
    from directkafka.kafka.compression.zstd import ZstdError, get_frame_info

    try:
        return get_frame_info(data).decompressed_size or 0
    except ZstdError:
        return 0


def _snappy_size(data: memoryview) -> int:
    return sum(map(_snappy_block, _snappy_blocks(data)))


def _snappy_block(data: memoryview) -> int:
    try:
        # The length is a varint of at most five bytes.
        return int(cramjam.snappy.decompress_raw_len(bytes(data[:5])))
    except cramjam.DecompressionError:
        return 0


#: A one-dimensional array of uint8. (Type checkers know only from Python 3.12 on that an array is a buffer.)
Bytes = Any
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Names by codec id, as Kafka's ``compression.type`` spells them.
CODEC_NAMES = {NO_COMPRESSION: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL_LENGTH = struct.Struct(">I")

#: A scratch buffer is kept for reuse while it is at most this many times its first size.
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
        declared_bytes: the size that it declares, if above the limit; 0 if the limit was met while decompressing.
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
    try:
        return int(_DECOMPRESSORS[codec](source, target))
    except cramjam.DecompressionError as error:
        if _TARGET_FULL in str(error):
            raise RoomError from None
        raise CorruptDataError(str(error)) from None


class Scratch:
    """A reused buffer for decompressed batches, which lie one behind the other; grown on demand up to a limit.

    The next :meth:`clear` frees a buffer that a large batch has made larger than four times ``size``: later batches may
    not need it.

    Args:
        size: first size of the buffer, in bytes.
        size_max: most bytes that the buffer may have, and that one batch may decompress to.
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
        """Forget all batches, and free the buffer if it is larger than most batches need."""
        self._used[0] = 0
        if self._buffer.size > _KEPT_SIZES * self._size:
            self._buffer = _NOTHING

    def append_run(self, records: Bytes, run: Table, first: int) -> int:
        """Decompress member after member of a run, and write into the run where each of them lies afterwards.

        A call that leaves its first member costs as much as decompressing it: do not call it for snappy, which it
        always leaves.

        Args:
            records: the response's bytes, read-only.
            run: columns as in :class:`directkafka.kafka.records.record_columns.BatchSlice`.
            first: the member to begin with.

        Returns:
            The first compressed member that was not decompressed: for lack of room, because of its codec, or because
            it is damaged. The run's length when there is none.
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
        """Decompress a batch behind those that are there.

        Returns:
            Where it begins and ends in the buffer; None when there is not enough room.

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
        """Forget all batches and decompress this one, into a larger buffer if it needs one.

        Returns:
            Where it begins and ends in the buffer.

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
        # Never two buffers at once.
        self._buffer = _NOTHING
        self._buffer = np.empty(size, np.uint8)


def _snappy(source: Bytes, target: Bytes) -> int:
    written = 0
    for block in _snappy_blocks(source):
        # A snappy block begins with its decompressed length, so the room is checked before anything is written.
        if cramjam.snappy.decompress_raw_len(block) > len(target) - written:
            raise RoomError
        written += int(cramjam.snappy.decompress_raw_into(block, target[written:]))
    return written


def _snappy_blocks(source: Bytes) -> Iterator[Bytes]:
    """The source as one block, or its chunks if it is in Java's shape.

    Raises:
        CorruptDataError: the source ends within a header, a length or a chunk.
    """
    if bytes(source[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield source
        return
    if len(source) < XERIAL_HEADER_SIZE:
        raise CorruptDataError(f"snappy: {len(source)} bytes are less than the stream's header")
    at = XERIAL_HEADER_SIZE
    while at < len(source):
        start = at + _XERIAL_LENGTH.size
        if start > len(source):
            raise CorruptDataError(f"snappy: the bytes end at {len(source)}, inside a length at {at}")
        (length,) = _XERIAL_LENGTH.unpack_from(source, at)
        if length > len(source) - start:
            raise CorruptDataError(f"snappy: a chunk of {length} bytes, {len(source) - start} remain")
        at = start + length
        yield source[start:at]


_DECLARED: Final[dict[int, Callable[[memoryview], int]]] = {
    GZIP: _gzip_size, SNAPPY: _snappy_size, LZ4: _lz4_size, ZSTD: _zstd_size,
}  # fmt: skip
_DECOMPRESSORS: Final[dict[int, Callable[[Bytes, Bytes], int]]] = {
    GZIP: cramjam.gzip.decompress_into, SNAPPY: _snappy,
    LZ4: cramjam.lz4.decompress_into, ZSTD: cramjam.zstd.decompress_into,
}  # fmt: skip
