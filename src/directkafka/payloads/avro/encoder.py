"""The encoder of Avro's binary encoding: columns of a schema's fields to columns of bytes, row by row."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.options.schemas.avro import AvroSchema
from directkafka.payloads.avro.encoding import EncodingProgram
from directkafka.payloads.avro.kernels import write_records as op

_REASONS: Final = {
    op.IS_NULL: "is null, and the schema has no null there",
    op.TOO_LARGE: "does not fit its type",
    op.OTHER_LENGTH: "has another length than its type",
    op.NO_SYMBOL: "is none of the enum's symbols",
    op.NO_ALTERNATIVE: "has not one alternative of the union, but none or several",
}
_BYTES_MIN: Final = 1 << 16
_BYTES_MAX: Final = (1 << 31) - 1


class AvroEncoder:
    """Encodes rows of one Arrow type, in one thread.

    Args:
        schema: what they are written by.
        type: of the rows.
        prefix: stands before each record.

    Raises:
        ValueError: the schema has no room for the type.
    """

    def __init__(self, schema: AvroSchema, type: pa.DataType, *, prefix: bytes = b"") -> None:
        self._program = EncodingProgram(schema, type)
        self._prefix = np.frombuffer(prefix or b"\0", np.uint8)
        self._prefix_length = len(prefix)
        self._scopes = np.zeros(2 * op.SCOPES_MAX, np.int64)
        self._bytes_of_row = 64

    def encode(self, rows: pa.Array) -> pa.Array:
        """Encode a column.

        Returns:
            Binary: a record for each row; null for a null.

        Raises:
            ValueError: a value has no encoding; the message names the row, from 0, and the field.
        """
        try:
            columns, kept = self._program.table(rows)
        except pa.ArrowInvalid as error:
            raise ValueError(str(error)) from error
        ends = np.zeros(len(rows) + 1, np.int64)
        out = np.empty(max(_BYTES_MIN, len(rows) * self._bytes_of_row), np.uint8)
        result = np.zeros(op.RESULT_FIELDS, np.int64)
        row = self._write(columns, 0, out, ends, result)
        while row < len(rows):
            if result[op.PROBLEM] != op.NOT_FOUND:
                path, reason = self._program.path(int(result[op.INSTRUCTION])), _REASONS[int(result[op.PROBLEM])]
                raise ValueError(f"row {row}: {path or 'the record'} {reason}")
            grown = np.empty(2 * len(out), np.uint8)
            grown[: ends[row]] = out[: ends[row]]
            out = grown
            row = self._write(columns, row, out, ends, result)
        del kept
        if ends[-1] > _BYTES_MAX:
            raise ValueError(f"the records of {len(rows)} rows have more than 2 GiB together")
        self._bytes_of_row = max(self._bytes_of_row, int(ends[-1]) // max(1, len(rows)) + 1)
        data = [_bitmap(rows), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out[: ends[-1]])]
        return pa.Array.from_buffers(pa.binary(), len(rows), data)

    def _write(self, columns: Any, row: int, out: Any, ends: Any, result: Any) -> int:
        found: int = op.write_records(
            self._prefix.ctypes.data, self._program.lines, columns, self._prefix_length, row, len(ends) - 1,
            out.ctypes.data, len(out), ends, self._scopes, result,
        )  # fmt: skip
        return found


def _bitmap(rows: pa.Array) -> pa.Buffer | None:
    if not rows.null_count:
        return None
    return pa.array(rows.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
