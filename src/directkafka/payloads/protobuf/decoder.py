"""The decoder of Protocol Buffers' binary encoding: columns of bytes to columns of a message's fields, row by row."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.options.schemas.protobuf.schema import ProtobufMessage, ProtobufSchema
from directkafka.options.schemas.protobuf.spark_types import DEPTH_MAX, spark_type
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.columns import Columns
from directkafka.payloads.kernels import nodes, values
from directkafka.payloads.protobuf.kernels import wire
from directkafka.payloads.protobuf.kernels.read_records import (
    FRAME_FIELDS,
    PROBLEM_FIELDS,
    STARTS_MAX,
    TOO_MANY,
    read_records,
)
from directkafka.payloads.protobuf.program import Program
from directkafka.payloads.texts import Texts, plain

_REASONS: Final = {
    values.CUT_OFF: "the record ends in the middle of it",
    values.NO_UTF8: "the text is no UTF-8",
    values.FULL: "a column of one batch would have more than 2 GiB, or 2 thousand million elements",
    wire.TOO_LARGE: "the number is too large",
    wire.NO_NUMBER: "what follows is no field",
    wire.WRONG_TYPE: "the record has a value of another type there: it was written with another schema",
    wire.NO_GROUP: "a group ends that has not begun",
    wire.TOO_DEEP: "too many groups in one another",
    TOO_MANY: f"the record begins more than {STARTS_MAX} values, most of them empty",
    wire.NO_TIME: "a timestamp has 0 to 999999999 nanoseconds",
}


class ProtobufDecoder:
    """Decodes records into columns of one schema, in one thread.

    Args:
        schema: whose message the columns are of.

    Raises:
        ValueError: no column is for it.
    """

    def __init__(self, schema: ProtobufSchema) -> None:
        self.type = arrow_type(spark_type(schema))
        self._columns = Columns(self.type)
        self._program = Program(self._columns.nodes[:, nodes.NEXT].tolist())
        #: Where the kernel's table has the message, by schema.
        self._roots: dict[tuple[ProtobufMessage, ...], int] = {}
        self._root = self.root_of(schema)
        # A map's entry is a message in another one, too.
        self._frames = np.zeros(1 + 2 * DEPTH_MAX * FRAME_FIELDS + wire.GROUPS_MAX, np.int64)
        #: Of the last column: what is wrong with a record, by its number.
        self.problems: dict[int, str] = {}

    def root_of(self, schema: ProtobufSchema) -> int:
        """What reads records of a schema, for :meth:`read`.

        Args:
            schema: of the columns; whether a field tells that it is absent may differ.
        """
        key = tuple(schema.messages.values())
        if key not in self._roots:
            self._roots[key] = self._program.add(schema)
        return self._roots[key]

    def decode(self, texts: pa.Array) -> pa.Array:
        """Decode a column.

        Args:
            texts: binary.

        Returns:
            A row for each record; null for a null.
        """
        texts = plain(texts)
        found = Texts.of(texts)
        programs = np.full(len(texts), self._root, np.int64)
        if texts.null_count:
            programs[texts.is_null().to_numpy(zero_copy_only=False)] = nodes.IS_NULL
        return self.read(found, found.ends[:-1].copy(), programs)

    def read(self, texts: Texts, starts: Any, programs: Any) -> pa.Array:
        """Decode records that may have something in front.

        Args:
            texts: the column.
            starts: int64 positions of the records' first bytes.
            programs: int64, of each record what :meth:`root_of` says, or what the kernel takes in its place.
        """
        rows = len(programs)
        self._columns.make_room(rows, int(texts.ends[-1] - texts.ends[0]))
        problems = np.zeros(rows * PROBLEM_FIELDS + 1, np.int64)
        ends, first = np.ascontiguousarray(texts.ends[1:]), 0
        while first < rows:
            first = read_records(
                texts.data.ctypes.data, starts, ends, programs, first, rows, self._program.table,
                self._program.constants.ctypes.data, self._columns.nodes.reshape(-1), self._frames, problems,
            )  # fmt: skip
            if first < rows:
                self._columns.grow(int(self._frames[0]))
        told = problems[: int(problems[-1]) * PROBLEM_FIELDS].reshape(-1, PROBLEM_FIELDS).tolist()
        self.problems = {number: self._reason(problem, line) for number, problem, line in told}
        return self._columns.array(rows)

    def _reason(self, problem: int, line: int) -> str:
        path = self._program.paths.get(line, "")
        return f"{path}: {_REASONS[problem]}" if path else _REASONS[problem]
