"""LZ4 frames as Java and librdkafka write them, taken apart inside kernels; liblz4 decompresses the blocks.

Whatever is not simple is left to the caller: other frames than the plain ones (independent blocks, no checksums, no
content size, no dictionary), bytes in which something is wrong, and too little room.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
"""

# ruff: noqa: PLR0917 - what compiled helpers hand on stays in registers only as single arguments
from __future__ import annotations

from typing import Any

from directkafka.kafka.kernels.c_functions import lz4_block
from directkafka.kafka.kernels.compile import copy, helper, wide

__all__ = ["unpack_lz4_frame"]

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
