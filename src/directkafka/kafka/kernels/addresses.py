"""Memory by address, in kernels: Arrow's buffers are many, of several types, and read-only as often as not.

Nothing here looks at bounds: whoever calls has made room, and keeps the buffers alive. No address needs to be aligned.
"""

from __future__ import annotations

from typing import Any, Final

import numba  # noqa: F401 - before its parts
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_inline: Any = intrinsic
_memcpy: Any = cgutils.raw_memcpy
_bits: Any = ir.IntType

#: Bytes that :func:`scan` and :func:`scan_and_copy` read, and the latter writes, whatever is in them.
SCANNED: Final = 16
_VECTOR: Any = ir.VectorType(_bits(8), SCANNED)


def _pointer(builder: Any, address: Any, to: Any) -> Any:
    return builder.inttoptr(address, to.as_pointer())


def _load(builder: Any, address: Any, to: Any) -> Any:
    value = builder.load(_pointer(builder, address, to))
    value.align = 1
    return value


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, _pointer(builder, address, value.type)).align = 1


def _loader(bits: int, numba_type: Any) -> Any:
    def typed(_typing: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = _load(builder, arguments[0], _bits(bits))
            extend = builder.zext if bits == 8 else builder.sext
            return value if bits == 64 else extend(value, _bits(64))

        return numba_type(types.int64), generate

    return typed


def _storer(bits: int) -> Any:
    def typed(_typing: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, value = arguments
            _store(builder, value if bits == 64 else builder.trunc(value, _bits(bits)), address)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return typed


def _float_storer(bits: int) -> Any:
    def typed(_typing: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, value = arguments
            _store(builder, value if bits == 64 else builder.fptrunc(value, ir.FloatType()), address)
            return context.get_dummy_value()

        return types.void(types.int64, types.float64), generate

    return typed


@_inline
def copy(_typing: Any, to: Any, source: Any, count: Any) -> Any:
    """``copy(to, source, count)``: copy bytes from one address to another (LLVM's memcpy, which inlines constants)."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        target, origin = (_pointer(builder, address, _bits(8)) for address in arguments[:2])
        _memcpy(builder, target, origin, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _special(builder: Any, vector: Any) -> Any:
    """A bit for each byte that is no plain character of a JSON string: quotes, backslashes, controls, UTF-8."""

    def repeated(value: int) -> Any:
        return ir.Constant(_VECTOR, [value] * SCANNED)

    mask = builder.icmp_unsigned("==", vector, repeated(0x22))
    mask = builder.or_(mask, builder.icmp_unsigned("==", vector, repeated(0x5C)))
    # Signed: below 0x20 are controls, and what begins or goes on with a multi-byte character.
    mask = builder.or_(mask, builder.icmp_signed("<", vector, repeated(0x20)))
    return builder.zext(builder.bitcast(mask, _bits(SCANNED)), _bits(64))


@_inline
def scan(_typing: Any, _address: Any) -> Any:
    """``scan(address)``: of the 16 bytes there, a bit for each that is no plain character of a JSON string."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _special(builder, _load(builder, arguments[0], _VECTOR))

    return types.int64(types.int64), generate


@_inline
def scan_and_copy(_typing: Any, _to: Any, _address: Any) -> Any:
    """``scan_and_copy(to, address)``: the same, and all 16 bytes are copied."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vector = _load(builder, arguments[1], _VECTOR)
        _store(builder, vector, arguments[0])
        return _special(builder, vector)

    return types.int64(types.int64, types.int64), generate


@_inline
def trailing_zeros(_typing: Any, _value: Any) -> Any:
    """``trailing_zeros(bits)``: the number of the lowest bit that is set; one must be."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(_bits(1), 1))

    return types.int64(types.int64), generate


@_inline
def leading_zeros(_typing: Any, _value: Any) -> Any:
    """``leading_zeros(bits)``: how many bits stand above the highest one that is set; one must be."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(_bits(1), 1))

    return types.int64(types.int64), generate


@_inline
def multiply_high(_typing: Any, _first: Any, _second: Any) -> Any:
    """``multiply_high(first, second)``: the upper 64 bits of the product of two uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = [builder.zext(argument, _bits(128)) for argument in arguments]
        product = builder.lshr(builder.mul(*wide), ir.Constant(_bits(128), 64))
        return builder.trunc(product, _bits(64))

    return types.uint64(types.uint64, types.uint64), generate


@_inline
def bits_of(_typing: Any, _number: Any) -> Any:
    """``bits_of(double)``: as an int64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _bits(64))

    return types.int64(types.float64), generate


@_inline
def load_float(_typing: Any, _address: Any) -> Any:
    """``load_float(address)``: the float there, as a double."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(_load(builder, arguments[0], ir.FloatType()), ir.DoubleType())

    return types.float64(types.int64), generate


@_inline
def double_of(_typing: Any, _number: Any) -> Any:
    """``double_of(bits)``: the double that an int64 has the bits of."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


#: ``load8(address)``: the byte there, from 0 to 255; the other two in the machine's byte order, with their sign.
load8: Any = _inline(_loader(8, types.int64))
load32: Any = _inline(_loader(32, types.int64))
load64: Any = _inline(_loader(64, types.int64))
#: ``store8(address, value)`` and its like: the lowest bits of an int64.
store8: Any = _inline(_storer(8))
store16: Any = _inline(_storer(16))
store32: Any = _inline(_storer(32))
store64: Any = _inline(_storer(64))
#: ``store_float(address, value)``: rounded to the nearest float, and ``store_double``: as it is.
store_float: Any = _inline(_float_storer(32))
store_double: Any = _inline(_float_storer(64))
