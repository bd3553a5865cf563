"""Compilation of kernels, and their access to bytes through bare pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numba.core.cgutils
import numba.core.config
import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from directkafka.kafka.kernels.cache import KernelCache

Function = Callable[..., Any]
AnyFunction = TypeVar("AnyFunction", bound=Function)

# Parts of numba that carry no type annotations.
_config: Any = numba.core.config
_cgutils: Any = numba.core.cgutils
_pointer_type: Any = types.CPointer

#: Whether NUMBA_BOUNDSCHECK asks for checks.
BOUNDS_ARE_CHECKED = bool(_config.BOUNDSCHECK)

BYTES_IN = types.Array(types.uint8, 1, "C", readonly=True)
BYTES_OUT = types.uint8[::1]
INT64 = types.int64
INT32S = types.int32[::1]
INT64S = types.int64[::1]
TABLE = types.int64[:, ::1]


#: ``wide(byte)`` in kernels: the byte as int64. From an unsigned and a signed integer, numba computes a float.
wide: Callable[[Any], int] = np.int64  # type: ignore[assignment]


def kernel(signature: Any) -> Callable[[Function], Function]:
    """Compile a function at import, for exactly this signature, or load it from the disk cache; it runs without GIL."""

    def compiled(function: Function) -> Function:
        dispatcher: Any = njit(nogil=True)(function)
        dispatcher._cache = KernelCache(function)
        dispatcher.compile(signature)
        dispatcher.disable_compile()
        return dispatcher  # type: ignore[no-any-return]

    return compiled


def helper(function: AnyFunction) -> AnyFunction:
    """Compile into the kernels that call it, in place of the call: a call costs as much as what a helper does."""
    compiled: Any = njit(function, forceinline=True)
    return compiled  # type: ignore[no-any-return]


def _unwrap_pointer(_context: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return context.make_array(array)(context, builder, args[0]).data

    return _pointer_type(array.dtype)(array), codegen


def _call_memcpy(_context: Any, target: Any, at: Any, data: Any, start: Any, length: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> None:
        to, to_at, source, source_at, size = args
        _cgutils.raw_memcpy(builder, builder.gep(to, [to_at]), builder.gep(source, [source_at]), size, 1)

    return types.void(target, at, data, start, length), codegen


def _copy_by_memcpy(target: Any, at: int, data: Any, start: int, length: int) -> int:
    if length > 0:
        _memcpy(target, at, data, start, length)
        return at + length
    return at


def _copy_by_index(target: Any, at: int, data: Any, start: int, length: int) -> int:
    for i in range(length):
        target[at + i] = data[start + i]
    return at + max(length, 0)


def _unwrap_nothing(array: Any) -> Any:
    return array


_memcpy: Any = intrinsic(_call_memcpy)

#: ``unwrapped(array)``: the array's bare pointer. If whole arrays are handed from function to function, counting their
#: references costs twenty times what decoding does. The array must outlive the pointer: unwrap arguments only.
#: ``copy(target, at, data, start, length)``: append bytes, none when the length is negative; returns the position after
#: them. It is LLVM's memcpy, which the cache on disk can hold.
#: numba's bounds check sees neither pointers nor memcpy: under NUMBA_BOUNDSCHECK ``unwrapped`` returns the array, and
#: ``copy`` goes by index. ``pointer_of`` always returns the pointer.
pointer_of: Any = intrinsic(_unwrap_pointer)
unwrapped: Any = njit(_unwrap_nothing) if BOUNDS_ARE_CHECKED else pointer_of
copy: Any = njit(_copy_by_index if BOUNDS_ARE_CHECKED else _copy_by_memcpy)
