"""The decoder of binary records: columns of bytes to columns of a schema's fields, by a kernel and its table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from directkafka.payloads.columns import Columns
from directkafka.payloads.kernels import nodes
from directkafka.payloads.texts import Texts, plain


class Table(NamedTuple):
    """What the kernel does with records.

    Attributes:
        numbers: int64, programs of all schemas that records were written with.
        constants: uint8, bytes that these refer to.
    """

    numbers: Any
    constants: Any


class RecordDecoder:
    """Decodes records into columns of one schema, in one thread.

    Args:
        type: of the column.
        kernel: reads records.
        frames: int64, room that the kernel needs.
        problem_fields: numbers that it tells of a record that cannot be read; the first is the record's.
    """

    def __init__(self, type: pa.DataType, kernel: Callable[..., int], *, frames: int, problem_fields: int) -> None:
        self.type = type
        self._columns = Columns(type)
        self._kernel = kernel
        self._frames = np.zeros(frames, np.int64)
        self._problem_fields = problem_fields
        #: Where the table has the program of records that name no schema.
        self._first = 0
        #: Of the last column: what is wrong with a record, by its number.
        self.problems: dict[int, str] = {}

    @abstractmethod
    def _table(self) -> Table:
        """What the kernel does now."""

    @abstractmethod
    def _reason(self, *problem: int) -> str:
        """What the kernel tells of a record, in words."""

    @property
    def _behind(self) -> list[int]:
        """Of each node of the columns, the first that is not below it."""
        next_nodes: list[int] = self._columns.nodes[:, nodes.NEXT].tolist()
        return next_nodes

    def decode(self, texts: pa.Array) -> pa.Array:
        """Decode a column.

        Args:
            texts: binary.

        Returns:
            A row for each record; null for a null.
        """
        texts = plain(texts)
        records = Texts.of(texts)
        programs = np.full(len(texts), self._first, np.int64)
        if texts.null_count:
            programs[texts.is_null().to_numpy(zero_copy_only=False)] = nodes.IS_NULL
        return self.read(records, records.ends[:-1].copy(), programs)

    def read(self, texts: Texts, starts: Any, programs: Any) -> pa.Array:
        """Decode records that may have something in front, each by a program of its own.

        Args:
            texts: the column.
            starts: int64 positions of the records' first bytes.
            programs: int64, of each record where the table has its program, or
                :data:`~directkafka.payloads.kernels.nodes.IS_NULL` or ``IS_UNKNOWN``.
        """
        rows, fields, table = len(programs), self._problem_fields, self._table()
        self._columns.make_room(rows, int(texts.ends[-1] - texts.ends[0]))
        problems = np.zeros(rows * fields + 1, np.int64)
        ends, first = np.ascontiguousarray(texts.ends[1:]), 0
        while first < rows:
            first = self._kernel(
                texts.data.ctypes.data, starts, ends, programs, first, rows, table.numbers,
                table.constants.ctypes.data, self._columns.nodes.reshape(-1), self._frames, problems,
            )  # fmt: skip
            if first < rows:
                self._columns.grow(int(self._frames[0]))
        told = problems[: int(problems[-1]) * fields].reshape(-1, fields).tolist()
        self.problems = {number: self._reason(*problem) for number, *problem in told}
        return self._columns.array(rows)
