"""The kernel that reads Protocol Buffers into columns, by the table of a message (:mod:`..program`).

A row first gets what it has if nothing is told of it; then each field that comes writes over that, so the last one
counts, as the encoding says. Elements of a list may stand apart: they are still those of one row. No byte is read
outside a record. A record that cannot be read is a struct of nulls, and is told with the place and the field at which
it went wrong; what it left in lists and maps is written over by the next one.
"""

# ruff: noqa: PLR0917, PLR1714, SIM109 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final, NamedTuple

from directkafka.kafka.kernels.addresses import load8, load32, store8, store32, store64
from directkafka.kafka.kernels.compile import INT64, INT64S, helper, kernel, unwrapped
from directkafka.payloads.kernels.nodes import (
    BOOL,
    DECIMAL,
    DOUBLE,
    ENDS,
    IS_UNKNOWN,
    KIND,
    ROWS_MAX,
    TIMESTAMP,
    VALIDITY,
    VALUES,
    of_node,
    put_nothing,
    put_null,
    set_valid,
)
from directkafka.payloads.kernels.nodes import (
    INT64 as LONGS,
)
from directkafka.payloads.kernels.values import CUT_OFF, END_MAX, FULL, NO_ROOM, put_bytes
from directkafka.payloads.protobuf.kernels.values import read_value
from directkafka.payloads.protobuf.kernels.wire import (
    EIGHT_BYTES,
    FOUR_BYTES,
    GROUP_BEGIN,
    GROUP_END,
    LENGTH,
    NO_GROUP,
    VARINT,
    WRONG_TYPE,
    read_length,
    read_tag,
    skip,
)
from directkafka.payloads.protobuf.program import (
    FIELD_COUNT,
    FIELD_SIZE,
    FIELDS,
    FIRST,
    FIXED32,
    FIXED64,
    INNER,
    INNER_GROUP,
    LIST,
    NODE,
    NUMBER,
    OPERATION,
    OTHER_COUNT,
    OTHERS,
    START_COLUMNS,
    START_COUNT,
    START_LIST,
    START_NULL,
    START_SIZE,
    START_STRUCT,
    START_TEXT,
    START_TRUE,
    STARTS,
)
from directkafka.payloads.protobuf.program import STRING as TEXT

#: The numbers that are kept of each message in another one.
FRAME_FIELDS: Final = 5
#: Numbers that are told of a record that cannot be read: its number, what is wrong, the field's place in the table.
PROBLEM_FIELDS: Final = 3
#: In place of a position: there is no room for another element of the list; the record begins too much.
NO_ELEMENT: Final = -30
TOO_MANY: Final = -31
#: Columns in which the messages of one record may begin a row, counted for each message: 64 MB at most.
STARTS_MAX: Final = 4_000_000


class State(NamedTuple):
    """Where the kernel stands.

    Attributes:
        message: the block of the message that is read.
        row: of its columns.
        at, end: the position, and the end of the message. In place of the position: what is wrong.
        line: the field that was read last.
        depth: how many messages are around.
        group: the number that ends the message, if it stands between two tags; else 0.
    """

    message: int
    row: int
    at: int
    end: int
    line: int
    depth: int
    group: int


@helper
def _wire_type(operation: int) -> int:
    if operation < FIXED32:
        return VARINT
    if operation < FIXED64:
        return FOUR_BYTES
    if operation < TEXT:
        return EIGHT_BYTES
    return LENGTH if operation <= INNER else GROUP_BEGIN


@helper
def _put_zero(nodes: Any, node: int, row: int) -> None:
    kind, values = of_node(nodes, node, KIND), of_node(nodes, node, VALUES)
    set_valid(of_node(nodes, node, VALIDITY), row)
    if kind == BOOL:
        byte = values + (row >> 3)
        store8(byte, load8(byte) & ~(1 << (row & 7)))
    elif kind == LONGS or kind == DOUBLE or kind == TIMESTAMP:
        store64(values + 8 * row, 0)
    elif kind == DECIMAL:
        store64(values + 16 * row, 0)
        store64(values + 16 * row + 8, 0)
    else:
        store32(values + 4 * row, 0)


