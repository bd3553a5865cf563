"""Compiled kernels of the Arrow-to-COPY encoder: columns of wire values become rows.

Wire format (binary COPY): a row is its number of fields (int16), then each field as its length in bytes
(int32, -1 for null) and its value; all integers big-endian. The file begins with a signature and ends with -1.

A column reaches :func:`interleave` as one line of ``columns``: its fixed width in bytes or 0, the addresses of
values, of int64 offsets (varying width only), of the validity bitmap (0 when nothing is null), and the number
of the first bit in it. The caller keeps the buffers alive and has made room: no bound is checked here.

Input goes by address, because Arrow's buffers are read-only as often as not, and numba takes that for another
type. All signatures are eager and cached on disk, so an executor compiles nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from directkafka.kafka.kernels.addresses import copy, load8, load64
from directkafka.kafka.kernels.compile import kernel

#: width, values, offsets, validity, first bit.
COLUMN_FIELDS: Final = 5

#: Before an array's elements.
ARRAY_HEADER_BYTES: Final = 20

#: Header of four int16, then at most 11 groups of four digits: 38 digits moved by up to 3 places.
NUMERIC_BYTES_MAX: Final = 8 + 2 * 11

_LIMBS: Final = 5
_SIGN_NEGATIVE: Final = 0x4000


@kernel("void(uint8[::1], int64, int64)")
def _put32(out: Any, position: Any, value: Any) -> None:
    out[position] = (value >> 24) & 0xFF
    out[position + 1] = (value >> 16) & 0xFF
    out[position + 2] = (value >> 8) & 0xFF
    out[position + 3] = value & 0xFF


@kernel("int64(int64, int64[:, ::1], uint8[::1])")
def interleave(rows: Any, columns: Any, out: Any) -> Any:
    """Write ``rows`` rows to ``out``; returns the number of bytes written."""
    count = columns.shape[0]
    base = np.int64(out.ctypes.data)
    position = np.int64(0)
    for row in range(rows):
        out[position] = (count >> 8) & 0xFF
        out[position + 1] = count & 0xFF
        position += 2
        for column in range(count):
            width, values, offsets, validity, first_bit = columns[column]
            bit = first_bit + row
            if validity != 0 and not (load8(validity + (bit >> 3)) >> (bit & 7)) & 1:
                _put32(out, position, -1)
                position += 4
                continue
            target = base + position + 4
            if width == 8:
                copy(target, values + row * 8, 8)
            elif width == 4:
                copy(target, values + row * 4, 4)
            elif width != 0:
                copy(target, values + row * width, width)
            else:
                start = load64(offsets + row * 8)
                width = load64(offsets + row * 8 + 8) - start
                copy(target, values + start, width)
            _put32(out, position, width)
            position += 4 + width
    return position


@kernel("int64(int64[::1], int64, int64[::1], int64, uint8[::1], int64[::1])")
def encode_arrays(lists: Any, rows: Any, element: Any, oid: Any, out: Any, offsets: Any) -> Any:  # noqa: PLR0917
    """Encode lists as one-dimensional arrays of Postgres.

    An array is: number of dimensions, whether an element is null, the elements' type (three int32), for each
    dimension its size and its first index (two int32), then the elements, each as a field of a row. An empty array has
    no dimension. Source: ``array_recv`` in Postgres' ``arrayfuncs.c``.

    Args:
        lists: ``rows + 1`` int64 positions in the elements.
        rows: number of lists.
        element: the elements' line, as for :func:`interleave`.
        oid: of the elements' type.
        out: receives the arrays.
        offsets: receives ``rows + 1`` positions in ``out``.

    Returns:
        The number of bytes written.
    """
    width, values, element_offsets, validity, first_bit = element
    base = np.int64(out.ctypes.data)
    position = np.int64(0)
    offsets[0] = 0
    for row in range(rows):
        start, end = lists[row], lists[row + 1]
        header = position
        _put32(out, position, 1 if end > start else 0)
        _put32(out, position + 4, 0)
        _put32(out, position + 8, oid)
        position += 12
        if end > start:
            _put32(out, position, end - start)
            _put32(out, position + 4, 1)
            position += 8
        for index in range(start, end):
            bit = first_bit + index
            if validity != 0 and not (load8(validity + (bit >> 3)) >> (bit & 7)) & 1:
                _put32(out, header + 4, 1)
                _put32(out, position, -1)
                position += 4
                continue
            size, source = width, values + index * width
            if width == 0:
                first = load64(element_offsets + index * 8)
                size = load64(element_offsets + index * 8 + 8) - first
                source = values + first
            _put32(out, position, size)
            copy(base + position + 4, source, size)
            position += 4 + size
        offsets[row + 1] = position
    return position


@kernel("int64(uint32[::1], int64)")
def _divide(limbs: Any, divisor: Any) -> Any:
    """Divide the number (32-bit limbs, lowest first) in place; returns the remainder."""
    remainder = np.uint64(0)
    by = np.uint64(divisor)
    for index in range(_LIMBS - 1, -1, -1):
        part = (remainder << np.uint64(32)) | np.uint64(limbs[index])
        limbs[index] = np.uint32(part // by)
        remainder = part % by
    return np.int64(remainder)


@kernel("void(uint32[::1], int64)")
def _multiply(limbs: Any, factor: Any) -> None:
    carry = np.uint64(0)
    for index in range(_LIMBS):
        part = np.uint64(limbs[index]) * np.uint64(factor) + carry
        limbs[index] = np.uint32(part & np.uint64(0xFFFFFFFF))
        carry = part >> np.uint64(32)


@kernel("boolean(int64, int64, uint32[::1])")
def _magnitude(low: Any, high: Any, limbs: Any) -> Any:
    """Split a two's complement 128-bit number into sign and limbs; returns whether it is negative."""
    negative = (np.uint64(high) >> np.uint64(63)) == np.uint64(1)
    low, high = np.uint64(low), np.uint64(high)
    if negative:
        low = ~low + np.uint64(1)
        high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
    mask = np.uint64(0xFFFFFFFF)
    limbs[0] = np.uint32(low & mask)
    limbs[1] = np.uint32(low >> np.uint64(32))
    limbs[2] = np.uint32(high & mask)
    limbs[3] = np.uint32(high >> np.uint64(32))
    limbs[4] = np.uint32(0)
    return negative


