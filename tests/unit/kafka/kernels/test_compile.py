import numpy as np
import pytest
from numba import types

from directkafka.kafka.kernels.compile import BYTES_IN, BYTES_OUT, INT64, copy, kernel, unwrapped


def copy_between(target: np.ndarray, data: np.ndarray, length: int) -> int:
    return copy(unwrapped(target), 1, unwrapped(data), 2, length)


SIGNATURE = INT64(BYTES_OUT, BYTES_IN, INT64)


def test_bytes_are_copied_from_where_to_where_was_said() -> None:
    compiled = kernel(SIGNATURE)(copy_between)
    target, data = np.zeros(6, np.uint8), np.arange(10, 20, dtype=np.uint8)
    data.setflags(write=False)
    assert compiled(target, data, 3) == 4
    assert target.tolist() == [0, 12, 13, 14, 0, 0]


@pytest.mark.parametrize("length", [0, -1])
def test_null_and_empty_copy_nothing(length: int) -> None:
    compiled = kernel(SIGNATURE)(copy_between)
    target, data = np.zeros(2, np.uint8), np.ones(9, np.uint8)
    data.setflags(write=False)
    assert compiled(target, data, length) == 1
    assert target.tolist() == [0, 0]


def test_a_kernel_takes_only_the_types_it_was_compiled_for() -> None:
    compiled = kernel(INT64(types.int64))(lambda number: number + 1)
    with pytest.raises(TypeError):
        compiled("41")
