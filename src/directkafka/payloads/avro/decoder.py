"""The decoder of Avro's binary encoding: columns of bytes to columns of a schema's fields, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.options.schemas.avro import AvroSchema
from directkafka.options.schemas.avro_types import spark_type
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.avro import program as op
from directkafka.payloads.avro.kernels import numbers
from directkafka.payloads.avro.kernels.read_records import (
    BEHIND_THE_END,
    DEPTH_MAX,
    EMPTY_ELEMENTS_MAX,
    FRAME_FIELDS,
    PROBLEM_FIELDS,
    read_records,
)
from directkafka.payloads.avro.program import Program
from directkafka.payloads.avro.resolution import resolve
from directkafka.payloads.columns import Columns
from directkafka.payloads.kernels import nodes, values
from directkafka.payloads.texts import Texts, plain

_REASONS: Final = {
    values.CUT_OFF: "the record ends in the middle of it",
    numbers.TOO_LARGE: "the number is too large",
    numbers.NEGATIVE: "a length is negative",
    values.NO_UTF8: "the text is no UTF-8",
    numbers.NO_ALTERNATIVE: "the union has no alternative of this number",
    numbers.NO_SYMBOL: "the enum has no symbol of this number that the reader knows",
    numbers.TOO_MANY: f"more elements than the record has bytes, or than {EMPTY_ELEMENTS_MAX} of no bytes",
    numbers.TOO_DEEP: f"more than {DEPTH_MAX} values in one another",
    numbers.NO_BOOLEAN: "neither 0 nor 1",
    numbers.TOO_MANY_DIGITS: "the decimal has more digits than its type",
    values.FULL: "a column of one batch would have more than 2 GiB, or 2 thousand million elements",
}


class Programs:
    """The programs that read records of several writers into one reader's columns, as the kernel takes them.

    Args:
        reader: the schema of the columns.
        behind: of each node of the columns, the first that is not below it.
    """

    def __init__(self, reader: AvroSchema, behind: Sequence[int]) -> None:
        self._reader, self._behind = reader, behind
        self._programs: list[tuple[int, Program]] = []
        self.lines = np.zeros(0, np.int64)
        self.constants = np.zeros(1, np.uint8)

    def add(self, writer: AvroSchema) -> int:
        """Make the program for a writer's schema; its first instruction.

        Raises:
            ValueError: the schemas do not resolve.
        """
        program = resolve(writer, self._reader, self._behind)
        first = len(self.lines) // op.FIELDS
        lines, constants = program.placed(first, len(self.constants))
        self._programs.append((first, program))
        self.lines = np.concatenate([self.lines, lines])
        self.constants = np.concatenate([self.constants, np.frombuffer(constants, np.uint8)])
        return first

    def reason(self, problem: int, instruction: int, place: int) -> str:
        """What the kernel tells of a record, in words."""
        first, program = next(pair for pair in reversed(self._programs) if pair[0] <= instruction)
        if problem == BEHIND_THE_END:
            return f"the record goes on behind its end, at byte {place}: it was written with another schema"
        path = program.path(instruction - first).removeprefix(".")
        if problem == numbers.REFUSED:
            return program.reasons[int(self.lines[instruction * op.FIELDS + op.FIRST])]
        return f"{path}: {_REASONS[problem]}" if path else _REASONS[problem]


class AvroDecoder:
    """Decodes records into columns of one schema, in one thread.

    Args:
        reader: the schema of the columns.
        writer: the schema that records were written with; None: that of the columns.

    Raises:
        ValueError: the schemas do not resolve, or the reader's is for no column.
    """

    def __init__(self, reader: AvroSchema, writer: AvroSchema | None = None) -> None:
        self.type = arrow_type(spark_type(reader))
        self._columns = Columns(self.type)
        self.programs = Programs(reader, self._columns.nodes[:, nodes.NEXT].tolist())
        self._first = self.programs.add(writer or reader)
        self._frames = np.zeros(DEPTH_MAX * FRAME_FIELDS, np.int64)
        #: Of the last column: what is wrong with a record, by its number.
        self.problems: dict[int, str] = {}

    def decode(self, texts: pa.Array) -> pa.Array:
        """Decode a column.

        Args:
            texts: binary.

        Returns:
            A row for each record; null for a null.
        """
        texts = plain(texts)
        found = Texts.of(texts)
        programs = np.full(len(texts), self._first, np.int64)
        if texts.null_count:
            programs[texts.is_null().to_numpy(zero_copy_only=False)] = nodes.IS_NULL
        return self.read(found, found.ends[:-1].copy(), programs)

    def read(self, texts: Texts, starts: Any, programs: Any) -> pa.Array:
        """Decode records that have something in front, each by a program of its own.

        Args:
            texts: the column.
            starts: int64 positions of the records' first bytes.
            programs: int64, as the kernel takes them.
        """
        rows = len(programs)
        self._columns.make_room(rows, int(texts.ends[-1] - texts.ends[0]))
        problems = np.zeros(rows * PROBLEM_FIELDS + 1, np.int64)
        ends, first = np.ascontiguousarray(texts.ends[1:]), 0
        while first < rows:
            first = read_records(
                texts.data.ctypes.data, starts, ends, programs, first, rows, self.programs.lines,
                self.programs.constants.ctypes.data, self._columns.nodes.reshape(-1), self._frames, problems,
            )  # fmt: skip
            if first < rows:
                self._columns.grow(int(self._frames[0]))
        told = problems[: int(problems[-1]) * PROBLEM_FIELDS].reshape(-1, PROBLEM_FIELDS).tolist()
        self.problems = {number: self.programs.reason(*rest) for number, *rest in told}
        return self._columns.array(rows)
