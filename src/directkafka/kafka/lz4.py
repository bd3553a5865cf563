"""LZ4 frames as Java and librdkafka write them, decompressed by a compiled kernel: many small batches in one call.

To call a library from Python costs a third of what it takes to decompress a batch of 16 KB, and several times what a
batch of one record takes. Whatever is not simple is left to the library: other frames than the plain ones (independent
blocks, no checksums, no content size, no dictionary), bytes in which something is wrong, and too little room.

A block is a row of sequences::

    token: literals in bits 4..7, match length minus 4 in bits 0..3; 15 goes on in bytes, up to one that is not 255
    | literals | how far back the match begins, uint16 little-endian

The last sequence ends after its literals. A match may reach into what it writes itself. Where there is room, more
bytes than are needed are copied, 16 at a time: what lies behind is written later, or not looked at.

Sources: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md, lz4_Frame_format.md beside it.
"""

# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments
from __future__ import annotations

from typing import Any

import numpy as np

from directkafka.kafka.kernel import BYTES_IN, BYTES_OUT, INT64, INT64S, TABLE, copy, helper, kernel, unwrapped, wide

__all__ = ["LZ4", "NO_COMPRESSION", "unpack_lz4"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Codec ids of batches.
NO_COMPRESSION = 0
LZ4 = 3

#: What copies at once may read and write beyond what is asked for.
_CHUNK = 16
_HALF = 8
_MATCH_SIZE_MIN = 4
#: A length in a token that goes on in the bytes behind it.
_GOES_ON = 15
_FRAME_HEADER_SIZE = 7
_BLOCK_LENGTH_SIZE = 4
_STORED = 1 << 31
_LEFT_TO_LIBRARY = -1


@helper
def _uint32(data: Any, at: int) -> int:
    return wide(data[at]) | wide(data[at + 1]) << 8 | wide(data[at + 2]) << 16 | wide(data[at + 3]) << 24


@helper
def _length(data: Any, at: int, end: int, in_token: int) -> tuple[int, int]:
    """A length that begins in a token, and the position after it; -1 where the bytes end before it does."""
    length = in_token
    if length != _GOES_ON:
        return length, at
    while at < end:
        more = wide(data[at])
        at += 1
        length += more
        if more != 255:
            return length, at
    return length, -1


@helper
def _repeat(target: Any, at: int, back: int, length: int, room_end: int) -> None:
    """Append bytes that begin ``back`` before, as if one by one: they may overlap what is appended."""
    done, step = 0, back
    if at + length + _CHUNK > room_end:
        step = 1
    elif back < _HALF:
        # Once eight bytes are there, what is repeated is so too at a multiple of the distance.
        for i in range(at, at + _HALF):
            target[i] = target[i - back]
        done, step = _HALF, (_HALF + back - 1) // back * back
    if step >= _CHUNK:
        while done < length:
            copy(target, at + done, target, at + done - step, _CHUNK)
            done += _CHUNK
    elif step >= _HALF:
        while done < length:
            copy(target, at + done, target, at + done - step, _HALF)
            done += _HALF
    else:
        while done < length:
            target[at + done] = target[at + done - back]
            done += 1


@helper
def _unpack_short(data: Any, start: int, end: int, target: Any, begin: int, to: int, room_end: int) -> tuple[int, int]:
    """Sequences whose lengths are in the token, far from both ends, as long as they follow each other.

    Returns:
        The position of the first other sequence, and of what comes before it decompressed.
    """
    at = start
    end_limit, room_limit = end - 2 * _CHUNK, room_end - 3 * _CHUNK
    while at <= end_limit and to <= room_limit:
        token = wide(data[at])
        literals, length = token >> 4, token & 15
        match_at = to + literals
        back_at = at + 1 + literals
        if _GOES_ON in (literals, length):
            break
        copy(target, to, data, at + 1, _CHUNK)
        back = wide(data[back_at]) | wide(data[back_at + 1]) << 8
        if back < _HALF or back > match_at - begin:
            break
        copy(target, match_at, target, match_at - back, _HALF)
        copy(target, match_at + _HALF, target, match_at + _HALF - back, _HALF)
        copy(target, match_at + _CHUNK, target, match_at + _CHUNK - back, 2)
        to = match_at + length + _MATCH_SIZE_MIN
        at = back_at + 2
    return at, to


@helper
def _unpack_block(data: Any, start: int, end: int, target: Any, begin: int, room_end: int) -> int:
    """Decompress the block ``[start, end)`` to ``begin``: the position after it, or -1 when it is none or too large."""
    at, to = start, begin
    while at < end:
        at, to = _unpack_short(data, at, end, target, begin, to, room_end)
        token = wide(data[at])
        length, at = _length(data, at + 1, end, token >> 4)
        if at < 0 or length > end - at or length > room_end - to:
            return _LEFT_TO_LIBRARY
        copy(target, to, data, at, length)
        at += length
        to += length
        if at + 1 >= end:
            return to if at == end else _LEFT_TO_LIBRARY
        back = wide(data[at]) | wide(data[at + 1]) << 8
        length, at = _length(data, at + 2, end, token & 15)
        length += _MATCH_SIZE_MIN
        if at < 0 or not 0 < back <= to - begin or length > room_end - to:
            return _LEFT_TO_LIBRARY
        _repeat(target, to, back, length, room_end)
        to += length
    return _LEFT_TO_LIBRARY


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
def _unpack_frame(data: Any, start: int, end: int, target: Any, begin: int, room_end: int) -> int:
    """Decompress the frame ``[start, end)`` to ``begin``: the position after it, or -1 to leave it to the library."""
    block_size_max = _block_size_max(data, start, end)
    at, to = start + _FRAME_HEADER_SIZE, begin
    while block_size_max > 0 and end - at >= _BLOCK_LENGTH_SIZE:
        length = _uint32(data, at)
        at += _BLOCK_LENGTH_SIZE
        if length == 0:
            return to if at == end else _LEFT_TO_LIBRARY
        size = length & ~_STORED
        block_end = min(room_end, to + block_size_max)
        if size > end - at or size > block_size_max:
            break
        if length & _STORED:
            if size > room_end - to:
                break
            to = copy(target, to, data, at, size)
        else:
            to = _unpack_block(data, at, at + size, target, to, block_end)
            if to < 0:
                break
        at += size
    return _LEFT_TO_LIBRARY


@kernel(INT64(BYTES_IN, TABLE, INT64, BYTES_OUT, INT64S))
def unpack_lz4(records: Bytes, run: Table, first: int, scratch: Bytes, used: Int64s) -> int:
    """Decompress members of a run, one behind the other, up to the first that is left to the library.

    Args:
        records: the response's bytes, read-only.
        run: in and out, columns as in :class:`directkafka.kafka.record_columns.Member`. Members that are not
            compressed are passed over.
        first: the member to begin with.
        scratch: out; bytes behind ``used`` may be overwritten beyond what is decompressed.
        used: in and out, how much of ``scratch`` is in use.

    Returns:
        The member that is left to the library, or the run's end.
    """
    data, target = unwrapped(records), unwrapped(scratch)
    to = used[0]
    member = first
    while member < run.shape[0]:
        codec, start, end = run[member, 1], run[member, 2], run[member, 3]
        if codec != NO_COMPRESSION:
            after = _unpack_frame(data, start, end, target, to, scratch.shape[0]) if codec == LZ4 else _LEFT_TO_LIBRARY
            if after < 0:
                break
            run[member, 2], run[member, 3] = to, after
            to = after
        member += 1
    used[0] = to
    return member
