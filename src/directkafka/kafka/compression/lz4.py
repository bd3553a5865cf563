"""LZ4 frames taken apart inside kernels, and runs of batches decompressed by one compiled call.

To call a library from Python costs a third of what it takes to decompress a batch of 16 KB, and several times what a
batch of one record takes. So batches that need nothing but a C function are decompressed together. Whatever is not
simple is left to :mod:`directkafka.kafka.compression.decompress`: snappy, gzip of several members, LZ4 frames other
than the plain ones (independent blocks, no checksums, no content size, no dictionary), bytes in which something is
wrong, and too little room.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from directkafka.kafka.kernels.c_functions import NOWHERE, Decompressors, gzip_member, lz4_block, zstd_frames
from directkafka.kafka.kernels.compile import (
    BYTES_IN,
    BYTES_OUT,
    INT64,
    INT64S,
    TABLE,
    copy,
    helper,
    kernel,
    unwrapped,
    wide,
)

# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments


_FRAME_HEADER_SIZE = 7
_BLOCK_LENGTH_SIZE = 4
_STORED = 1 << 31
_LEFT = -1


@helper
def _uint32(data: Any, at: int) -> int:
    return wide(data[at]) | wide(data[at + 1]) << 8 | wide(data[at + 2]) << 16 | wide(data[at + 3]) << 24


@helper
def _block_size_max(data: Any, start: int, end: int) -> int:
    """Largest block of the frame; 0 when it is not a plain one.

    A frame begins with the magic number, flags (version 1, independent blocks, nothing else), the block size's
    number, and a checksum over these two.
    """
    if end - start < _FRAME_HEADER_SIZE + _BLOCK_LENGTH_SIZE or _uint32(data, start) != 0x184D2204:
        return 0
    kind = _uint32(data, start + 3) >> 8
    size = 0
    if kind == 0x824060:
        size = 64 * 1024
    elif kind == 0xFB5060:
        size = 256 * 1024
    elif kind == 0x516060:
        size = 1024 * 1024
    elif kind == 0x737060:
        size = 4 * 1024 * 1024
    return size


@helper
def unpack_lz4_frame(lz4_at: int, data: Any, start: int, end: int, target: Any, begin: int, room_end: int) -> int:
    """Decompress the frame ``[start, end)`` to ``target[begin:room_end]``.

    Args:
        lz4_at: the address of liblz4's function.

    Returns:
        The position after what was decompressed, or -1 to leave it to the caller.
    """
    block_size_max = _block_size_max(data, start, end)
    at, to = start + _FRAME_HEADER_SIZE, begin
    while block_size_max > 0 and end - at >= _BLOCK_LENGTH_SIZE:
        length = _uint32(data, at)
        at += _BLOCK_LENGTH_SIZE
        if length == 0:
            return to if at == end else _LEFT
        size = length & ~_STORED
        room = min(room_end - to, block_size_max)
        if size > end - at or size > block_size_max:
            break
        if length & _STORED:
            if size > room:
                break
            to = copy(target, to, data, at, size)
        else:
            written = lz4_block(lz4_at, data, at, at + size, target, to, room)
            if written < 0:
                break
            to += written
        at += size
    return _LEFT


# ruff: noqa: PLR0917 - a kernel takes its arrays as single arguments


Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Codec ids of batches.
NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = range(5)


_tuple_type: Any = types.NamedUniTuple
_DECOMPRESSORS_TYPE = _tuple_type(INT64, len(Decompressors._fields), Decompressors)


@helper
def _unpack_one(
    by: Decompressors, codec: int, data: Any, start: int, end: int, target: Any, to: int, room_end: int, sizes: Any
) -> int:
    """Decompress ``[start, end)`` to ``target[to:room_end]``: the position after it, or -1: left to the caller."""
    if codec == LZ4 and by.lz4 != NOWHERE:
        return unpack_lz4_frame(by.lz4, data, start, end, target, to, room_end)
    written = _LEFT
    if codec == GZIP and by.gzip != NOWHERE:
        written = gzip_member(by.gzip, by.gzip_state, data, start, end, target, to, room_end - to, sizes)
    elif codec == ZSTD and by.zstd != NOWHERE:
        written = zstd_frames(by.zstd, by.zstd_state, data, start, end, target, to, room_end - to)
    return to + written if written >= 0 else _LEFT


@kernel(INT64(_DECOMPRESSORS_TYPE, BYTES_IN, TABLE, INT64, BYTES_OUT, INT64S, INT64S))
def unpack(
    by: Decompressors, records: Bytes, run: Table, first: int, scratch: Bytes, used: Int64s, sizes: Int64s
) -> int:
    """Decompress members of a run, one behind the other, up to the first that is left to the caller.

    Args:
        by: used by no other thread meanwhile.
        records: the response's bytes, read-only.
        run: in and out, columns as in :class:`directkafka.kafka.records.record_columns.BatchSlice`. Those that are not
            compressed are passed over.
        first: the member to begin with.
        scratch: out; bytes behind what is decompressed may be overwritten too.
        used: in and out, how much of ``scratch`` is in use.
        sizes: two numbers, overwritten.

    Returns:
        The member that is left to the caller, or the run's end.
    """
    data, target, sizes_pointer = unwrapped(records), unwrapped(scratch), unwrapped(sizes)
    to = used[0]
    member = first
    while member < run.shape[0]:
        codec, start, end = run[member, 1], run[member, 2], run[member, 3]
        if codec != NO_COMPRESSION:
            after = _unpack_one(by, codec, data, start, end, target, to, scratch.shape[0], sizes_pointer)
            if after < 0:
                break
            run[member, 2], run[member, 3] = to, after
            to = after
        member += 1
    used[0] = to
    return member
