"""The kernel that reads Avro's binary encoding into columns: it runs a program for each record (:mod:`..program`).

No byte is read outside a record. A record that cannot be read is a struct of nulls, and is told with the place and the
instruction at which it went wrong; what it left in lists and maps is written over by the next one.
"""

# ruff: noqa: PLR0917, PLR0911, PLR0912, PLR0915, PLR1714, SIM109, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import load32, store32
from directkafka.kafka.kernels.compile import INT64, INT64S, helper, kernel, unwrapped
from directkafka.payloads.avro.kernels.numbers import (
    CUT_OFF,
    NEGATIVE,
    NO_ALTERNATIVE,
    NO_ROOM,
    NO_SYMBOL,
    REFUSED,
    TOO_DEEP,
    TOO_MANY,
    read_length,
    read_long,
)
from directkafka.payloads.avro.kernels.values import (
    put_bytes,
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
    KIND,
    ROWS_MAX,
    STRUCT,
    VALIDITY,
    VALUES,
    of_node,
    put_null,
    set_valid,
)

#: Scopes in one another: lists, defaults, calls; and the numbers that are kept of each.
DEPTH_MAX: Final = 1000
FRAME_FIELDS: Final = 4
#: Elements of no bytes that a record may have; of others it cannot have more than bytes.
EMPTY_ELEMENTS_MAX: Final = 65_536
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


@helper
def _run(nodes: Any, lines: Any, frames: Any, constants: int, pc: int, row: int, at: int, end: int) -> tuple[int, int]:
    """Run a program: the position behind the record or what is wrong, and the instruction at which that is."""
    depth, empty, node, item, left = 0, 0, 0, 0, 0
    while True:
        line = pc * FIELDS
        operation = lines[line + OPERATION]
        if operation == END:
            return at, pc
        if operation == BRANCH:
            at, number = read_long(at, end)
            if at < 0:
                return at, pc
            if number < 0 or number >= lines[line + FIRST]:
                return NO_ALTERNATIVE, pc
            pc = lines[(pc + 1 + number) * FIELDS + FIRST]
        elif operation == JUMP:
            pc = lines[line + FIRST]
        elif operation == NULL:
            put_null(nodes, lines[line + NODE], row)
            pc += 1
        elif operation >= BOOLEAN and operation <= UUID:
            at = _read_value(nodes, line, lines, row, at, end, constants)
            if at < 0:
                return at, pc
            pc += lines[line + FIRST] + 1 if operation == ENUM else 1
        elif operation == LIST or operation == NEXT_ELEMENT:
            node = lines[line + NODE]
            if operation == LIST:
                if depth == DEPTH_MAX:
                    return TOO_DEEP, pc
                item = load32(of_node(nodes, node, ENDS) + 4 * row) if node >= 0 else 0
                frames[depth * FRAME_FIELDS] = row
                depth += 1
                left, begin, body = 0, pc, pc + 1
            else:
                frame = (depth - 1) * FRAME_FIELDS
                item, left = frames[frame + 1] + 1, frames[frame + 2] - 1
                begin, body = lines[line + SECOND], lines[line + FIRST]
            frame = (depth - 1) * FRAME_FIELDS
            while left == 0:
                least = lines[begin * FIELDS + SECOND]
                at, left, size = _read_block(at, end, least, empty)
                if at < 0:
                    return at, pc
                if left == 0:
                    break
                if least == 0:
                    empty += left
                if node < 0 and size >= 0:
                    at += size
                    left = 0
            if left == 0:
                row = frames[frame]
                depth -= 1
                if node >= 0:
                    store32(of_node(nodes, node, ENDS) + 4 * row + 4, item)
                    if lines[begin * FIELDS + AGAIN]:
                        set_valid(of_node(nodes, node, VALIDITY), row)
                pc = lines[begin * FIELDS + FIRST]
            else:
                frames[frame + 1], frames[frame + 2] = item, left
                if node >= 0:
                    if item >= of_node(nodes, node + 1, ROWS_MAX):
                        return NO_ROOM, pc
                    row = item
                pc = body
        elif operation >= SKIP_NUMBER and operation <= SKIP_BYTES:
            at = _skip(line, lines, at, end)
            if at < 0:
                return at, pc
            pc += 1
        elif operation == CONSTANT or operation == CALL:
            if depth == DEPTH_MAX:
                return TOO_DEEP, pc
            frame = depth * FRAME_FIELDS
            depth += 1
            if operation == CONSTANT:
                frames[frame], frames[frame + 1] = at, end
                at = constants + lines[line + SECOND]
                end = at + lines[line + FIRST]
                pc += 1
            else:
                frames[frame] = pc + 1
                pc = lines[line + FIRST]
        elif operation == CONSTANT_END or operation == RETURN:
            depth -= 1
            frame = depth * FRAME_FIELDS
            if operation == CONSTANT_END:
                at, end = frames[frame], frames[frame + 1]
                pc += 1
            else:
                pc = frames[frame]
        elif operation == VALID:
            set_valid(of_node(nodes, lines[line + NODE], VALIDITY), row)
            pc += 1
        else:
            return REFUSED, pc


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
        programs: of each record, its program's first instruction; below 0: it is null.
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
            put_null(of_nodes, 0, record)
            continue
        start, end = data + starts[record], data + ends[record]
        at, pc = _run(of_nodes, of_lines, of_frames, constants, programs[record], record, start, end)
        if at == NO_ROOM:
            frames[0] = of_lines[pc * FIELDS + NODE]
            return record
        if at != end:
            put_null(of_nodes, 0, record)
            if of_node(of_nodes, 0, KIND) == STRUCT:
                set_valid(of_node(of_nodes, 0, VALIDITY), record)
            count = problems[last] * PROBLEM_FIELDS
            problems[count] = record
            problems[count + 1] = at if at < 0 else BEHIND_THE_END
            problems[count + 2] = pc
            problems[count + 3] = at - start if at >= 0 else 0
            problems[last] += 1
    return rows