@kernel("void(uint8[::1], int64, int64)")
def _put16(out: Any, position: Any, value: Any) -> None:
    out[position] = (value >> 8) & 0xFF
    out[position + 1] = value & 0xFF


@kernel("void(int64, int64, int64, uint8[::1], int64[::1])")
def encode_numeric(values: Any, rows: Any, scale: Any, out: Any, offsets: Any) -> None:
    """Encode decimal128 values as ``numeric``.

    A ``numeric`` is: number of base-10000 digits, weight of the first one, sign, decimal places (four int16),
    then the digits. The decimal point lies between two digits, so a scale that is no multiple of four is
    filled up first.

    Args:
        values: address of two uint64 per value, low then high (Arrow's layout on a little-endian machine).
        rows: number of values.
        scale: decimal places of the Arrow type, 0 to 38.
        out: room for :data:`NUMERIC_BYTES_MAX` bytes per value.
        offsets: receives ``rows + 1`` positions in ``out``.
    """
    limbs = np.empty(_LIMBS, dtype=np.uint32)
    digits = np.empty(12, dtype=np.int64)
    places = (scale + 3) // 4
    fill = 10 ** (places * 4 - scale)
    position = np.int64(0)
    offsets[0] = 0
    for row in range(rows):
        negative = _magnitude(load64(values + row * 16), load64(values + row * 16 + 8), limbs)
        _multiply(limbs, fill)
        count = 0
        while limbs[0] | limbs[1] | limbs[2] | limbs[3] | limbs[4]:
            digits[count] = _divide(limbs, 10000)
            count += 1
        lowest = 0
        while lowest < count and digits[lowest] == 0:
            lowest += 1
        _put16(out, position, count - lowest)
        _put16(out, position + 2, count - 1 - places if count else 0)
        _put16(out, position + 4, _SIGN_NEGATIVE if negative else 0)
        _put16(out, position + 6, scale)
        position += 8
        for index in range(count - 1, lowest - 1, -1):
            _put16(out, position, digits[index])
            position += 2
        offsets[row + 1] = position


@kernel("int64(uint8)")
def _hexadecimal(character: Any) -> Any:
    if 48 <= character <= 57:
        return np.int64(character) - 48
    lower = np.int64(character) | 0x20
    if 97 <= lower <= 102:
        return lower - 87
    return -1


@kernel("int64(int64, int64[::1], int64, uint8[::1])")
def encode_uuid(values: Any, offsets: Any, rows: Any, out: Any) -> Any:
    """Parse UUIDs as text (32 hexadecimal digits, hyphens and braces anywhere, as Postgres reads them).

    An empty value is left as zeros: it is what a null looks like here. One of hyphens and braces alone is no UUID.

    Returns:
        The first row that is no UUID, or -1.
    """
    for row in range(rows):
        digit_count = 0
        for index in range(offsets[row], offsets[row + 1]):
            character = load8(values + index)
            if character in (45, 123, 125):
                continue
            digit = _hexadecimal(character)
            if digit < 0 or digit_count == 32:
                return row
            shift = 4 if digit_count % 2 == 0 else 0
            out[row * 16 + digit_count // 2] |= np.uint8(digit << shift)
            digit_count += 1
        if digit_count != 32 and offsets[row + 1] > offsets[row]:
            return row
    return -1
