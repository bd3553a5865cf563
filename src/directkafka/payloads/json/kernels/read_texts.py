"""The kernel that reads JSON texts into columns of a declared schema, one pass over each text.

The schema is a table of nodes in preorder, so that what is below a node lies between it and the node that its field
``NEXT`` names. A node's buffers are Arrow's own. Where a row's text, list or map begins is what its column's ``ends``
say, so nothing has to be undone when a field comes twice, when a text turns out to be malformed half way, or when there
is no room: the row is written again from its start.

What the kernel is not sure of, it leaves: the row is null in all columns, and its number is told. Left are malformed
texts; values of another type in arrays, in maps, and in fields that were there before; single quotes, and words for
numbers; names that are escaped; doubles and decimals of more than 18 digits, floats that their doubles do not decide;
dates and decimals in any but their usual form; base64; more than :data:`DEPTH_MAX` scopes in one another; very long
texts and names. :mod:`directkafka.payloads.json.values` reads them, by the same rules.

No byte is read before the text's start, and none behind its end but for the 16 that the caller has seen to.
"""

# ruff: noqa: PLR0917, PLR0911, PLR0912, PLR1714, SIM109, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import load8, load32, load64, store32
from directkafka.kafka.kernels.compile import INT64, INT64S, helper, kernel, unwrapped
from directkafka.payloads.json.kernels.characters import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    LEFT,
    NAME_LENGTH_MAX,
    NO_ROOM,
    NULL,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    TEXT_LENGTH_MAX,
    copy_string,
    skip_space,
    skip_string,
)
from directkafka.payloads.json.kernels.misfits import misfit_end
from directkafka.payloads.json.kernels.names import IGNORED, find_field, is_odd_name
from directkafka.payloads.json.kernels.scalars import read_scalar, skip_scalar
from directkafka.payloads.json.kernels.scopes import (
    ARRAY,
    DEPTH_MAX,
    MAP_ENTRIES,
    MISFIT,
    OBJECT,
    Scope,
    Slot,
    popped,
    push,
)
from directkafka.payloads.kernels.nodes import (
    BYTES_MAX,
    COUNT,
    ENDS,
    KIND,
    LIST,
    MAP,
    NAME_LENGTH,
    NEXT,
    ROWS_MAX,
    STRING,
    STRUCT,
    VALIDITY,
    VALUES,
    of_node,
    put_null,
    set_valid,
)

#: Numbers that are told of a text with a value of another type than its field's.
MISFIT_FIELDS: Final = 3
_N: Final = 0x6E


@helper
def _element(nodes: Any, scopes: Any, scope: Scope, at: int) -> tuple[Scope, Slot]:
    """The next element of an array."""
    if scope.node < 0:
        return scope, Slot(at, IGNORED, 0, 0)
    node, row = scope.node + 1, scope.item
    if row >= of_node(nodes, node, ROWS_MAX):
        scopes[0] = scope.node
        return scope, Slot(NO_ROOM, node, row, 0)
    set_valid(of_node(nodes, node, VALIDITY), row)
    following = Scope(
        scope.shape, scope.node, scope.row, scope.number, scope.fields_seen, row + 1, scope.expected, scope.is_new
    )
    return following, Slot(at, node, row, 0)


@helper
def _entry(nodes: Any, scopes: Any, scope: Scope, at: int, end: int) -> tuple[Scope, Slot]:
    """The next entry of a map, whose key's quote is passed: the key is copied."""
    node, row = scope.node + 1, scope.item
    if row >= of_node(nodes, node, ROWS_MAX):
        scopes[0] = scope.node
        return scope, Slot(NO_ROOM, node, row, 0)
    ends = of_node(nodes, node, ENDS) + 4 * row
    start = load32(ends)
    at, length = copy_string(at, end, of_node(nodes, node, VALUES) + start, of_node(nodes, node, BYTES_MAX) - start)
    if at < 0:
        scopes[0] = node
        return scope, Slot(at, node, row, 0)
    if length > NAME_LENGTH_MAX:
        return scope, Slot(LEFT, node, row, 0)
    store32(ends + 4, start + length)
    set_valid(of_node(nodes, node + 1, VALIDITY), row)
    following = Scope(
        scope.shape, scope.node, scope.row, scope.number, scope.fields_seen, row + 1, scope.expected, scope.is_new
    )
    return following, Slot(at, node + 1, row, 0)


