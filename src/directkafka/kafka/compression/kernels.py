"""Decompression of a run of batches by one compiled call, for those that need nothing but a C function.

To call a library from Python costs a third of what it takes to decompress a batch of 16 KB, and several times what a
batch of one record takes. Whatever is not simple is left to :mod:`directkafka.kafka.compression.decompress`: snappy,
LZ4 frames of rare kinds, gzip of several members, bytes in which something is wrong, and too little room.
"""

# ruff: noqa: PLR0917 - a kernel takes its arrays as single arguments
from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from directkafka.kafka.compression.lz4 import unpack_lz4_frame
from directkafka.kafka.kernels.c_functions import NOWHERE, Decompressors, gzip_member, zstd_frames
from directkafka.kafka.kernels.compile import BYTES_IN, BYTES_OUT, INT64, INT64S, TABLE, helper, kernel, unwrapped

__all__ = ["GZIP", "LZ4", "NO_COMPRESSION", "SNAPPY", "ZSTD", "unpack"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[Any, np.dtype[np.int64]]

#: Codec ids of batches.
NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = range(5)

_LEFT = -1

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
        run: in and out, columns as in :class:`directkafka.kafka.records.record_columns.Member`. Members that are not
            compressed are passed over.
        first: the member to begin with.
        scratch: out; bytes behind what is decompressed may be overwritten too.
        used: in and out, how much of ``scratch`` is in use.
        sizes: two numbers, overwritten.

    Returns:
        The member that is left to the caller, or the run's end.
    """
    data, target, said = unwrapped(records), unwrapped(scratch), unwrapped(sizes)
    to = used[0]
    member = first
    while member < run.shape[0]:
        codec, start, end = run[member, 1], run[member, 2], run[member, 3]
        if codec != NO_COMPRESSION:
            after = _unpack_one(by, codec, data, start, end, target, to, scratch.shape[0], said)
            if after < 0:
                break
            run[member, 2], run[member, 3] = to, after
            to = after
        member += 1
    used[0] = to
    return member
