"""Arrow columns of a few Python values, and of none, made without pandas.

``pa.array`` and ``pa.scalar`` import pandas wherever it is installed, to see whether they were given an object of it.
In each process that costs a quarter second of a core and 40 MB; in Spark's Python workers, which collect garbage after
every task, 15 ms more with each task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

_BYTES_MAX: Final = 2**31 - 1
_NUMBERS: Final = {pa.int32(): np.int32, pa.int64(): np.int64}


def column_of(values: Sequence[Any] | np.ndarray[Any, Any], arrow_type: pa.DataType) -> pa.Array:
    """What ``pa.array(values, arrow_type)`` gives.

    Args:
        values: texts or bytes, or whole numbers, also as an array of numpy's; without None.
        arrow_type: string or binary; int32 or int64.

    Raises:
        pa.ArrowCapacityError: the texts are larger than a column can be, 2 GiB.
    """
    if number := _NUMBERS.get(arrow_type):
        buffers = [None, pa.py_buffer(np.ascontiguousarray(values, number))]
    else:
        parts = [value.encode() if isinstance(value, str) else value for value in values]
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        if ends[-1] > _BYTES_MAX:
            raise pa.ArrowCapacityError(f"a column holds {_BYTES_MAX} bytes at most, these are {ends[-1]}")
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(arrow_type, len(values), buffers, null_count=0)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows.

    Args:
        schema: of the batch.
    """
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
