"""The kernel that reads Avro's binary encoding into columns: it runs a program for each record (:mod:`..program`).

No byte is read outside a record. A record that cannot be read is a struct of nulls, and is told with the place and the
instruction at which it went wrong; what it left in lists and maps is written over by the next one.
"""

# ruff: noqa: PLR0917, PLR0911, PLR0912, PLR1714, SIM109, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final, NamedTuple

from directkafka.kafka.kernels.addresses import load32, store32
from directkafka.kafka.kernels.compile import INT64, INT64S, helper, kernel, unwrapped
from directkafka.payloads.avro.kernels.numbers import (
    NEGATIVE,
    NO_ALTERNATIVE,
    NO_SYMBOL,
    REFUSED,
    TOO_DEEP,
    TOO_MANY,
    read_length,
    read_long,
)
from directkafka.payloads.avro.kernels.values import (
    read_boolean,
    read_bytes,
    read_decimal,
    read_duration,
    read_number,
    read_real,
    read_uuid,
)
from directkafka.payloads.avro.program import (
    AGAIN,
    BOOLEAN,
    BRANCH,
    BYTES,
    CALL,
    CONSTANT,
    CONSTANT_END,
    DECIMAL,
    DOUBLE,
    DURATION,
    END,
    ENUM,
    FIELDS,
    FIRST,
    FIXED,
    FIXED_DECIMAL,
    FLOAT,
    FLOAT_TO_DOUBLE,
    INT,
    INT_TO_DOUBLE,
    INT_TO_FLOAT,
    JUMP,
    LIST,
    LONG,
    MOMENT,
    NEXT_ELEMENT,
    NODE,
    NULL,
    OPERATION,
    RETURN,
    SECOND,
    SKIP_BYTES,
    SKIP_NUMBER,
    TEXT,
    UUID,
    VALID,
)
from directkafka.payloads.kernels.nodes import (
    ENDS,
    IS_UNKNOWN,
    ROWS_MAX,
    VALIDITY,
    VALUES,
    of_node,
    put_nothing,
    put_null,
    set_valid,
)
from directkafka.payloads.kernels.values import CUT_OFF, END_MAX, FULL, NO_ROOM, put_bytes

#: Scopes in one another: lists, defaults, calls; and the numbers that are kept of each.
DEPTH_MAX: Final = 1000
FRAME_FIELDS: Final = 4
#: Elements of no bytes that a record may have; of others it cannot have more than bytes.
EMPTY_ELEMENTS_MAX: Final = 1_000
#: Numbers that are told of a record that cannot be read: its number, what is wrong, the instruction, the place in it.
PROBLEM_FIELDS: Final = 4
BEHIND_THE_END: Final = -20


@helper
def _read_block(at: int, end: int, least: int, empty: int) -> tuple[int, int, int]:
    """How many elements follow: the position behind that number, the number, and the block's size where it is told."""
    at, count = read_long(at, end)
    size = -1
    if at >= 0 and count < 0:
        count = -count
        at, size = read_long(at, end)
        if at >= 0 and (size < 0 or size > end - at):
            at = NEGATIVE if size < 0 else CUT_OFF
    if at < 0:
        return at, 0, 0
    if count < 0 or (count > end - at if least else count > EMPTY_ELEMENTS_MAX - empty):
        return TOO_MANY, 0, 0
    return at, count, size


@helper
def _read_value(nodes: Any, line: int, lines: Any, row: int, at: int, end: int, constants: int) -> int:
    """A value into its column, as an instruction says; the position behind it."""
    operation, node = lines[line + OPERATION], lines[line + NODE]
    if lines[line + AGAIN]:
        set_valid(of_node(nodes, node, VALIDITY), row)
    if (
        operation == INT
        or operation == LONG
        or operation == MOMENT
        or operation == INT_TO_FLOAT
        or operation == INT_TO_DOUBLE
    ):
        return read_number(
            operation, of_node(nodes, node, VALUES), row, at, end, lines[line + FIRST], lines[line + SECOND]
        )
    if operation == TEXT or operation == BYTES or operation == FIXED:
        return read_bytes(nodes, operation, node, row, at, end, lines[line + FIRST])
    if operation == DOUBLE or operation == FLOAT or operation == FLOAT_TO_DOUBLE:
        return read_real(operation, of_node(nodes, node, VALUES), row, at, end)
    if operation == BOOLEAN:
        return read_boolean(of_node(nodes, node, VALUES), row, at, end)
    if operation == DECIMAL or operation == FIXED_DECIMAL:
        length = lines[line + FIRST]
        if operation == DECIMAL:
            at, length = read_length(at, end)
        elif at + length > end:
            at = CUT_OFF
        if at < 0:
            return at
        return read_decimal(of_node(nodes, node, VALUES), row, at, length, lines[line + SECOND])
    if operation == ENUM:
        at, symbol = read_long(at, end)
        if at < 0:
            return at
        if symbol < 0 or symbol >= lines[line + FIRST]:
            return NO_SYMBOL
        chosen = line + (symbol + 1) * FIELDS
        if lines[chosen + SECOND] < 0:
            return NO_SYMBOL
        problem = put_bytes(nodes, node, row, constants + lines[chosen + FIRST], lines[chosen + SECOND])
        return problem if problem < 0 else at
    if operation == DURATION:
        return read_duration(nodes, node, row, at, end)
    if operation == UUID:
        return read_uuid(nodes, node, row, at, end)
    return REFUSED


