"""A column of texts before a page which nobody may read: a byte too far ends the process.

Between the texts and that page lie the 16 bytes that the kernel may read behind a text.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from directkafka.kafka.kernels.addresses import SCANNED

#: What may lie behind a text, of which nothing may be taken for a part of it.
FILLERS: Final = (bytes(16), b'"' * 16, b"1" * 16, b"\\" * 16, b"}" * 16, b'"abcdefghijklmno', b" " * 16, b"\xf0" * 16)


class GuardedTexts:
    """Such a column.

    Args:
        texts: of the column.
        filler: the 16 bytes behind the last one, or none: then the decoder reads a copy.
    """

    def __init__(self, texts: Sequence[bytes], filler: bytes) -> None:
        assert len(filler) in (0, SCANNED)
        data = b"".join([*texts, filler])
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
