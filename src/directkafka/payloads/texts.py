"""Columns of texts or bytes, as kernels take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of texts as the kernel takes it.

    Attributes:
        data: the bytes of its buffer.
        ends: int64 positions in them, one more than texts.
        validity: address of its bitmap, or 0; ``first_bit``: the first text's number in it.
    """

    data: Any
    ends: Any
    validity: int
    first_bit: int

    @classmethod
    def of(cls, texts: pa.Array) -> Texts:
        """The buffers of an array of binary, in either layout."""
        validity, ends, data = texts.buffers()
        is_large = pa.types.is_large_binary(texts.type)
        if ends is None or not len(texts):
            return cls(np.empty(0, np.uint8), np.zeros(len(texts) + 1, np.int64), 0, 0)
        whole = np.frombuffer(ends, np.int64 if is_large else np.int32)
        return cls(
            np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8),
            np.ascontiguousarray(whole[texts.offset : texts.offset + len(texts) + 1], np.int64),
            validity.address if texts.null_count else 0,
            texts.offset,
        )


def plain(texts: pa.Array) -> pa.Array:
    """Texts or bytes in a layout that kernels read.

    Args:
        texts: binary or string, in whatever layout.
    """
    if pa.types.is_binary(texts.type) or pa.types.is_large_binary(texts.type):
        return texts
    return texts.cast(pa.large_binary())