@helper
def _skip(line: int, lines: Any, at: int, end: int) -> int:
    operation = lines[line + OPERATION]
    if operation == SKIP_NUMBER:
        at, _ = read_long(at, end)
        return at
    if operation == SKIP_BYTES:
        at, length = read_length(at, end)
        return at if at < 0 else at + length
    size = lines[line + FIRST]
    return at + size if size <= end - at else CUT_OFF


class State(NamedTuple):
    """Where a program stands.

    Attributes:
        pc: the instruction.
        row: of the columns; below a list, an element's.
        at, end: the position in what is read, and its end. In place of the position: what is wrong.
        depth: how many scopes are open.
        empty: how many elements of no bytes there were.
    """

    pc: int
    row: int
    at: int
    end: int
    depth: int
    empty: int


@helper
def _branch(lines: Any, state: State) -> State:
    at, number = read_long(state.at, state.end)
    pc = state.pc
    if at >= 0 and (number < 0 or number >= lines[pc * FIELDS + FIRST]):
        at = NO_ALTERNATIVE
    if at >= 0:
        pc = lines[(pc + 1 + number) * FIELDS + FIRST]
    return State(pc, state.row, at, state.end, state.depth, state.empty)


@helper
def _begin_list(nodes: Any, lines: Any, frames: Any, state: State) -> State:
    """A list, or a map: its first element, if it has one."""
    node = lines[state.pc * FIELDS + NODE]
    frame = state.depth * FRAME_FIELDS
    if state.depth == DEPTH_MAX:
        return State(state.pc, state.row, TOO_DEEP, state.end, state.depth, state.empty)
    frames[frame] = state.row
    frames[frame + 1] = load32(of_node(nodes, node, ENDS) + 4 * state.row) if node >= 0 else 0
    frames[frame + 2] = 0
    return State(state.pc, state.row, state.at, state.end, state.depth + 1, state.empty)


@helper
def _element(nodes: Any, lines: Any, frames: Any, state: State, begin: int, body: int) -> State:
    """The next element, of this block or of the next one; without one, the list's end.

    Args:
        nodes, lines, frames, state: see :func:`read_records`.
        begin: the instruction that begins the list.
        body: the one that begins an element.
    """
    frame, line = (state.depth - 1) * FRAME_FIELDS, begin * FIELDS
    node, least = lines[line + NODE], lines[line + SECOND]
    at, empty, item, left = state.at, state.empty, frames[frame + 1], frames[frame + 2]
    while left == 0:
        at, left, size = _read_block(at, state.end, least, empty)
        if at < 0 or left == 0:
            break
        if least == 0:
            empty += left
        if node < 0 and size >= 0:
            at, left = at + size, 0
    if at < 0:
        return State(state.pc, state.row, at, state.end, state.depth, empty)
    if left == 0:
        row = frames[frame]
        if node >= 0:
            store32(of_node(nodes, node, ENDS) + 4 * row + 4, item)
            if lines[line + AGAIN]:
                set_valid(of_node(nodes, node, VALIDITY), row)
        return State(lines[line + FIRST], row, at, state.end, state.depth - 1, empty)
    frames[frame + 2] = left
    if node < 0:
        return State(body, state.row, at, state.end, state.depth, empty)
    if item >= of_node(nodes, node + 1, ROWS_MAX):
        at = NO_ROOM if item < END_MAX else FULL
    return State(body if at >= 0 else state.pc, item, at, state.end, state.depth, empty)


@helper
def _open(lines: Any, frames: Any, constants: int, state: State) -> State:
    """A default, which is read from the constants, or a part of the program that is called."""
    line, frame = state.pc * FIELDS, state.depth * FRAME_FIELDS
    if state.depth == DEPTH_MAX:
        return State(state.pc, state.row, TOO_DEEP, state.end, state.depth, state.empty)
    if lines[line + OPERATION] == CALL:
        frames[frame] = state.pc + 1
        return State(lines[line + FIRST], state.row, state.at, state.end, state.depth + 1, state.empty)
    frames[frame], frames[frame + 1] = state.at, state.end
    at = constants + lines[line + SECOND]
    return State(state.pc + 1, state.row, at, at + lines[line + FIRST], state.depth + 1, state.empty)


