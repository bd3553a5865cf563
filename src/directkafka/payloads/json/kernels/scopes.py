"""Scopes of a text in kernels: the object or array that is read now, and those around it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from directkafka.kafka.kernels.compile import helper

DEPTH_MAX: Final = 64
#: Numbers that are kept of a scope: see :class:`Scope`.
SCOPE_FIELDS: Final = 8

# What a scope is.
OBJECT: Final = 0
ARRAY: Final = 1
MAP_ENTRIES: Final = 2
#: A scope that the declared type has no place for.
MISFIT: Final = 3


class Scope(NamedTuple):
    """The object or array that is read now; those around it lie in ``scopes``, in this order.

    Attributes:
        shape: an object, an array, or an object that is a map.
        node: of the schema, or none.
        row: of the node's column.
        number: tells this object from all others.
        field_count: how many of the node's fields were found.
        item: the next row of the elements' columns.
        expected: the node of the field that came next in the object before.
        is_fresh: whether nothing was ever written to its row.
    """

    shape: int
    node: int
    row: int
    number: int
    field_count: int
    item: int
    expected: int
    is_fresh: int


class Slot(NamedTuple):
    """Where a value goes.

    Attributes:
        at: the position of the value, or what is wrong.
        node, row: of the schema, or none.
        is_new: whether nothing was ever written there.
    """

    at: int
    node: int
    row: int
    is_new: int


@helper
def push(scopes: Any, depth: int, scope: Scope) -> None:
    """Lay a scope aside, which is so deep in others."""
    first = depth * SCOPE_FIELDS
    scopes[first] = scope.shape
    scopes[first + 1] = scope.node
    scopes[first + 2] = scope.row
    scopes[first + 3] = scope.number
    scopes[first + 4] = scope.field_count
    scopes[first + 5] = scope.item
    scopes[first + 6] = scope.expected
    scopes[first + 7] = scope.is_fresh


@helper
def popped(scopes: Any, depth: int) -> Scope:
    """The scope that was laid aside."""
    first = depth * SCOPE_FIELDS
    return Scope(
        scopes[first], scopes[first + 1], scopes[first + 2], scopes[first + 3], scopes[first + 4], scopes[first + 5],
        scopes[first + 6], scopes[first + 7],
    )  # fmt: skip
