"""C functions of other packages' libraries, called from the kernels by address: CRC32C, and all codecs but snappy.

A call through Python takes longer than the checksum of a small batch, and as long as decompressing a small batch. The
kernels get the addresses as arguments, so that none is in the compiled code, which numba keeps on disk.

Where a library does not export a function by name (Windows, or google_crc32c without its C library), CRC32C is called
through Python, and a codec has no address: the kernels then leave its batches to
:mod:`directkafka.kafka.compression.decompress`.

None of these functions reads or writes out of the bounds it is given, whatever the bytes. Sources: ``crc32c_extend``
of https://github.com/google/crc32c, ``crc32c.h``; ``LZ4_decompress_safe`` of https://github.com/lz4/lz4, ``lz4.h``;
``libdeflate_gzip_decompress_ex`` of https://github.com/ebiggers/libdeflate, ``libdeflate.h``; ``ZSTD_decompressDCtx``
of https://github.com/facebook/zstd, ``zstd.h``.
"""

# ruff: noqa: PLR0917 - the signatures are those of C functions
from __future__ import annotations

import ctypes
import sys
import weakref
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import google_crc32c
import numba  # noqa: F401 - before its parts
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from directkafka.kafka.kernels.compile import BOUNDS_ARE_CHECKED, pointer_of

#: The address of a function that is not there.
NOWHERE = 0

_Crc32c = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)

#: A module and names in it: the function, then, if it needs memory to work in, what allocates and what frees that.
_LZ4_NAMES = ("lz4.block._block", "LZ4_decompress_safe")
_GZIP_NAMES = (
    "deflate._deflate",
    "libdeflate_gzip_decompress_ex",
    "libdeflate_alloc_decompressor",
    "libdeflate_free_decompressor",
)
_ZSTD_NAMES = (
    "_zstd" if sys.version_info >= (3, 14) else "backports.zstd._zstd",
    "ZSTD_decompressDCtx",
    "ZSTD_createDCtx",
    "ZSTD_freeDCtx",
)


@cache
def crc32c_address() -> int:
    """The address of ``uint32 (uint32 crc, const uint8 *data, size_t count)``; the same for the whole process."""
    return _address("google_crc32c._crc32c", "crc32c_extend") or address_of(_through_python)


class Decompressors(NamedTuple):
    """Addresses that kernels decompress with: of C functions, and of the memory that two of them work in.

    ``NOWHERE`` stands for a function that is not exported, or that was not asked for.

    Attributes:
        lz4: ``int (const char *source, char *target, int source_size, int target_size)``.
        gzip, gzip_state: libdeflate's function, and its decompressor.
        zstd, zstd_state: zstd's function, and its context.
    """

    lz4: int
    gzip: int
    gzip_state: int
    zstd: int
    zstd_state: int

    @classmethod
    def of(cls, owner: object, *, lz4: bool = True, gzip: bool = True, zstd: bool = True) -> Decompressors:
        """New decompressors of the codecs that are asked for, to be used by one thread at a time.

        The memory that they work in is freed with ``owner``, but not when the process ends: a thread may still use it
        then.
        """
        gzip_at, gzip_state = _with_state(owner, *_GZIP_NAMES) if gzip else (NOWHERE, NOWHERE)
        zstd_at, zstd_state = _with_state(owner, *_ZSTD_NAMES) if zstd else (NOWHERE, NOWHERE)
        return cls(_address(*_LZ4_NAMES) if lz4 else NOWHERE, gzip_at, gzip_state, zstd_at, zstd_state)


def address_of(function: Any) -> int:
    """The address of a ctypes function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or NOWHERE)


@cache
def _library(module: str) -> ctypes.CDLL | None:
    """An extension module, and the libraries that it is linked with."""
    try:
        return ctypes.CDLL(str(import_module(module).__file__))
    except (ImportError, OSError):
        return None


def _address(module: str, name: str) -> int:
    function = getattr(_library(module), name, None)
    return address_of(function) if function is not None else NOWHERE


def _with_state(owner: object, module: str, name: str, make: str, free: str) -> tuple[int, int]:
    """The address of a function, and of the memory that ``make`` allocates for it; freed with the owner."""
    try:
        function, make_state, free_state = (getattr(_library(module), function) for function in (name, make, free))
    except AttributeError:
        return NOWHERE, NOWHERE
    make_state.restype, free_state.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    state = make_state()
    if state is None:
        return NOWHERE, NOWHERE
    weakref.finalize(owner, free_state, state).atexit = False
    return address_of(function), int(state)


def _extend(crc: int, data: int, count: int) -> int:
    return int(google_crc32c.extend(crc, ctypes.string_at(data, count)))


#: CRC32C through google_crc32c's Python function: slower, and it takes the GIL.
_through_python = _Crc32c(_extend)

_INT32, _INT64, _POINTER = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()


def _emit(builder: Any, address: Any, result: Any, arguments: list[Any]) -> Any:
    """A call of the function at an address, whose parameters have its arguments' types."""
    function_type = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(builder.inttoptr(address, function_type.as_pointer()), arguments)


