"""The table of a schema's nodes, as the kernel reads it: a line for each field, element, key and value, in preorder.

What is below a node lies between it and the node that its field :data:`NEXT` names.
"""

from __future__ import annotations

from typing import Any, Final

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
#: Types that the kernel reads only nulls of.
OTHER: Final = 15

# Fields of a node.
KIND: Final = 0
#: The first node that is not below this one.
NEXT: Final = 1
#: Addresses of values (of texts: their bytes), of int32 ends, of the validity bitmap.
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

DEPTH_MAX: Final = 64
#: Texts with more bytes, and with names of more bytes, may have strings and names that Jackson refuses.
TEXT_LENGTH_MAX: Final = 20_000_000
NAME_LENGTH_MAX: Final = 50_000
#: Of a scope: its node, its row, its number, fields found, the next row of its elements, the node expected next, what
#: it is, and whether nothing was written to its row before.
SCOPE_FIELDS: Final = 8

#: In place of an offset of the zone of timestamps that name none: it changes, and they are left.
NO_OFFSET: Final = -(1 << 63)


@helper
def of_node(nodes: Any, node: int, field: int) -> int:
    """In kernels: a field of a node. The table is handed on as a bare pointer."""
    return nodes[node * NODE_FIELDS + field]
