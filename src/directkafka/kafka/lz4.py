"""LZ4 frames as Java and librdkafka write them, taken apart by a compiled kernel: many small batches in one call.

To call a library from Python costs a third of what it takes to decompress a batch of 16 KB, and several times what a
batch of one record takes. The kernel reads the frames, and calls liblz4 for each block. Whatever is not simple is left
to the caller: other frames than the plain ones (independent blocks, no checksums, no content size, no dictionary),
bytes in which something is wrong, and too little room.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments
from __future__ import annotations

from typing import Any

import numpy as np

from directkafka.kafka.c_functions import NOWHERE, lz4_block
from directkafka.kafka.kernel import BYTES_IN, BYTES_OUT, INT64, INT64S, TABLE, copy, helper, kernel, unwrapped, wide

__all__ = ["LZ4", "NO_COMPRESSION", "unpack_lz4"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Codec ids of batches.
NO_COMPRESSION = 0
LZ4 = 3

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
def _unpack_frame(lz4_at: int, data: Any, start: int, end: int, target: Any, begin: int, room_end: int) -> int:
    """Decompress the frame ``[start, end)`` to ``begin``: the position after it, or -1 to leave it to the caller."""
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


@kernel(INT64(INT64, BYTES_IN, TABLE, INT64, BYTES_OUT, INT64S))
def unpack_lz4(lz4_at: int, records: Bytes, run: Table, first: int, scratch: Bytes, used: Int64s) -> int:
    """Decompress members of a run, one behind the other, up to the first that is left to the caller.

    Args:
        lz4_at: the address of liblz4's function; with ``NOWHERE`` all that is compressed is left.
        records: the response's bytes, read-only.
        run: in and out, columns as in :class:`directkafka.kafka.record_columns.Member`. Members that are not
            compressed are passed over.
        first: the member to begin with.
        scratch: out; bytes behind what is decompressed may be overwritten too.
        used: in and out, how much of ``scratch`` is in use.

    Returns:
        The member that is left to the caller, or the run's end.
    """
    data, target = unwrapped(records), unwrapped(scratch)
    to = used[0]
    member = first
    while member < run.shape[0]:
        codec, start, end = run[member, 1], run[member, 2], run[member, 3]
        if codec != NO_COMPRESSION:
            after = _LEFT
            if codec == LZ4 and lz4_at != NOWHERE:
                after = _unpack_frame(lz4_at, data, start, end, target, to, scratch.shape[0])
            if after < 0:
                break
            run[member, 2], run[member, 3] = to, after
            to = after
        member += 1
    used[0] = to
    return member