@helper
def _start(nodes: Any, program: Any, message: int, row: int, constants: int) -> int:
    """What a row has if nothing is told of it. 0; or that there is no room, and for which node: the node and one more,
    below 0.
    """
    first = program[message + STARTS]
    for start in range(first, first + program[message + START_COUNT] * START_SIZE, START_SIZE):
        what, node = program[start], program[start + 1]
        if what == START_NULL:
            put_null(nodes, node, row)
        elif what == START_TEXT:
            set_valid(of_node(nodes, node, VALIDITY), row)
            if put_bytes(nodes, node, row, constants + program[start + 2], program[start + 3]) < 0:
                return -node - 1
        elif what == START_LIST:
            set_valid(of_node(nodes, node, VALIDITY), row)
            ends = of_node(nodes, node, ENDS) + 4 * row
            store32(ends + 4, load32(ends))
        elif what == START_STRUCT:
            set_valid(of_node(nodes, node, VALIDITY), row)
        else:
            _put_zero(nodes, node, row)
            if what == START_TRUE:
                byte = of_node(nodes, node, VALUES) + (row >> 3)
                store8(byte, load8(byte) | (1 << (row & 7)))
    return 0


@helper
def _line_of_field(program: Any, message: int, line: int, number: int) -> int:
    """The line of a field; -1 if there is none. Fields come in the order of their numbers as often as not."""
    first, count = program[message + FIELDS], program[message + FIELD_COUNT]
    behind = first + count * FIELD_SIZE
    following = line + FIELD_SIZE
    if following >= first and following < behind and program[following + NUMBER] == number:
        return following
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if program[first + middle * FIELD_SIZE + NUMBER] < number:
            low = middle + 1
        else:
            high = middle
    field_line = first + low * FIELD_SIZE
    return field_line if low < count and program[field_line + NUMBER] == number else -1


@helper
def _is_valid(validity: int, row: int) -> bool:
    return (load8(validity + (row >> 3)) >> (row & 7)) & 1 != 0


@helper
def _element(nodes: Any, node: int, row: int) -> int:
    """The row of a list's next element, which is then the list's; or that there is no room."""
    ends = of_node(nodes, node, ENDS) + 4 * row + 4
    item = load32(ends)
    if item >= of_node(nodes, node + 1, ROWS_MAX):
        return NO_ELEMENT if item < END_MAX else FULL
    store32(ends, item + 1)
    return item


@helper
def _read_packed(nodes: Any, program: Any, state: State, at: int, constants: int) -> int:
    """The elements of a list that stand behind one length; the position behind them."""
    line = state.line
    at, length = read_length(at, state.end)
    behind = at + length
    while at >= 0 and at < behind:
        item = _element(nodes, program[line + LIST], state.row)
        if item < 0:
            return item
        node = program[line + NODE]
        at = read_value(nodes, program, line, program[line + OPERATION], node, item, at, behind, constants)
    return at


@helper
def _open(nodes: Any, program: Any, frames: Any, state: State, row: int, constants: int) -> State:
    """A message in this one: the next field is its first."""
    line, at, end = state.line, state.at, state.end
    frame = 1 + state.depth * FRAME_FIELDS
    if program[line + OPERATION] == INNER:
        at, length = read_length(at, end)
        end = at + length
    if at < 0:
        return State(state.message, state.row, at, state.end, line, state.depth, state.group)
    inner, node = program[line + FIRST], program[line + NODE]
    # What is begun costs memory, and a record of few bytes may begin much: frames[0] counts it.
    # A list's element counts all its columns; a message in it, whose columns were counted, what it has itself.
    frames[0] += program[inner + START_COLUMNS] if program[line + LIST] >= 0 else program[inner + START_COUNT]
    if frames[0] > STARTS_MAX:
        return State(state.message, state.row, TOO_MANY, state.end, line, state.depth, state.group)
    # One message may stand in several pieces: the first one begins it.
    if program[line + LIST] >= 0 or not _is_valid(of_node(nodes, node, VALIDITY), row):
        room = _start(nodes, program, inner, row, constants)
        if room < 0:
            frames[0] = -room - 1
            return State(state.message, state.row, NO_ROOM, state.end, -1, state.depth, state.group)
    frames[frame] = state.message
    frames[frame + 1] = state.row
    frames[frame + 2] = state.end
    frames[frame + 3] = line
    frames[frame + 4] = state.group
    group = program[line + NUMBER] if program[line + OPERATION] == INNER_GROUP else 0
    first = program[inner + FIELDS] - FIELD_SIZE
    return State(inner, row, at, end, first, state.depth + 1, group)


@helper
def _close(frames: Any, state: State) -> State:
    frame = 1 + (state.depth - 1) * FRAME_FIELDS
    return State(
        frames[frame], frames[frame + 1], state.at, frames[frame + 2], frames[frame + 3], state.depth - 1,
        frames[frame + 4],
    )  # fmt: skip


