import ctypes
import random

import google_crc32c
import numpy as np
import pytest

from directkafka.kafka.kernels import c_functions
from directkafka.kafka.kernels.c_functions import crc32c, crc32c_address
from directkafka.kafka.kernels.compile import BYTES_IN, INT64, kernel, unwrapped

CHANCE = random.Random(1)
DATA = CHANCE.randbytes(70_000)


def checksum_of(address: int, data: np.ndarray, start: int, end: int) -> int:
    return crc32c(address, unwrapped(data), start, end)


compiled = kernel(INT64(INT64, BYTES_IN, INT64, INT64))(checksum_of)
ADDRESSES = {"by C": crc32c_address(), "through Python": c_functions.address_of(c_functions._through_python)}


@pytest.mark.parametrize("way", ADDRESSES)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 61, 100, 255, 1000, 1023, 4096, 16_384, 65_537])
def test_a_kernel_s_checksum_is_google_crc32c_s(way: str, length: int) -> None:
    data = np.frombuffer(DATA, np.uint8)
    for start in (0, 1, 3, 8, 21):
        expected = google_crc32c.value(DATA[start : start + length])
        assert compiled(ADDRESSES[way], data, start, start + length) == expected


def test_the_check_value_of_the_standard() -> None:
    for address in ADDRESSES.values():
        assert compiled(address, np.frombuffer(b"123456789", np.uint8), 0, 9) == 0xE3069283


def test_where_the_c_function_has_no_name_python_s_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def unloadable(_name: str) -> ctypes.CDLL:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", unloadable)
    forget()
    try:
        assert crc32c_address() == ADDRESSES["through Python"]
    finally:
        forget()


def forget() -> None:
    crc32c_address.cache_clear()
    c_functions._library.cache_clear()


def test_the_c_function_is_found_where_google_crc32c_has_one() -> None:
    assert google_crc32c.implementation == "c"
    assert ADDRESSES["by C"] != ADDRESSES["through Python"]
