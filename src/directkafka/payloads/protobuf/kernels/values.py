"""Values of Protocol Buffers in kernels: each into its column.

Every function gives the position behind the value, or what is wrong with it (:mod:`.wire`).
"""

# ruff: noqa: PLR0912, PLR0917, PLR1714, SIM109, C901 - as numba compiles it best
from __future__ import annotations

from typing import Any, Final

from directkafka.kafka.kernels.addresses import copy, load8, load32, load64, store8, store32, store64
from directkafka.kafka.kernels.compile import helper
from directkafka.payloads.kernels.nodes import BYTES_MAX, ENDS, VALUES, of_node
from directkafka.payloads.kernels.values import (
    CUT_OFF,
    END_MAX,
    FULL,
    NO_ROOM,
    NO_UTF8,
    TOO_LARGE,
    is_utf8,
    put_bytes,
    read_varint,
)
from directkafka.payloads.protobuf.kernels.wire import NO_TIME, read_length
from directkafka.payloads.protobuf.program import (
    BOOL,
    ENUM_NAME,
    FIRST,
    FIXED32,
    FIXED64,
    FLOAT,
    INT32,
    INT64,
    NAME_SIZE,
    SECOND,
    SECONDS,
    SFIXED32,
    SINT32,
    SINT64,
    STRING,
    UINT32,
    UINT64,
)

_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
_UINT_MAX: Final = (1 << 32) - 1
_MICROS: Final = 1_000_000
_SECONDS_MAX: Final = ((1 << 63) - 1) // _MICROS - 1
_NANOS_MAX: Final = 999_999_999


@helper
def _put_number(nodes: Any, node: int, row: int, number: int) -> int:
    """A number's digits, of an enum that has no name for it; 0, or that there is no room."""
    length, rest = 1 if number < 0 else 0, abs(number)
    digits = 1
    while rest >= 10:
        rest //= 10
        digits += 1
    length += digits
    ends = of_node(nodes, node, ENDS) + 4 * row
    start = load32(ends)
    if start + length > of_node(nodes, node, BYTES_MAX):
        return NO_ROOM if start + length <= END_MAX else FULL
    to, rest = of_node(nodes, node, VALUES) + start, abs(number)
    if number < 0:
        store8(to, 0x2D)
    for index in range(length - 1, length - digits - 1, -1):
        store8(to + index, 0x30 + rest % 10)
        rest //= 10
    store32(ends + 4, start + length)
    return 0


@helper
def _put_name(nodes: Any, program: Any, line: int, node: int, row: int, number: int, constants: int) -> int:
    """The name that an enum has for a number; 0, or that there is no room."""
    low, high = 0, program[line + SECOND]
    while low < high:
        middle = (low + high) >> 1
        if program[program[line + FIRST] + middle * NAME_SIZE] < number:
            low = middle + 1
        else:
            high = middle
    entry = program[line + FIRST] + low * NAME_SIZE
    if low == program[line + SECOND] or program[entry] != number:
        return _put_number(nodes, node, row, number)
    return put_bytes(nodes, node, row, constants + program[entry + 1], program[entry + 2])


@helper
def _put_time(values: int, row: int, operation: int, number: int) -> int:
    """The seconds of a timestamp, or its nanoseconds; what is there of the other stays. 0, or what is wrong."""
    known = load64(values + 8 * row)
    if operation == SECONDS:
        if number > _SECONDS_MAX or number < -_SECONDS_MAX:
            return TOO_LARGE
        store64(values + 8 * row, number * _MICROS + known % _MICROS)
        return 0
    if number < 0 or number > _NANOS_MAX:
        return NO_TIME
    store64(values + 8 * row, known - known % _MICROS + number // 1000)
    return 0


@helper
def _read_varint_value(
    nodes: Any, program: Any, line: int, operation: int, node: int, row: int, at: int, end: int, constants: int
) -> int:
    at, number = read_varint(at, end)
    if at < 0:
        return at
    values = of_node(nodes, node, VALUES)
    if operation == INT64:
        store64(values + 8 * row, number)
    elif operation == INT32:
        if number < _INT_MIN or number > _INT_MAX:
            return TOO_LARGE
        store32(values + 4 * row, number)
    elif operation == UINT32 or operation == SINT32:
        if number < 0 or number > _UINT_MAX:
            return TOO_LARGE
        if operation == UINT32:
            store64(values + 8 * row, number)
        else:
            store32(values + 4 * row, (number >> 1) ^ -(number & 1))
    elif operation == SINT64:
        store64(values + 8 * row, ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1))
    elif operation == UINT64:
        store64(values + 16 * row, number)
        store64(values + 16 * row + 8, 0)
    elif operation == BOOL:
        byte, bit = values + (row >> 3), 1 << (row & 7)
        store8(byte, load8(byte) | bit if number else load8(byte) & ~bit)
    else:
        problem = 0
        if operation == ENUM_NAME:
            if number < _INT_MIN or number > _INT_MAX:
                return TOO_LARGE
            problem = _put_name(nodes, program, line, node, row, number, constants)
        else:
            problem = _put_time(values, row, operation, number)
        if problem < 0:
            return problem
    return at


@helper
def read_value(
    nodes: Any, program: Any, line: int, operation: int, node: int, row: int, at: int, end: int, constants: int
) -> int:
    """A value that is no message, as a field's line says."""
    if operation < FIXED32:
        return _read_varint_value(nodes, program, line, operation, node, row, at, end, constants)
    if operation >= STRING:
        at, length = read_length(at, end)
        if at < 0:
            return at
        if operation == STRING and not is_utf8(at, at + length):
            return NO_UTF8
        problem = put_bytes(nodes, node, row, at, length)
        return problem if problem < 0 else at + length
    values, size = of_node(nodes, node, VALUES), 4 if operation <= FLOAT else 8
    if size > end - at:
        return CUT_OFF
    if operation == FIXED32:
        store64(values + 8 * row, load32(at) & _UINT_MAX)
    elif operation == FIXED64:
        store64(values + 16 * row, load64(at))
        store64(values + 16 * row + 8, 0)
    elif operation == SFIXED32 or operation == FLOAT:
        copy(values + 4 * row, at, 4)
    else:
        copy(values + 8 * row, at, 8)
    return at + size
