"""A column of texts in memory that ends with a page which nobody may read: a byte too far ends the process."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Sequence

import pyarrow as pa


class GuardedTexts:
    """A column whose last text's last byte is the last one of its page.

    Args:
        texts: of the column.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        data = b"".join(texts)
        self._readable = max(1, -(-len(data) // mmap.PAGESIZE)) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, self._readable + mmap.PAGESIZE)
        start = self._readable - len(data)
        self._memory[start : self._readable] = data
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._protect(mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0)
        values = pa.foreign_buffer(self._address + start, len(data), base=self)
        ends = pa.array([0, *itertools.accumulate(map(len, texts))], pa.int32()).buffers()[1]
        self._column = pa.Array.from_buffers(pa.binary(), len(texts), [None, ends, values])

    def _protect(self, rights: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        behind = ctypes.c_void_p(self._address + self._readable)
        assert libc.mprotect(behind, ctypes.c_size_t(mmap.PAGESIZE), rights) == 0

    def __enter__(self) -> pa.Array:
        return self._column

    def __exit__(self, *_: object) -> None:
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        del self._column
