"""Columns of records that a kernel writes into a buffer which grows as it has to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

_BYTES_MIN: Final = 1 << 16
#: A buffer begins with no more, whatever the rows before had.
_FIRST_BYTES_MAX: Final = 1 << 26
_BYTES_MAX: Final = (1 << 31) - 1

#: Writes from a row on into a buffer, behind the ends of the rows before it; the row to go on with, if there was no
#: room for it.
Write = Callable[[int, Any, Any], int]


class TooManyBytesError(ValueError):
    """The records of some rows have more than 2 GiB together; fewer rows may have less."""


class RecordSizes:
    """What is known of the rows that were written: how many bytes one takes."""

    def __init__(self) -> None:
        self.bytes_of_row = 64


def written(rows: pa.Array, write: Write, known: RecordSizes) -> pa.Array:
    """A column of records.

    Args:
        rows: what is written; a null one is a null.
        write: the kernel; may raise.
        known: of earlier rows.

    Raises:
        TooManyBytesError: there are too many rows.
    """
    ends = np.zeros(len(rows) + 1, np.int64)
    out = np.empty(min(max(_BYTES_MIN, len(rows) * known.bytes_of_row), _FIRST_BYTES_MAX), np.uint8)
    row = write(0, out, ends)
    while row < len(rows):
        if len(out) > _BYTES_MAX:
            raise TooManyBytesError(f"the records of {len(rows)} rows have more than 2 GiB together")
        grown = np.empty(2 * len(out), np.uint8)
        grown[: ends[row]] = out[: ends[row]]
        out = grown
        row = write(row, out, ends)
    if ends[row] > _BYTES_MAX:
        raise TooManyBytesError(f"the records of {len(rows)} rows have more than 2 GiB together")
    known.bytes_of_row = int(ends[-1]) // max(1, len(rows)) + 1
    data = [_bitmap(rows), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out[: ends[-1]])]
    return pa.Array.from_buffers(pa.binary(), len(rows), data)


def _bitmap(rows: pa.Array) -> pa.Buffer | None:
    if not rows.null_count:
        return None
    return pa.array(rows.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
