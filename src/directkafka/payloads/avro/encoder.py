"""The encoder of Avro's binary encoding: columns of a schema's fields to columns of bytes, row by row."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.options.schemas.avro import AvroSchema
from directkafka.payloads.avro.encoding import EncodingProgram
from directkafka.payloads.avro.kernels import write_records as op
from directkafka.payloads.kernels.written import RecordSizes, written

_REASONS: Final = {
    op.IS_NULL: "is null, and the schema has no null there",
    op.TOO_LARGE: "does not fit its type",
    op.OTHER_LENGTH: "has another length than its type",
    op.NO_SYMBOL: "is none of the enum's symbols",
    op.NO_UTF8: "is a text that is no UTF-8",
    op.NO_ALTERNATIVE: "has not one alternative of the union, but none or several",
}


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
        self._sizes = RecordSizes()

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
        result = np.zeros(op.RESULT_FIELDS, np.int64)

        def write(row: int, out: Any, ends: Any) -> int:
            next_row: int = op.write_records(
                self._prefix.ctypes.data, self._program.lines, columns, self._prefix_length, row, len(rows),
                out.ctypes.data, len(out), ends, self._scopes, result,
            )  # fmt: skip
            if result[op.PROBLEM] != op.NOT_FOUND:
                path, reason = self._program.path(int(result[op.INSTRUCTION])), _REASONS[int(result[op.PROBLEM])]
                raise ValueError(f"row {next_row}: {path or 'the record'} {reason}")
            return next_row

        made = written(rows, write, self._sizes)
        del kept
        return made
