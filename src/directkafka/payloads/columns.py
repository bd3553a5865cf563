"""Columns of a declared schema that a kernel fills: their buffers, which grow, and the Arrow array of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from directkafka.kafka.kernels.addresses import SCANNED
from directkafka.payloads.kernels import nodes

_KINDS: Final = {
    pa.bool_(): nodes.BOOL,
    pa.int8(): nodes.INT8,
    pa.int16(): nodes.INT16,
    pa.int32(): nodes.INT32,
    pa.int64(): nodes.INT64,
    pa.float32(): nodes.FLOAT,
    pa.float64(): nodes.DOUBLE,
    pa.string(): nodes.STRING,
    pa.date32(): nodes.DATE,
    pa.binary(): nodes.BINARY,
}
_WIDTHS: Final = {
    nodes.INT8: 1,
    nodes.INT16: 2,
    nodes.INT32: 4,
    nodes.INT64: 8,
    nodes.FLOAT: 4,
    nodes.DOUBLE: 8,
    nodes.DATE: 4,
    nodes.TIMESTAMP: 8,
    nodes.LOCAL_TIMESTAMP: 8,
    nodes.DECIMAL: 16,
}
_WITH_BYTES: Final = (nodes.STRING, nodes.BINARY)
#: What has an int32 end for each row.
_WITH_ENDS: Final = (nodes.LIST, nodes.MAP, *_WITH_BYTES)
#: What the ends of texts and lists may be at most.
_END_MAX: Final = (1 << 31) - 1
_NAME_BYTES: Final = 16
_ROWS_FIRST: Final = 16


class Columns:
    """The columns of one schema, used for batch after batch; what an array takes of them is copied.

    Args:
        schema: the fields.

    Attributes:
        nodes: the table that the kernel reads.
    """

    def __init__(self, schema: pa.StructType) -> None:
        self._types: list[pa.DataType] = []
        self._names: list[bytes] = []
        self._behind: list[int] = []
        self._add(schema, "")
        count = len(self._types)
        self.nodes = np.zeros((count, nodes.NODE_FIELDS), np.int64)
        self._values: list[Any] = [None] * count
        self._ends: list[Any] = [None] * count
        self._validity: list[Any] = [None] * count
        self._padded_names = [np.frombuffer(name + b'"' + bytes(2 * _NAME_BYTES), np.uint8) for name in self._names]
        for node in range(count):
            self._describe(node)
        self._of_root = self._nodes_of_root()

    def make_room(self, rows: int, text_bytes: int) -> None:
        """Begin with a batch: nothing is null, and there is room for so many rows of the root.

        Args:
            rows: of the batch.
            text_bytes: of its texts.
        """
        for node in range(len(self._types)):
            # A batch without rows has room too, which later ones take over.
            wanted = max(1, rows) if self._of_root[node] else max(_ROWS_FIRST, int(self.nodes[node, nodes.ROWS_MAX]))
            if wanted > self.nodes[node, nodes.ROWS_MAX]:
                self._grow_rows(node, wanted)
            self._validity[node].fill(255)
            if self.nodes[node, nodes.KIND] in _WITH_BYTES and self.nodes[node, nodes.BYTES_MAX] == 0:
                self._grow_bytes(node, max(64, text_bytes // len(self._types)) + SCANNED)

    def grow(self, node: int) -> None:
        """Twice as much room: for a text column's bytes, or for the elements of a list or map.

        Raises:
            OverflowError: Arrow's ends cannot tell of more.
        """
        if max(self.nodes[node, nodes.BYTES_MAX], self.nodes[node, nodes.ROWS_MAX]) >= _END_MAX:
            raise OverflowError("a column of one batch has more than 2 GiB: decode it in parts")
        if self.nodes[node, nodes.KIND] in _WITH_BYTES:
            self._grow_bytes(node, min(_END_MAX, 2 * int(self.nodes[node, nodes.BYTES_MAX]) + SCANNED))
            return
        below = node + 1
        while below < self.nodes[node, nodes.NEXT]:
            self._grow_rows(below, min(_END_MAX, 2 * int(self.nodes[below, nodes.ROWS_MAX])))
            is_list = self.nodes[below, nodes.KIND] in (nodes.LIST, nodes.MAP)
            below = int(self.nodes[below, nodes.NEXT]) if is_list else below + 1

    def array(self, rows: int) -> pa.StructArray:
        """The first rows, as an array that has buffers of its own."""
        return self._array(0, rows)

    def path(self, node: int) -> tuple[str, ...]:
        """The names of the fields from the root's to a node's."""
        return tuple(self._names[above].decode() for above in range(1, node + 1) if node < self._behind[above])

    def _add(self, kind: pa.DataType, name: str) -> None:
        node = len(self._types)
        self._types.append(kind)
        self._names.append(name.encode())
        self._behind.append(0)
        for field in _fields_of(kind):
            self._add(field.type, field.name)
        self._behind[node] = len(self._types)

    def _describe(self, node: int) -> None:
        kind, line = self._types[node], self.nodes[node]
        line[nodes.KIND] = _kind(kind)
        line[nodes.NEXT] = self._behind[node]
        line[nodes.COUNT] = len(_fields_of(kind))
        name = self._padded_names[node]
        line[nodes.NAME] = name.ctypes.data
        line[nodes.NAME_LENGTH] = length = len(self._names[node])
        words = name[:_NAME_BYTES].view(np.int64)
        masks = np.where(np.arange(_NAME_BYTES) <= length, 255, 0).astype(np.uint8).view(np.int64)
        line[[nodes.WORD, nodes.SECOND_WORD]] = words & masks
        line[[nodes.MASK, nodes.SECOND_MASK]] = masks
        if pa.types.is_decimal(kind):
            line[nodes.SCALE] = kind.scale
            line[nodes.BOUND] = 10 ** min(kind.precision, 18)

    def _nodes_of_root(self) -> list[bool]:
        """Which columns have the root's rows: no list or map is above them."""
        has_root_rows, behind = [], 0
        for node, kind in enumerate(self.nodes[:, nodes.KIND].tolist()):
            has_root_rows.append(node >= behind)
            if kind in (nodes.LIST, nodes.MAP):
                behind = max(behind, self._behind[node])
        return has_root_rows

    def _grow_rows(self, node: int, rows: int) -> None:
        line = self.nodes[node]
        kind = int(line[nodes.KIND])
        line[nodes.ROWS_MAX] = rows
        self._validity[node] = validity = _grown(self._validity[node], (rows + 7) // 8, np.uint8, 255)
        line[nodes.VALIDITY] = validity.ctypes.data
        if kind in _WITH_ENDS:
            self._ends[node] = ends = _grown(self._ends[node], rows + 1, np.int32, 0)
            line[nodes.ENDS] = ends.ctypes.data
        elif kind != nodes.STRUCT:
            size = (rows + 7) // 8 if kind == nodes.BOOL else rows * _WIDTHS[kind]
            self._values[node] = values = _grown(self._values[node], size, np.uint8, 0)
            line[nodes.VALUES] = values.ctypes.data

    def _grow_bytes(self, node: int, size: int) -> None:
        self._values[node] = values = _grown(self._values[node], size, np.uint8, 0)
        self.nodes[node, nodes.VALUES] = values.ctypes.data
        self.nodes[node, nodes.BYTES_MAX] = size

    def _array(self, node: int, rows: int) -> pa.Array:
        kind = int(self.nodes[node, nodes.KIND])
        buffers = [_taken(self._validity[node], (rows + 7) // 8)]
        if kind == nodes.STRUCT:
            return pa.Array.from_buffers(self._types[node], rows, buffers, children=self._children(node, rows))
        if kind not in _WITH_ENDS:
            size = (rows + 7) // 8 if kind == nodes.BOOL else rows * _WIDTHS[kind]
            return pa.Array.from_buffers(self._types[node], rows, [*buffers, _taken(self._values[node], size)])
        last = int(self._ends[node][rows])
        buffers.append(_taken(self._ends[node], rows + 1))
        if kind == nodes.LIST:
            return pa.Array.from_buffers(self._types[node], rows, buffers, children=self._children(node, last))
        if kind == nodes.MAP:
            entries = pa.StructArray.from_arrays(self._children(node, last), fields=list(_entries(self._types[node])))
            return pa.Array.from_buffers(self._types[node], rows, buffers, children=[entries])
        return pa.Array.from_buffers(self._types[node], rows, [*buffers, _taken(self._values[node], last)])

    def _children(self, node: int, rows: int) -> list[pa.Array]:
        children, below = [], node + 1
        while below < self._behind[node]:
            children.append(self._array(below, rows))
            below = self._behind[below]
        return children


def _entries(kind: pa.MapType) -> pa.StructType:
    return pa.struct([kind.key_field, kind.item_field])


def _fields_of(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_list(kind):
        return [kind.value_field]
    return list(kind) if pa.types.is_struct(kind) else []


def _kind(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return nodes.STRUCT
    if pa.types.is_map(kind):
        return nodes.MAP
    if pa.types.is_list(kind):
        return nodes.LIST
    if pa.types.is_timestamp(kind):
        return nodes.TIMESTAMP if kind.tz else nodes.LOCAL_TIMESTAMP
    if pa.types.is_decimal(kind):
        return nodes.DECIMAL
    return _KINDS[kind]


def _grown(old: Any, count: int, dtype: Any, fill: int) -> Any:
    new = np.full(count, fill, dtype)
    if old is not None:
        new[: len(old)] = old
    return new


def _taken(values: Any, count: int) -> pa.Buffer:
    return pa.py_buffer(values[:count].tobytes())
