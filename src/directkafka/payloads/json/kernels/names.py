"""Names of fields in kernels: which field's name stands in a text."""

# ruff: noqa: SIM110 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import load8, load64
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.json.kernels.characters import BACKSLASH
from directkafka.payloads.kernels.nodes import (
    COUNT,
    MASK,
    NAME,
    NAME_LENGTH,
    NEXT,
    SECOND_MASK,
    SECOND_WORD,
    WORD,
    of_node,
)

#: In place of a node: a value that no field is declared for.
IGNORED: Final = -1


@helper
def _is_name(nodes: Any, node: int, at: int, end: int) -> bool:
    """Whether the name of a field's node stands here, with its quote."""
    if (load64(at) ^ of_node(nodes, node, WORD)) & of_node(nodes, node, MASK):
        return False
    if of_node(nodes, node, NAME_LENGTH) < 8:
        return True
    if (load64(at + 8) ^ of_node(nodes, node, SECOND_WORD)) & of_node(nodes, node, SECOND_MASK):
        return False
    length = of_node(nodes, node, NAME_LENGTH)
    name = of_node(nodes, node, NAME)
    if at + length >= end:
        return False
    for index in range(16, length + 1):
        if load8(at + index) != load8(name + index):
            return False
    return True


@helper
def find_field(nodes: Any, struct: int, expected: int, at: int, end: int) -> int:
    """The node of the field whose name stands here, looked for from the expected one on; or none."""
    behind = of_node(nodes, struct, NEXT)
    node = expected
    for _ in range(of_node(nodes, struct, COUNT)):
        if _is_name(nodes, node, at, end):
            return node
        node = of_node(nodes, node, NEXT)
        if node == behind:
            node = struct + 1
    return IGNORED


@helper
def is_odd_name(first: int, behind: int) -> bool:
    """Whether a name that is no field's as it stands may be one as it is meant: it has an escape, or no ASCII."""
    for at in range(first, behind):
        byte = load8(at)
        if byte == BACKSLASH or byte >= 0x80:
            return True
    return False