def _call_crc32c(_context: Any, address: Any, data: Any, start: Any, length: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        at, pointer, offset, size = args
        checksum = _emit(builder, at, _INT32, [_INT32(0), builder.gep(pointer, [offset]), size])
        return builder.zext(checksum, _INT64)

    return types.int64(address, data, start, length), codegen


def _call_lz4(_context: Any, address: Any, data: Any, start: Any, size: Any, target: Any, to: Any, room: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        at, source, source_at, source_size, sink, sink_at, sink_size = args
        sizes = [builder.trunc(source_size, _INT32), builder.trunc(sink_size, _INT32)]
        places = [builder.gep(source, [source_at]), builder.gep(sink, [sink_at])]
        return builder.sext(_emit(builder, at, _INT32, [*places, *sizes]), _INT64)

    return types.int64(address, data, start, size, target, to, room), codegen


def _call_gzip(
    _context: Any,
    address: Any,
    state: Any,
    data: Any,
    start: Any,
    size: Any,
    target: Any,
    to: Any,
    room: Any,
    sizes: Any,
) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        function, worker, source, source_at, source_size, sink, sink_at, sink_size, read_and_written = args
        arguments = [
            builder.inttoptr(worker, _POINTER),
            builder.gep(source, [source_at]),
            source_size,
            builder.gep(sink, [sink_at]),
            sink_size,
            read_and_written,
            builder.gep(read_and_written, [_INT64(1)]),
        ]
        return builder.sext(_emit(builder, function, _INT32, arguments), _INT64)

    return types.int64(address, state, data, start, size, target, to, room, sizes), codegen


def _call_zstd(
    _context: Any, address: Any, state: Any, data: Any, start: Any, size: Any, target: Any, to: Any, room: Any
) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        at, worker, source, source_at, source_size, sink, sink_at, sink_size = args
        places = [builder.gep(sink, [sink_at]), sink_size, builder.gep(source, [source_at]), source_size]
        return _emit(builder, at, _INT64, [builder.inttoptr(worker, _POINTER), *places])

    return types.int64(address, state, data, start, size, target, to, room), codegen


_crc32c_at: Any = intrinsic(_call_crc32c)
_lz4_at: Any = intrinsic(_call_lz4)
_gzip_at: Any = intrinsic(_call_gzip)
_zstd_at: Any = intrinsic(_call_zstd)


def _nothing(_array: Any, _start: int, _size: int) -> None:
    pass


def _first_and_last(array: Any, start: int, size: int) -> None:
    if size > 0:
        _ = array[start] + array[start + size - 1]


def _itself(pointer: Any) -> Any:
    return pointer


#: C does not check bounds: under NUMBA_BOUNDSCHECK, first and last byte are read by index before the call.
_check: Any = njit(_first_and_last if BOUNDS_ARE_CHECKED else _nothing)
_pointer: Any = pointer_of if BOUNDS_ARE_CHECKED else njit(_itself)


@njit
def crc32c(address: int, data: Any, start: int, end: int) -> int:
    """In kernels: the checksum of the bytes ``[start, end)``."""
    _check(data, start, end - start)
    return int(_crc32c_at(address, _pointer(data), start, end - start))


@njit
def lz4_block(address: int, data: Any, start: int, end: int, target: Any, to: int, room: int) -> int:
    """In kernels: decompress a block to ``target[to : to + room]``; all sizes are below 2 GiB.

    Returns:
        The number of bytes; negative when the block is damaged or the room too small.
    """
    _check(data, start, end - start)
    _check(target, to, room)
    return int(_lz4_at(address, _pointer(data), start, end - start, _pointer(target), to, room))


@njit
def gzip_member(
    address: int, state: int, data: Any, start: int, end: int, target: Any, to: int, room: int, sizes: Any
) -> int:
    """In kernels: decompress a gzip file of one member, checksum and length verified, to ``target[to : to + room]``.

    Args:
        sizes: two int64, overwritten with the bytes read and the bytes written.

    Returns:
        The number of bytes; -1 when the file is damaged or followed by other bytes, or the room is too small.
    """
    _check(data, start, end - start)
    _check(target, to, room)
    refusal = _gzip_at(address, state, _pointer(data), start, end - start, _pointer(target), to, room, _pointer(sizes))
    return int(sizes[1]) if refusal == 0 and sizes[0] == end - start else -1


@njit
def zstd_frames(address: int, state: int, data: Any, start: int, end: int, target: Any, to: int, room: int) -> int:
    """In kernels: decompress all frames to ``target[to : to + room]``.

    Returns:
        The number of bytes; negative when they are damaged or the room is too small.
    """
    _check(data, start, end - start)
    _check(target, to, room)
    return int(_zstd_at(address, state, _pointer(data), start, end - start, _pointer(target), to, room))
