"""The table of a schema's nodes, as kernels read it: a line for each field, element, key and value, in preorder.

What is below a node lies between it and the node that its field :data:`NEXT` names. A node's buffers are Arrow's own
(:mod:`directkafka.payloads.columns`). Where a row's text, list or map begins is what its column's ``ends`` say, so a
row can be written again from its start.
"""

# ruff: noqa: PLR1714, SIM109 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import load8, load32, store8, store32
from directkafka.kafka.kernels.compile import helper

# Kinds of nodes.
STRUCT: Final = 0
LIST: Final = 1
MAP: Final = 2
BOOL: Final = 3
INT8: Final = 4
INT16: Final = 5
INT32: Final = 6
INT64: Final = 7
FLOAT: Final = 8
DOUBLE: Final = 9
STRING: Final = 10
DATE: Final = 11
TIMESTAMP: Final = 12
LOCAL_TIMESTAMP: Final = 13
DECIMAL: Final = 14
BINARY: Final = 15

# Fields of a node.
KIND: Final = 0
#: The first node that is not below this one.
NEXT: Final = 1
#: Addresses of values (of texts and bytes: what is in them), of int32 ends, of the validity bitmap.
VALUES: Final = 2
ENDS: Final = 3
VALIDITY: Final = 4
#: Room for so many rows, and so many bytes of texts.
ROWS_MAX: Final = 5
BYTES_MAX: Final = 6
#: The field's name: its address, its length, and its first 16 bytes with the quote behind it, as two words with masks.
NAME: Final = 7
NAME_LENGTH: Final = 8
WORD: Final = 9
MASK: Final = 10
SECOND_WORD: Final = 11
SECOND_MASK: Final = 12
#: Of a decimal: digits behind the point, and the number that all are below.
SCALE: Final = 13
BOUND: Final = 14
#: How many nodes are right below this one.
COUNT: Final = 15
NODE_FIELDS: Final = 16


@helper
def of_node(nodes: Any, node: int, field: int) -> int:
    """In kernels: a field of a node. The table is handed on as a bare pointer."""
    return nodes[node * NODE_FIELDS + field]


@helper
def set_valid(validity: int, row: int) -> None:
    """Set a row's bit; bits are set when the buffer is made, and cleared by nulls."""
    byte = validity + (row >> 3)
    store8(byte, load8(byte) | (1 << (row & 7)))


@helper
def _set_null(validity: int, row: int) -> None:
    byte = validity + (row >> 3)
    store8(byte, load8(byte) & ~(1 << (row & 7)))


@helper
def put_null(nodes: Any, first: int, row: int) -> None:
    """A null, and empty texts and lists in all columns below it that have as many rows."""
    node, behind = first, of_node(nodes, first, NEXT)
    while node < behind:
        kind = of_node(nodes, node, KIND)
        _set_null(of_node(nodes, node, VALIDITY), row)
        if kind == STRING or kind == BINARY or kind == LIST or kind == MAP:
            ends = of_node(nodes, node, ENDS) + 4 * row
            store32(ends + 4, load32(ends))
        if kind == LIST or kind == MAP:
            node = of_node(nodes, node, NEXT)
        else:
            node += 1


#: In place of a record's program: it is null; nobody knows how to read it.
IS_NULL: Final = -1
IS_UNKNOWN: Final = -2


@helper
def put_nothing(nodes: Any, row: int, as_struct: bool) -> None:
    """What a record is that is null, or cannot be read: a null; or, where the root is a struct, a struct of nulls."""
    put_null(nodes, 0, row)
    if as_struct and of_node(nodes, 0, KIND) == STRUCT:
        set_valid(of_node(nodes, 0, VALIDITY), row)
