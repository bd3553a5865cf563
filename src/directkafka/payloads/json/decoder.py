"""The decoder of JSON texts: columns of binary texts to columns of declared fields, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.kafka.kernels.addresses import SCANNED
from directkafka.payloads.columns import Columns
from directkafka.payloads.json import times
from directkafka.payloads.json.kernels.read_texts import MISFIT_FIELDS, read_texts
from directkafka.payloads.json.kernels.scopes import DEPTH_MAX, SCOPE_FIELDS
from directkafka.payloads.json.values import JsonReader
from directkafka.payloads.texts import Texts, plain

#: Where the kernel names the node that has no room.
_NODE_OF_ROOM: Final = 0


class JsonDecoder:
    """Decodes texts of one schema, in one thread.

    Args:
        schema: the declared fields, as the Arrow types that PySpark has for Spark's.
        time_zone: of timestamps that name none.
        explains: whether ``problems`` is wanted; else it is empty.
    """

    def __init__(self, schema: pa.StructType, time_zone: str = "UTC", *, explains: bool = True) -> None:
        self.schema = schema
        self._columns = Columns(schema)
        self._reader = JsonReader(schema, time_zone)
        self._offset_us = times.fixed_offset_us(time_zone)
        self._scopes = np.zeros(DEPTH_MAX * SCOPE_FIELDS, np.int64)
        self._stamps = np.zeros(len(self._columns.nodes) + 1, np.int64)
        self._explains = explains
        #: Of the last column: what is wrong with a text, by its number; and how many texts the kernel left.
        self.problems: dict[int, str] = {}
        self.left_count = 0

    def decode(self, texts: pa.Array) -> pa.StructArray:
        """Decode a column.

        Args:
            texts: binary or string.

        Returns:
            A row for each text; null for a null and for a blank text.
        """
        self.problems = {}
        array, left, misfits = self._by_kernel(plain(texts))
        self.left_count = len(left)
        if self._explains:
            self.problems.update(self._misfits(texts, misfits))
        return self._completed(array, texts, left) if len(left) else array

    def _by_kernel(self, texts: pa.Array) -> tuple[pa.StructArray, Any, Any]:
        column = Texts.of(texts)
        rows, ends = len(texts), column.ends
        self._columns.make_room(rows, int(ends[-1] - ends[0]))
        left, misfits = np.zeros(rows + 1, np.int64), np.zeros(rows * MISFIT_FIELDS + 1, np.int64)
        # Texts behind which less than the kernel's 16 bytes can be read are read from a copy.
        whole = int(np.searchsorted(ends[1:], len(column.data) - SCANNED, side="right"))
        if whole:
            self._run(column, column.data.ctypes.data, range(whole), left, misfits)
        if whole < rows:
            start, end = int(ends[whole]), int(ends[-1])
            rest = np.zeros(end - start + SCANNED, np.uint8)
            rest[: end - start] = column.data[start:end]
            self._run(column, rest.ctypes.data - start, range(whole, rows), left, misfits)
        return self._columns.array(rows), left[: left[-1]], misfits[: misfits[-1] * MISFIT_FIELDS]

    def _run(self, column: Texts, data: int, texts: range, left: Any, misfits: Any) -> None:
        """Read some texts, whose bytes are at an address, with as much room as they need."""
        columns, first = self._columns, texts.start
        while first < texts.stop:
            first = read_texts(
                data, column.ends.ctypes.data, column.validity, column.first_bit, first, texts.stop,
                columns.nodes.reshape(-1), self._scopes, self._stamps, self._offset_us, left,
                misfits,
            )  # fmt: skip
            if first < texts.stop:
                columns.grow(int(self._scopes[_NODE_OF_ROOM]))

    def _misfits(self, texts: pa.Array, misfits: Any) -> Iterator[tuple[int, str]]:
        """What is wrong with texts that the kernel has read, for values of another type than their field's."""
        for number, node, position in misfits.reshape(-1, MISFIT_FIELDS).tolist():
            path = self._columns.path(node)
            value = memoryview(texts[number].as_buffer())[position:]
            yield number, ": ".join([*path, self._reader.mismatch(path, value)])

    def _completed(self, array: pa.StructArray, texts: pa.Array, left: Any) -> pa.StructArray:
        """The array with the rows that the kernel left."""
        numbers = left.tolist()
        rows = []
        for number in numbers:
            row, problem = self._reader.read(texts[number].as_buffer().to_pybytes())
            rows.append(row)
            if problem and self._explains:
                self.problems[number] = problem
        places = np.arange(len(array))
        places[left] = len(array) + np.arange(len(left))
        return pa.concat_arrays([array, pa.array(rows, self.schema)]).take(pa.array(places))
