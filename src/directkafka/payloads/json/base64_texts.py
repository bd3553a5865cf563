"""Columns of bytes as base64 (RFC 4648, with padding), without a Python object per value."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def base64_texts(array: pa.Array) -> pa.Array:
    """The base64 of each value; null where it is null.

    Args:
        array: bytes, in whatever layout.

    Raises:
        pyarrow.ArrowInvalid: the texts have more than 2 GiB together.
    """
    values = array.cast(pa.large_binary())
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    # Each value is filled up with zeros to whole groups of three bytes; then all of them can be encoded at once.
    groups = -(-lengths // 3)
    ends = np.concatenate(([0], np.cumsum(groups)))
    filled = np.zeros(3 * ends[-1], np.uint8)
    filled[np.arange(len(data)) + np.repeat(3 * ends[:-1] - (offsets[:-1] - offsets[0]), lengths)] = data
    texts = np.frombuffer(bytearray(base64.b64encode(filled.data)), np.uint8)
    missing, last = 3 * groups - lengths, 4 * ends[1:]
    texts[last[missing > 0] - 1] = ord("=")
    texts[last[missing > 1] - 2] = ord("=")
    buffers = [None, pa.py_buffer(4 * ends), pa.py_buffer(texts)]
    found = pa.Array.from_buffers(pa.large_string(), len(values), buffers).cast(pa.string())
    return found if array.null_count == 0 else pc.if_else(pc.is_valid(array), found, pa.scalar(None, pa.string()))
