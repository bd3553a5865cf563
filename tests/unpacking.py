"""What the kernel that decompresses runs makes of one batch's records, and what the libraries make of them."""

from __future__ import annotations

import numpy as np

from directkafka.kafka.compression.decompress import CorruptDataError, RoomError, decompress_into
from directkafka.kafka.compression.lz4 import unpack
from directkafka.kafka.kernels.c_functions import Decompressors

__all__ = ["BY", "by_library", "unpacked"]

GUARD = 64


class _Owner:
    """Whose end would free what the functions work in."""


_owner = _Owner()
BY = Decompressors.of(_owner)


def unpacked(codec: int, data: bytes, room: int) -> bytes | None:
    """What the kernel decompresses into a target of this size; None when it leaves it to the library.

    The bytes lie between others, as in a response, and what lies behind the target must stay as it is.
    """
    whole = np.full(room + GUARD, 0xEE, np.uint8)
    records = np.frombuffer(b"\x11" * 3 + data + b"\x22" * 40, np.uint8)
    run, used = np.array([[0, codec, 3, 3 + len(data)]], np.int64), np.zeros(1, np.int64)
    target = np.frombuffer(memoryview(whole.data)[:room], np.uint8)
    left = unpack(BY, records, run, 0, target, used, np.zeros(2, np.int64))
    assert (whole[room:] == 0xEE).all()
    if left == 0:
        assert (used[0], run[0].tolist()) == (0, [0, codec, 3, 3 + len(data)])
        return None
    assert run[0].tolist() == [0, codec, 0, used[0]]
    return whole[: used[0]].tobytes()


def by_library(codec: int, data: bytes, room: int) -> bytes | None:
    """The same by the library that is there for all cases; None when it refuses."""
    target = np.zeros(room, np.uint8)
    try:
        return target[: decompress_into(codec, np.frombuffer(data, np.uint8), target)].tobytes()
    except (CorruptDataError, RoomError):
        return None