@helper
def _field(nodes: Any, stamps: Any, scope: Scope, at: int, end: int) -> tuple[Scope, Slot]:
    """The field whose name stands here, its quote passed; the position behind the name."""
    node = IGNORED
    if scope.node >= 0:
        node = find_field(nodes, scope.node, scope.expected, at, end)
    if node < 0:
        first = at
        at = skip_string(at, end)
        if at - first > NAME_LENGTH_MAX or (at >= 0 and scope.node >= 0 and is_odd_name(first, at)):
            at = LEFT
        return scope, Slot(at, IGNORED, 0, 0)
    at += of_node(nodes, node, NAME_LENGTH) + 1
    expected = of_node(nodes, node, NEXT)
    if expected == of_node(nodes, scope.node, NEXT):
        expected = scope.node + 1
    fields_seen, is_new = scope.fields_seen, scope.is_new
    if stamps[node] == scope.number:
        is_new = 0
    else:
        stamps[node] = scope.number
        fields_seen += 1
    if not is_new:
        set_valid(of_node(nodes, node, VALIDITY), scope.row)
    following = Scope(scope.shape, scope.node, scope.row, scope.number, fields_seen, scope.item, expected, scope.is_new)
    return following, Slot(at, node, scope.row, is_new)


@helper
def _skip_colon(at: int, end: int) -> int:
    """The position of a value behind the colon and the spaces around it."""
    if load8(at) != COLON:
        at = skip_space(at, end)
        if at >= end or load8(at) != COLON:
            return LEFT
    at += 1
    return skip_space(at, end) if load8(at) <= 0x20 else at


@helper
def _slot(nodes: Any, scopes: Any, stamps: Any, scope: Scope, at: int, end: int) -> tuple[Scope, Slot]:
    """What is next in a scope: an element, or a name with a colon; and where its value goes."""
    if scope.shape == ARRAY:
        return _element(nodes, scopes, scope, at)
    if load8(at) != QUOTE:
        return scope, Slot(LEFT, IGNORED, 0, 0)
    if scope.shape == MAP_ENTRIES:
        scope, slot = _entry(nodes, scopes, scope, at + 1, end)
    else:
        scope, slot = _field(nodes, stamps, scope, at + 1, end)
    if slot.at < 0:
        return scope, slot
    return scope, Slot(_skip_colon(slot.at, end), slot.node, slot.row, slot.is_new)


@helper
def _opened(nodes: Any, slot: Slot, byte: int, number: int) -> Scope:
    """The scope that an opening brace or bracket begins."""
    if slot.node < 0:
        return Scope(ARRAY if byte == OPEN_ARRAY else OBJECT, IGNORED, 0, number, 0, 0, 0, 0)
    kind = of_node(nodes, slot.node, KIND)
    if byte == OPEN_OBJECT and kind == STRUCT:
        return Scope(OBJECT, slot.node, slot.row, number, 0, 0, slot.node + 1, slot.is_new)
    if (byte == OPEN_ARRAY and kind == LIST) or (byte == OPEN_OBJECT and kind == MAP):
        item = load32(of_node(nodes, slot.node, ENDS) + 4 * slot.row)
        return Scope(ARRAY if kind == LIST else MAP_ENTRIES, slot.node, slot.row, number, 0, item, 0, 0)
    return Scope(MISFIT, slot.node, slot.row, number, 0, 0, 0, 0)


@helper
def _close(nodes: Any, stamps: Any, scope: Scope) -> None:
    """What is known at the end of a scope: where a list ends, and which fields an object has not."""
    if scope.node < 0:
        return
    if scope.shape != OBJECT:
        store32(of_node(nodes, scope.node, ENDS) + 4 * scope.row + 4, scope.item)
    elif scope.fields_seen < of_node(nodes, scope.node, COUNT):
        child, behind = scope.node + 1, of_node(nodes, scope.node, NEXT)
        while child < behind:
            if stamps[child] != scope.number:
                put_null(nodes, child, scope.row)
            child = of_node(nodes, child, NEXT)


@helper
def _value(nodes: Any, scopes: Any, slot: Slot, byte: int, end: int, offset_us: int) -> int:
    """A value that is neither object nor array, into its slot; the position behind it."""
    if slot.node < 0:
        return skip_scalar(slot.at, end)
    if byte == _N:
        if load32(slot.at) != NULL:
            return LEFT
        put_null(nodes, slot.node, slot.row)
        return slot.at + 4
    at = read_scalar(nodes, slot.node, slot.row, slot.at, end, offset_us)
    if at == NO_ROOM:
        scopes[0] = slot.node
    return at


@helper
def _is_passed_over(scope: Scope, slot: Slot) -> bool:
    """Whether a value of another type than its field's makes the field null, and nothing else.

    In an array it makes the array null, in a map the map; a field that was there before keeps the value of then.
    """
    return scope.shape == OBJECT and slot.is_new != 0


@helper
def _is_text(nodes: Any, node: int) -> bool:
    return node >= 0 and of_node(nodes, node, KIND) == STRING