@helper
def _close(lines: Any, frames: Any, state: State) -> State:
    """The end of what :func:`_open` began."""
    depth = state.depth - 1
    first, second = frames[depth * FRAME_FIELDS], frames[depth * FRAME_FIELDS + 1]
    if lines[state.pc * FIELDS + OPERATION] == RETURN:
        return State(first, state.row, state.at, state.end, depth, state.empty)
    return State(state.pc + 1, state.row, first, second, depth, state.empty)


@helper
def _column(nodes: Any, lines: Any, constants: int, state: State) -> State:
    """An instruction that is done to a column, or passes something over."""
    line = state.pc * FIELDS
    operation, at, behind = lines[line + OPERATION], state.at, state.pc + 1
    if operation >= SKIP_NUMBER:
        at = _skip(line, lines, at, state.end)
    elif operation == NULL:
        put_null(nodes, lines[line + NODE], state.row)
    elif operation == VALID:
        set_valid(of_node(nodes, lines[line + NODE], VALIDITY), state.row)
    else:
        at = _read_value(nodes, line, lines, state.row, at, state.end, constants)
        if operation == ENUM:
            behind += lines[line + FIRST]
    return State(behind if at >= 0 else state.pc, state.row, at, state.end, state.depth, state.empty)


@helper
def _run(nodes: Any, lines: Any, frames: Any, constants: int, state: State) -> State:
    """Run a program to its end, or to where something is wrong."""
    while state.at >= 0:
        line = state.pc * FIELDS
        operation = lines[line + OPERATION]
        if operation >= NULL and operation <= SKIP_BYTES:
            state = _column(nodes, lines, constants, state)
        elif operation == END:
            break
        elif operation == BRANCH:
            state = _branch(lines, state)
        elif operation == JUMP:
            state = State(lines[line + FIRST], state.row, state.at, state.end, state.depth, state.empty)
        elif operation == LIST:
            state = _begin_list(nodes, lines, frames, state)
            if state.at >= 0:
                state = _element(nodes, lines, frames, state, state.pc, state.pc + 1)
        elif operation == NEXT_ELEMENT:
            frame = (state.depth - 1) * FRAME_FIELDS
            frames[frame + 1] += 1
            frames[frame + 2] -= 1
            state = _element(nodes, lines, frames, state, lines[line + SECOND], lines[line + FIRST])
        elif operation == CONSTANT or operation == CALL:
            state = _open(lines, frames, constants, state)
        elif operation == CONSTANT_END or operation == RETURN:
            state = _close(lines, frames, state)
        else:
            state = State(state.pc, state.row, REFUSED, state.end, state.depth, state.empty)
    return state


@kernel(INT64(INT64, INT64S, INT64S, INT64S, INT64, INT64, INT64S, INT64, INT64S, INT64S, INT64S))
def read_records(
    data: int,
    starts: Any,
    ends: Any,
    programs: Any,
    first: int,
    rows: int,
    lines: Any,
    constants: int,
    nodes: Any,
    frames: Any,
    problems: Any,
) -> int:
    """Read records into the columns of a schema.

    Args:
        data: address of the records' bytes.
        starts, ends: of each record, the positions of its first byte and of the one behind its last.
        programs: of each record, its program's first instruction, or what :mod:`directkafka.payloads.kernels.nodes` has
            for one that is null or unknown.
        first, rows: the records ``[first, rows)`` are read.
        lines: the instructions of all programs.
        constants: address of the bytes that programs have.
        nodes: the columns; all bits of their bitmaps are set.
        frames: room for :data:`DEPTH_MAX` scopes.
        problems: out, :data:`PROBLEM_FIELDS` numbers for each record that cannot be read; in the last place, how many.

    Returns:
        The number of records, or, when there is no room, of the one that has none; then ``frames[0]`` is the node.
    """
    last = problems.shape[0] - 1
    of_nodes, of_lines, of_frames = unwrapped(nodes), unwrapped(lines), unwrapped(frames)
    for record in range(first, rows):
        if programs[record] < 0:
            put_nothing(of_nodes, record, programs[record] == IS_UNKNOWN)
            continue
        start, end = data + starts[record], data + ends[record]
        state = _run(of_nodes, of_lines, of_frames, constants, State(programs[record], record, start, end, 0, 0))
        at, pc = state.at, state.pc
        if at == NO_ROOM:
            frames[0] = of_lines[pc * FIELDS + NODE]
            return record
        if at != end:
            put_nothing(of_nodes, record, True)
            count = problems[last] * PROBLEM_FIELDS
            problems[count] = record
            problems[count + 1] = at if at < 0 else BEHIND_THE_END
            problems[count + 2] = pc
            problems[count + 3] = at - start if at >= 0 else 0
            problems[last] += 1
    return rows