@helper
def _field(nodes: Any, program: Any, frames: Any, state: State, kind: int, constants: int) -> State:
    """A field of the message that is read, behind its tag; ``state.line`` is its line."""
    line, row, at = state.line, state.row, state.at
    operation, list_node = program[line + OPERATION], program[line + LIST]
    if kind != _wire_type(operation):
        if kind == LENGTH and list_node >= 0 and operation < TEXT:
            at = _read_packed(nodes, program, state, at, constants)
        else:
            at = WRONG_TYPE
        return State(state.message, row, at, state.end, line, state.depth, state.group)
    others = program[line + OTHERS]
    for position in range(others, others + program[line + OTHER_COUNT]):
        if program[position] != program[line + NODE]:
            put_null(nodes, program[position], row)
    target = row
    if list_node >= 0:
        target = _element(nodes, list_node, row)
        if target < 0:
            return State(state.message, row, target, state.end, line, state.depth, state.group)
    if operation >= INNER:
        return _open(nodes, program, frames, state, target, constants)
    node = program[line + NODE]
    if list_node < 0:
        set_valid(of_node(nodes, node, VALIDITY), target)
    at = read_value(nodes, program, line, operation, node, target, at, state.end, constants)
    return State(state.message, row, at, state.end, line, state.depth, state.group)


@helper
def _run(nodes: Any, program: Any, frames: Any, constants: int, state: State) -> State:
    """Read a message to its end, or to where something is wrong."""
    while state.at >= 0:
        if state.at == state.end:
            if state.group:
                return State(state.message, state.row, CUT_OFF, state.end, state.line, state.depth, state.group)
            if state.depth == 0:
                break
            state = _close(frames, state)
            continue
        at, number, kind = read_tag(state.at, state.end)
        line = state.line
        if at >= 0 and kind == GROUP_END:
            if number == state.group:
                state = _close(frames, State(state.message, state.row, at, state.end, line, state.depth, 0))
                continue
            at = NO_GROUP
        field_line = _line_of_field(program, state.message, line, number) if at >= 0 else -1
        if field_line < 0:
            room = 1 + state.depth * FRAME_FIELDS
            at = skip(number, kind, at, state.end, frames, room) if at >= 0 else at
            state = State(state.message, state.row, at, state.end, line, state.depth, state.group)
        else:
            state = State(state.message, state.row, at, state.end, field_line, state.depth, state.group)
            state = _field(nodes, program, frames, state, kind, constants)
    return state


@kernel(INT64(INT64, INT64S, INT64S, INT64S, INT64, INT64, INT64S, INT64, INT64S, INT64S, INT64S))
def read_records(
    data: int,
    starts: Any,
    ends: Any,
    programs: Any,
    first: int,
    rows: int,
    program: Any,
    constants: int,
    nodes: Any,
    frames: Any,
    problems: Any,
) -> int:
    """Read records into the columns of a schema.

    Args:
        data: address of the records' bytes.
        starts, ends: of each record, the positions of its first byte and of the one behind its last.
        programs: of each record the block of its message, or what :mod:`directkafka.payloads.kernels.nodes` has for one
            that is null or unknown.
        first, rows: the records ``[first, rows)`` are read.
        program: the table.
        constants: address of the bytes that it refers to.
        nodes: the columns; all bits of their bitmaps are set.
        frames: room for one number, for :data:`FRAME_FIELDS` numbers of each message in another one, and for
            :data:`~directkafka.payloads.protobuf.kernels.wire.GROUPS_MAX` more.
        problems: out, :data:`PROBLEM_FIELDS` numbers for each record that cannot be read; in the last place, how many.

    Returns:
        The number of records, or, when there is no room, of the one that has none; then ``frames[0]`` is the node.
    """
    last = problems.shape[0] - 1
    of_nodes, of_program, of_frames = unwrapped(nodes), unwrapped(program), unwrapped(frames)
    for record in range(first, rows):
        if programs[record] < 0:
            put_nothing(of_nodes, record, programs[record] == IS_UNKNOWN)
            continue
        room = _start(of_nodes, of_program, programs[record], record, constants)
        if room < 0:
            frames[0] = -room - 1
            return record
        frames[0] = 0
        start, end = data + starts[record], data + ends[record]
        line = of_program[programs[record] + FIELDS] - FIELD_SIZE
        state = _run(
            of_nodes, of_program, of_frames, constants, State(programs[record], record, start, end, line, 0, 0)
        )
        at, line = state.at, state.line
        if at == NO_ROOM or at == NO_ELEMENT:
            if line >= 0:
                frames[0] = of_program[line + (LIST if at == NO_ELEMENT else NODE)]
            return record
        if at < 0:
            put_nothing(of_nodes, record, True)
            count = problems[last] * PROBLEM_FIELDS
            problems[count] = record
            problems[count + 1] = at
            problems[count + 2] = line
            problems[last] += 1
    return rows
