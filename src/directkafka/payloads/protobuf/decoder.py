"""The decoder of Protocol Buffers' binary encoding: columns of bytes to columns of a message's fields, row by row."""

from __future__ import annotations

from typing import Final

from directkafka.options.schemas.protobuf.schema import ProtobufMessage, ProtobufSchema
from directkafka.options.schemas.protobuf.spark_types import DEPTH_MAX, spark_type
from directkafka.payloads.arrow_types import arrow_type
from directkafka.payloads.kernels import values
from directkafka.payloads.protobuf.kernels import wire
from directkafka.payloads.protobuf.kernels.read_records import (
    FRAME_FIELDS,
    PROBLEM_FIELDS,
    STARTS_MAX,
    TOO_MANY,
    read_records,
)
from directkafka.payloads.protobuf.program import Program
from directkafka.payloads.record_decoder import RecordDecoder, Table

_REASONS: Final = {
    values.CUT_OFF: "the record ends in the middle of it",
    values.NO_UTF8: "the text is no UTF-8",
    values.FULL: "a column of one batch would have more than 2 GiB, or 2 thousand million elements",
    values.TOO_LARGE: "the number is too large",
    wire.NO_NUMBER: "what follows is no field",
    wire.WRONG_TYPE: "the record has a value of another type there: it was written with another schema",
    wire.NO_GROUP: "a group ends that has not begun",
    wire.TOO_DEEP: "too many groups in one another",
    TOO_MANY: f"the record begins more than {STARTS_MAX} values, most of them empty",
    wire.NO_TIME: "a timestamp has 0 to 999999999 nanoseconds",
}


class ProtobufDecoder(RecordDecoder):
    """Decodes records into columns of one schema, in one thread.

    Args:
        schema: whose message the columns are of.

    Raises:
        ValueError: no column is for it.
    """

    def __init__(self, schema: ProtobufSchema) -> None:
        # A map's entry is a message in another one, too.
        room = 1 + 2 * DEPTH_MAX * FRAME_FIELDS + wire.GROUPS_MAX
        super().__init__(arrow_type(spark_type(schema)), read_records, frames=room, problem_fields=PROBLEM_FIELDS)
        self._program = Program(self._behind)
        #: Where the kernel's table has the message, by schema.
        self._roots: dict[tuple[ProtobufMessage, ...], int] = {}
        self._first = self.root_of(schema)

    def root_of(self, schema: ProtobufSchema) -> int:
        """What reads records of a schema, for :meth:`read`.

        Args:
            schema: of the columns; whether a field tells that it is absent may differ.
        """
        key = tuple(schema.messages.values())
        if key not in self._roots:
            self._roots[key] = self._program.add(schema)
        return self._roots[key]

    def _table(self) -> Table:
        return Table(self._program.table, self._program.constants)

    def _reason(self, *problem: int) -> str:
        what, line = problem
        path = self._program.paths.get(line, "")
        return f"{path}: {_REASONS[what]}" if path else _REASONS[what]
