"""C functions of other packages' libraries, called from the kernels by address: CRC32C and LZ4 blocks.

A call through Python costs more than the checksum of a small batch, and as much as it takes to decompress one. The
kernels get addresses as numbers, so that none is in the compiled code, which numba keeps on disk.

Where a library does not give a function's name away (Windows, or google_crc32c without its C library), CRC32C goes
through Python, and LZ4 has no address: the kernels then leave blocks to :mod:`directkafka.kafka.codecs`.

Sources: ``crc32c_extend`` of https://github.com/google/crc32c, ``crc32c.h``; ``LZ4_decompress_safe`` of
https://github.com/lz4/lz4, ``lz4.h``, which never reads or writes out of the bounds it is given.
"""

# ruff: noqa: PLR0917 - the signatures are those of C functions
from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

import google_crc32c
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from directkafka.kafka.kernel import BOUNDS_ARE_CHECKED, pointer_of

__all__ = ["NOWHERE", "crc32c", "crc32c_address", "lz4_block", "lz4_block_address"]

#: The address of a function that is not there.
NOWHERE = 0

_Crc32c = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)


@cache
def crc32c_address() -> int:
    """Where ``uint32 (uint32 crc, const uint8 *data, size_t count)`` is; it stays there."""
    return _address("google_crc32c._crc32c", "crc32c_extend") or address_of(_through_python)


@cache
def lz4_block_address() -> int:
    """Where ``int (const char *source, char *target, int source_size, int target_size)`` is, or ``NOWHERE``."""
    return _address("lz4.block._block", "LZ4_decompress_safe")


def address_of(function: Any) -> int:
    """The address of a ctypes function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or NOWHERE)


def _address(module: str, name: str) -> int:
    """Of a function in an extension module, or in a library that it is linked with."""
    try:
        return address_of(getattr(ctypes.CDLL(str(import_module(module).__file__)), name))
    except (ImportError, OSError, AttributeError):
        return NOWHERE


def _extend(crc: int, data: int, count: int) -> int:
    return int(google_crc32c.extend(crc, ctypes.string_at(data, count)))


#: The same through google_crc32c's Python function: slower, and it takes the GIL.
_through_python = _Crc32c(_extend)


def _call_crc32c(_context: Any, address: Any, data: Any, start: Any, length: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        at, pointer, offset, size = args
        crc, byte_pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        function = builder.inttoptr(at, ir.FunctionType(crc, [crc, byte_pointer, size.type]).as_pointer())
        found = builder.call(function, [crc(0), builder.gep(pointer, [offset]), size])
        return builder.zext(found, ir.IntType(64))

    return types.int64(address, data, start, length), codegen


def _call_lz4(_context: Any, address: Any, data: Any, start: Any, size: Any, target: Any, to: Any, room: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        at, source, source_at, source_size, sink, sink_at, sink_size = args
        integer, byte_pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(integer, [byte_pointer, byte_pointer, integer, integer])
        function = builder.inttoptr(at, kind.as_pointer())
        sizes = [builder.trunc(source_size, integer), builder.trunc(sink_size, integer)]
        written = builder.call(function, [builder.gep(source, [source_at]), builder.gep(sink, [sink_at]), *sizes])
        return builder.sext(written, ir.IntType(64))

    return types.int64(address, data, start, size, target, to, room), codegen


_crc32c_at: Any = intrinsic(_call_crc32c)
_lz4_at: Any = intrinsic(_call_lz4)


def _crc32c(address: int, data: Any, start: int, end: int) -> int:
    return int(_crc32c_at(address, data, start, end - start))


def _crc32c_of_array(address: int, data: Any, start: int, end: int) -> int:
    if start < end:
        _ = data[start] + data[end - 1]
    return int(_crc32c_at(address, pointer_of(data), start, end - start))


def _lz4_block(address: int, data: Any, start: int, end: int, target: Any, to: int, room: int) -> int:
    return int(_lz4_at(address, data, start, end - start, target, to, room))


def _lz4_block_of_arrays(address: int, data: Any, start: int, end: int, target: Any, to: int, room: int) -> int:
    if start < end:
        _ = data[start] + data[end - 1]
    if room > 0:
        _ = target[to] + target[to + room - 1]
    return int(_lz4_at(address, pointer_of(data), start, end - start, pointer_of(target), to, room))


#: ``crc32c(address, data, start, end)`` in kernels: the checksum of the bytes ``[start, end)``.
#: ``lz4_block(address, data, start, end, target, to, room)``: decompress a block to ``target[to : to + room]``, sizes
#: below 2 GiB; the number of bytes, negative when it is damaged or the room too small.
#: C does not check bounds: under NUMBA_BOUNDSCHECK the first and the last byte are read by index before.
crc32c: Any = njit(_crc32c_of_array if BOUNDS_ARE_CHECKED else _crc32c)
lz4_block: Any = njit(_lz4_block_of_arrays if BOUNDS_ARE_CHECKED else _lz4_block)