@helper
def _read_object(
    nodes: Any, scopes: Any, stamps: Any, counter: int, row: int, at: int, end: int, offset_us: int
) -> tuple[int, Slot]:
    """One text, whose first byte is here, into its row.

    Returns:
        The position behind its object, and the slot of the first value of another type than its field's, if any.
    """
    misfit = Slot(0, IGNORED, 0, 0)
    if load8(at) != OPEN_OBJECT or end - at > TEXT_LENGTH_MAX:
        return LEFT, misfit
    stamps[counter] += 1
    scope, depth, is_first = Scope(OBJECT, 0, row, stamps[counter], 0, 0, 1, 1), 0, True
    at = skip_space(at + 1, end)
    while at < end:
        byte = load8(at)
        if byte == (CLOSE_ARRAY if scope.shape == ARRAY else CLOSE_OBJECT):
            at += 1
            _close(nodes, stamps, scope)
            if depth == 0:
                return at, misfit
            depth -= 1
            scope, is_first = popped(scopes, depth), False
        else:
            if not is_first:
                if byte != COMMA:
                    return LEFT, misfit
                at += 1
                if load8(at) <= 0x20:
                    at = skip_space(at, end)
                if at >= end:
                    return LEFT, misfit
            is_first = False
            scope, slot = _slot(nodes, scopes, stamps, scope, at, end)
            at = slot.at
            if at < 0 or at >= end:
                return min(at, LEFT), misfit
            byte = load8(at)
            if (byte == OPEN_OBJECT or byte == OPEN_ARRAY) and not _is_text(nodes, slot.node):
                stamps[counter] += 1
                inner = _opened(nodes, slot, byte, stamps[counter])
                if depth == DEPTH_MAX - 1:
                    return LEFT, misfit
                if inner.shape == MISFIT:
                    if not _is_passed_over(scope, slot):
                        return LEFT, misfit
                    misfit = slot if misfit.node < 0 else misfit
                    put_null(nodes, slot.node, slot.row)
                    inner = _opened(nodes, Slot(at, IGNORED, 0, 0), byte, stamps[counter])
                push(scopes, depth, scope)
                depth += 1
                scope, is_first = inner, True
                at += 1
            else:
                at = _value(nodes, scopes, slot, byte, end, offset_us)
                if at == LEFT and slot.node >= 0 and _is_passed_over(scope, slot):
                    misfit = slot if misfit.node < 0 else misfit
                    put_null(nodes, slot.node, slot.row)
                    at = misfit_end(of_node(nodes, slot.node, KIND), slot.at, end)
                if at < 0:
                    return at, misfit
        if load8(at) <= 0x20:
            at = skip_space(at, end)
    return LEFT, misfit


@kernel(INT64(*[INT64] * 6, INT64S, INT64S, INT64S, INT64, INT64S, INT64S))
def read_texts(
    data: int,
    ends: int,
    validity: int,
    first_bit: int,
    first: int,
    rows: int,
    nodes: Any,
    scopes: Any,
    stamps: Any,
    offset_us: int,
    left: Any,
    misfits: Any,
) -> int:
    """Read texts into the columns of a schema.

    Args:
        data: address of the texts' bytes; 16 more than they have can be read.
        ends: address of int64 positions in them, one more than texts.
        validity: address of a bitmap of the texts that are not null; 0 where all are.
        first_bit: the first text's number in it.
        first, rows: the texts ``[first, rows)`` are read.
        nodes: the schema, see this module's text. Columns have all bits of their bitmaps set.
        scopes: room for :data:`DEPTH_MAX` scopes.
        stamps: for each node the number of the object that its field was found in last; the last one counts them.
        offset_us: how much the clock of timestamps without a zone is ahead of UTC, or ``NO_OFFSET``.
        left: out, the numbers of texts that are left; the last one counts them.
        misfits: out, the texts in which values are of another type than their field's, which is null then. Of each
            the number, the node of the first such field, and the position of its value in the text; in the last place
            how many such texts there are.

    Returns:
        The number of texts, or, when there is no room, of the one that has none; then ``scopes[0]`` is its node.
    """
    last, counter = left.shape[0] - 1, stamps.shape[0] - 1
    of_nodes, of_scopes, of_stamps = unwrapped(nodes), unwrapped(scopes), unwrapped(stamps)
    for text in range(first, rows):
        bit = first_bit + text
        if validity != 0 and not (load8(validity + (bit >> 3)) >> (bit & 7)) & 1:
            put_null(of_nodes, 0, text)
            continue
        at = data + load64(ends + 8 * text)
        end = data + load64(ends + 8 * text + 8)
        at = skip_space(at, end)
        if at >= end:
            put_null(of_nodes, 0, text)
            continue
        at, misfit = _read_object(of_nodes, of_scopes, of_stamps, counter, text, at, end, offset_us)
        if at == NO_ROOM:
            return text
        if at < 0 or at > end:
            put_null(of_nodes, 0, text)
            left[left[last]] = text
            left[last] += 1
        elif misfit.node >= 0:
            count, start = misfits[MISFIT_FIELDS * last], data + load64(ends + 8 * text)
            misfits[MISFIT_FIELDS * count] = text
            misfits[MISFIT_FIELDS * count + 1] = misfit.node
            misfits[MISFIT_FIELDS * count + 2] = misfit.at - start
            misfits[MISFIT_FIELDS * last] += 1
    return rows
