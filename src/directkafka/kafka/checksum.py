"""CRC32C for the kernels: the address of google_crc32c's own C function, called without Python in between.

A call from Python costs more than the checksum of a small batch. The kernels take the address as a number, so that
none is in the compiled code, which numba keeps on disk.

Source: https://github.com/google/crc32c (``crc32c_extend`` of ``crc32c.h``).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import google_crc32c
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from directkafka.kafka.kernel import BOUNDS_ARE_CHECKED, pointer_of

__all__ = ["crc32c", "crc32c_address"]

_Function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)


@cache
def crc32c_address() -> int:
    """Where the C function ``uint32 (uint32 crc, const uint8 *data, size_t count)`` is; it stays there."""
    return address_of(_c_function() or _through_python)


def address_of(function: Any) -> int:
    """The address of a ctypes function."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _c_function() -> Any:
    """The function in the library that google_crc32c's extension module is linked with; None where it has no name.

    It has none where google_crc32c was installed without its C library, and on Windows, which does not look for
    names in what a library itself has loaded.
    """
    try:
        from google_crc32c import _crc32c

        return ctypes.CDLL(_crc32c.__file__).crc32c_extend
    except (ImportError, OSError, AttributeError):
        return None


def _extend(crc: int, data: int, count: int) -> int:
    return int(google_crc32c.extend(crc, ctypes.string_at(data, count)))


#: The same through google_crc32c's Python function: slower, and it takes the GIL.
_through_python = _Function(_extend)


def _call_address(_context: Any, address: Any, data: Any, start: Any, length: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        at, pointer, offset, size = args
        crc, byte_pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        function = builder.inttoptr(at, ir.FunctionType(crc, [crc, byte_pointer, size.type]).as_pointer())
        found = builder.call(function, [crc(0), builder.gep(pointer, [offset]), size])
        return builder.zext(found, ir.IntType(64))

    return types.int64(address, data, start, length), codegen


_crc32c_at: Any = intrinsic(_call_address)


def _crc32c(address: int, data: Any, start: int, end: int) -> int:
    return int(_crc32c_at(address, data, start, end - start))


def _crc32c_of_array(address: int, data: Any, start: int, end: int) -> int:
    if start < end:
        _ = data[start] + data[end - 1]
    return int(_crc32c_at(address, pointer_of(data), start, end - start))


#: ``crc32c(address, data, start, end)`` in kernels: the checksum of the bytes ``[start, end)``. C does not check
#: bounds: under NUMBA_BOUNDSCHECK the first and the last byte are read by index before.
crc32c: Any = njit(_crc32c_of_array if BOUNDS_ARE_CHECKED else _crc32c)
