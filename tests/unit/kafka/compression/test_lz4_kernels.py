"""A run of batches decompressed by one call: gzip and zstd against the libraries, and what is left to them."""

import gc
import gzip
import random
import weakref
from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.record_encoder import lz4_frame
from tests.unpacking import BY, by_library, unpacked

from directkafka.kafka.compression.lz4 import GZIP, LZ4, NO_COMPRESSION, SNAPPY, ZSTD, unpack
from directkafka.kafka.kernels import c_functions
from directkafka.kafka.kernels.c_functions import NOWHERE, Decompressors

TEXT = b"".join(b"%d,UA,1545,EWR,IAH,%d;" % (number, number * 7919 % 1000) for number in range(12_000))
RANDOM = random.Random(1).randbytes(70_000)
COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    GZIP: gzip.compress,
    ZSTD: lambda data: bytes(cramjam.zstd.compress(data, 3)),
}
each_codec = pytest.mark.parametrize("codec", COMPRESS, ids=["gzip", "zstd"])


@each_codec
@pytest.mark.parametrize("data", [b"", b"x", b"ab" * 9, bytes(100_000), TEXT, RANDOM], ids=len)
@pytest.mark.parametrize("more", [0, 1, 17, 70_000])
def test_what_was_compressed_comes_back_whatever_the_room_behind_it(codec: int, data: bytes, more: int) -> None:
    assert unpacked(codec, COMPRESS[codec](data), len(data) + more) == data


@each_codec
@pytest.mark.parametrize("missing", [1, 2, 17, 100])
def test_too_little_room_is_left_to_the_caller(codec: int, missing: int) -> None:
    assert unpacked(codec, COMPRESS[codec](TEXT), len(TEXT) - missing) is None


@each_codec
def test_damaged_bytes_are_left_to_the_caller(codec: int) -> None:
    packed = COMPRESS[codec](TEXT)
    for damaged in (packed[:1], packed[:-1], b"\x00" + packed[1:], packed + b"!"):
        assert unpacked(codec, damaged, 2 * len(TEXT)) is None


def test_gzip_of_several_members_is_left_to_the_library_that_reads_them() -> None:
    members = gzip.compress(b"first ") + gzip.compress(b"second")
    assert unpacked(GZIP, members, 100) is None
    assert by_library(GZIP, members, 100) == b"first second"


def test_several_zstd_frames_are_one() -> None:
    assert unpacked(ZSTD, COMPRESS[ZSTD](b"first ") + COMPRESS[ZSTD](b"second"), 100) == b"first second"


def test_a_bomb_stays_within_its_room() -> None:
    for codec, compress in COMPRESS.items():
        bomb = compress(bytes(50_000_000))
        assert len(bomb) < 60_000
        assert unpacked(codec, bomb, 1_000_000) is None


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(sorted(COMPRESS)), st.integers(0, 2**63), st.integers(0, 2000))
def test_what_the_kernel_accepts_the_library_reads_in_the_same_way(codec: int, seed: int, room: int) -> None:
    chance = random.Random(seed)
    words = [chance.randbytes(chance.randrange(1, 12)) for _ in range(chance.randrange(1, 6))]
    data = b"".join(chance.choice(words) for _ in range(chance.randrange(200)))
    packed = bytearray(COMPRESS[codec](data))
    assert unpacked(codec, bytes(packed), len(data) + room % 50) == data
    for _ in range(chance.randrange(4)):
        packed[chance.randrange(len(packed))] = chance.choice((0, 255, 15, 240, chance.randrange(256)))
    mine, others = unpacked(codec, bytes(packed), room), by_library(codec, bytes(packed), room)
    assert others is None or mine is None or mine == others


def run_of(members: list[tuple[int, bytes]]) -> tuple[Any, Any]:
    """The response's bytes, and a run over them."""
    starts = np.cumsum([0, *(len(data) for _, data in members)]).tolist()
    run = np.array([[0, codec, *starts[at : at + 2]] for at, (codec, _) in enumerate(members)], np.int64)
    return np.frombuffer(b"".join(data for _, data in members), np.uint8), run


def test_members_are_decompressed_one_behind_the_other_up_to_one_that_is_left() -> None:
    records, run = run_of(
        [
            (LZ4, lz4_frame(b"first " * 9)),
            (NO_COMPRESSION, b"plain"),
            (GZIP, gzip.compress(b"second")),
            (SNAPPY, bytes(cramjam.snappy.compress_raw(b"left"))),
            (ZSTD, COMPRESS[ZSTD](b"third")),
        ]
    )
    target, used, plain = np.zeros(1000, np.uint8), np.zeros(1, np.int64), run[1].tolist()

    def call(first: int) -> Any:
        return unpack(BY, records, run, first, target, used, np.zeros(2, np.int64))

    assert (call(0), used.tolist()) == (3, [60])
    assert [run[0, 2:].tolist(), run[1].tolist(), run[2, 2:].tolist()] == [[0, 54], plain, [54, 60]]
    assert (call(4), used.tolist()) == (5, [65])
    assert target[:65].tobytes() == b"first " * 9 + b"second" + b"third"


class Owner:
    """Somebody who decompresses."""


def test_without_its_c_functions_all_that_is_compressed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def unimportable(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(c_functions, "import_module", unimportable)
    c_functions._library.cache_clear()
    try:
        nothing = Decompressors.of(Owner())
    finally:
        c_functions._library.cache_clear()
    assert nothing == (NOWHERE,) * 5
    packed = {LZ4: lz4_frame(TEXT), **{codec: compress(TEXT) for codec, compress in COMPRESS.items()}}
    for codec, data in packed.items():
        records, run = run_of([(NO_COMPRESSION, b"plain"), (codec, data)])
        used, target = np.zeros(1, np.int64), np.zeros(2 * len(TEXT), np.uint8)
        assert unpack(nothing, records, run, 0, target, used, np.zeros(2, np.int64)) == 1
        assert used[0] == 0


def test_the_c_functions_are_found_where_the_packages_have_them() -> None:
    assert NOWHERE not in BY


def test_only_the_codecs_that_are_asked_for_are_made_ready() -> None:
    made = Decompressors.of(Owner(), lz4=False, zstd=False)
    assert NOWHERE not in (made.gzip, made.gzip_state)
    assert (made.lz4, made.zstd, made.zstd_state) == (NOWHERE,) * 3


def test_what_the_functions_work_in_is_freed_with_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[tuple[object, ...]] = []

    def finalize(owner: object, function: Any, state: int) -> Any:
        return weakref_finalize(owner, lambda: freed.append((function(state), state)))

    weakref_finalize = weakref.finalize
    monkeypatch.setattr(weakref, "finalize", finalize)
    owner = Owner()
    made = Decompressors.of(owner)
    assert not freed
    del owner
    gc.collect()
    assert sorted(state for _, state in freed) == sorted((made.gzip_state, made.zstd_state))
