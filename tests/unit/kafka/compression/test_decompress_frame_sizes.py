"""What compressed bytes say of their size, as other programs write it."""

import gzip
import struct
from typing import Any

import cramjam
import lz4.frame
import numpy as np
import pytest
from tests.record_encoder import CODECS, LZ4_FRAME, XERIAL_HEADER, compress, lz4_frame, xerial

from directkafka.kafka.compression.decompress import declared_bytes


def declared(codec: str, data: bytes) -> int:
    return declared_bytes(CODECS[codec], np.frombuffer(data, np.uint8))


def zstd_frame(data: bytes, *, has_size: bool) -> bytes:
    """As the reference library writes it, whose module has another name before Python 3.14."""
    import importlib
    import sys

    zstd: Any = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    options = {zstd.CompressionParameter.content_size_flag: int(has_size)}
    frame: bytes = zstd.compress(data, options=options)
    return frame


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, 10_000_000])
@pytest.mark.parametrize(
    ("codec", "writer"),
    [
        ("gzip", gzip.compress),
        ("snappy", lambda data: bytes(cramjam.snappy.compress_raw(data))),
        ("snappy", xerial),
        ("lz4", lambda data: lz4.frame.compress(data, store_size=True)),
        ("zstd", lambda data: zstd_frame(data, has_size=True)),
    ],
)
def test_the_size_is_what_was_compressed(codec: str, writer: Any, size: int) -> None:
    assert declared(codec, writer(bytes(size))) == size


def test_frames_of_streams_say_nothing() -> None:
    assert declared("lz4", lz4_frame(bytes(1000))) == 0
    assert declared("lz4", lz4.frame.compress(bytes(1000), store_size=False)) == 0
    assert declared("zstd", zstd_frame(bytes(1000), has_size=False)) == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_bytes_that_are_cut_off_or_nonsense_say_something_or_nothing_but_are_no_error(codec: str) -> None:
    whole = compress(codec, bytes(range(256)) * 10)
    for data in (*(whole[:length] for length in range(40)), b"\xff" * 30, LZ4_FRAME, XERIAL_HEADER + b"\xff" * 20):
        assert 0 <= declared(codec, data) < 2**64


def test_a_lie_of_eight_bytes_is_a_number_like_any_other() -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**60) + bytes(10)
    assert declared("zstd", frame) == 2**60
