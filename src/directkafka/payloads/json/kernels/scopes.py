"""Scopes of a JSON text in kernels: the object or array that is read now, and those around it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from directkafka.kafka.kernels.compile import helper

#: What is deeper is left to the slow way.
DEPTH_MAX: Final = 64
#: Numbers that are kept of a scope: see :class:`Scope`.
SCOPE_FIELDS: Final = 8

# What a scope is.
OBJECT: Final = 0
ARRAY: Final = 1
MAP_ENTRIES: Final = 2
#: An object or array where another type is declared.
MISFIT: Final = 3


class Scope(NamedTuple):
    """The object or array that is read now. Those around it lie in ``scopes``, the outermost first, as these numbers.

    Attributes:
        shape: OBJECT, ARRAY, MAP_ENTRIES or MISFIT.
        node: of the schema; IGNORED where it has none.
        row: in the node's column.
        number: tells this scope from all others.
        fields_seen: how many of the node's fields were found.
        item: the row that the next element or entry goes into.
        expected: the node that is tried first for the next name: the one behind the last field that was found.
        is_new: whether nothing was ever written to its row; 0 in lists and maps.
    """

    shape: int
    node: int
    row: int
    number: int
    fields_seen: int
    item: int
    expected: int
    is_new: int


class Slot(NamedTuple):
    """Where a value goes.

    Attributes:
        at: the position of the value; LEFT or NO_ROOM where there is none.
        node: of the schema; IGNORED where it has none.
        row: in the node's column.
        is_new: as of a scope.
    """

    at: int
    node: int
    row: int
    is_new: int


@helper
def push(scopes: Any, depth: int, scope: Scope) -> None:
    """Save the scope at this depth."""
    first = depth * SCOPE_FIELDS
    scopes[first] = scope.shape
    scopes[first + 1] = scope.node
    scopes[first + 2] = scope.row
    scopes[first + 3] = scope.number
    scopes[first + 4] = scope.fields_seen
    scopes[first + 5] = scope.item
    scopes[first + 6] = scope.expected
    scopes[first + 7] = scope.is_new


@helper
def popped(scopes: Any, depth: int) -> Scope:
    """The scope that was saved at this depth."""
    first = depth * SCOPE_FIELDS
    return Scope(
        scopes[first], scopes[first + 1], scopes[first + 2], scopes[first + 3], scopes[first + 4], scopes[first + 5],
        scopes[first + 6], scopes[first + 7],
    )  # fmt: skip
