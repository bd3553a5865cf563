"""The decoder of Avro's binary encoding: columns of bytes to columns of a schema's fields, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

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
from directkafka.payloads.kernels import values
from directkafka.payloads.record_decoder import RecordDecoder, Table

_REASONS: Final = {
    values.CUT_OFF: "the record ends in the middle of it",
    values.TOO_LARGE: "the number is too large",
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

    def reason(self, problem: int, instruction: int, position: int) -> str:
        """What the kernel tells of a record, in words."""
        first, program = next(pair for pair in reversed(self._programs) if pair[0] <= instruction)
        if problem == BEHIND_THE_END:
            return f"bytes are left from byte {position} on: the record was written with another schema"
        path = program.path(instruction - first).removeprefix(".")
        if problem == numbers.REFUSED:
            return program.reasons[int(self.lines[instruction * op.FIELDS + op.FIRST])]
        return f"{path}: {_REASONS[problem]}" if path else _REASONS[problem]


class AvroDecoder(RecordDecoder):
    """Decodes records into columns of one schema, in one thread.

    Args:
        reader: the schema of the columns.
        writer: the schema that records were written with; None: that of the columns.

    Raises:
        ValueError: the schemas do not resolve, or the reader's is for no column.
    """

    def __init__(self, reader: AvroSchema, writer: AvroSchema | None = None) -> None:
        room = DEPTH_MAX * FRAME_FIELDS
        super().__init__(arrow_type(spark_type(reader)), read_records, frames=room, problem_fields=PROBLEM_FIELDS)
        self.programs = Programs(reader, self._behind)
        self._first = self.programs.add(writer or reader)

    def _table(self) -> Table:
        return Table(self.programs.lines, self.programs.constants)

    def _reason(self, *problem: int) -> str:
        return self.programs.reason(*problem)
