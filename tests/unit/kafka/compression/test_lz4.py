"""Plain LZ4 frames taken apart inside the kernel, against the library and at the edges of its buffers."""

import random
import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.record_encoder import LZ4_FRAME, lz4_frame
from tests.unpacking import by_library, unpacked

from directkafka.kafka.compression.lz4 import LZ4

TEXT = b"".join(b"%d,UA,1545,EWR,IAH,%d;" % (number, number * 7919 % 1000) for number in range(12_000))


@pytest.mark.parametrize("data", [b"x", b"ab" * 9, bytes(100_000), TEXT, TEXT[:65_536], TEXT[:65_537]], ids=len)
@pytest.mark.parametrize("more", [0, 1, 15, 16, 17, 48, 70_000])
def test_a_plain_frame_comes_back_whatever_the_room_behind_it(data: bytes, more: int) -> None:
    assert unpacked(LZ4, lz4_frame(data), len(data) + more) == data
    assert unpacked(LZ4, lz4_frame(data, stored=True), len(data) + more) == data


@pytest.mark.parametrize("missing", [1, 2, 17, 100])
def test_too_little_room_is_left_to_the_caller(missing: int) -> None:
    assert unpacked(LZ4, lz4_frame(TEXT), len(TEXT) - missing) is None
    assert unpacked(LZ4, lz4_frame(TEXT, stored=True), len(TEXT) - missing) is None


def sequence(literals: bytes, back: int, match: int) -> bytes:
    """One sequence of a block, written by the format's description."""
    token = min(len(literals), 15) << 4 | min(match - 4, 15)
    return bytes([token]) + goes_on(len(literals)) + literals + struct.pack("<H", back) + goes_on(match - 4)


def goes_on(length: int) -> bytes:
    return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])


def framed(block: bytes) -> bytes:
    return LZ4_FRAME + struct.pack("<I", len(block)) + block + bytes(4)


@pytest.mark.parametrize("match", [4, 5, 7, 8, 9, 15, 16, 17, 18, 19, 20, 33, 274, 275, 1000])
def test_a_match_may_overlap_what_it_writes(match: int) -> None:
    literals, tail = bytes(range(1, 41)), b"the end, far enough away"
    for back in range(1, 40):
        repeated = (literals[-back:] * (match // back + 1))[:match]
        frame = framed(sequence(literals, back, match) + bytes([15 << 4, len(tail) - 15]) + tail)
        for more in (0, 1, 40, 100):
            content = unpacked(LZ4, frame, 40 + match + len(tail) + more)
            assert content == literals + repeated + tail, f"{back} back, room for {more} more"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        LZ4_FRAME,
        LZ4_FRAME + b"\x01",
        lz4_frame(TEXT)[:-1],
        lz4_frame(TEXT) + b"!",
        b"\x05" + lz4_frame(TEXT)[1:],
        bytes(cramjam.lz4.compress(TEXT)),
        framed(b"\x00\x01"),
        framed(sequence(b"abc", 4, 4) + b"\x00"),
        framed(sequence(b"abc", 0, 4) + b"\x00"),
        framed(sequence(b"abc", 1, 4)),
        framed(b"\xf0" + b"\xff" * 50),
        framed(b"\x1fa\x01\x00" + b"\xff" * 50),
        framed(b"\x50abc"),
        LZ4_FRAME + struct.pack("<I", 65_537) + bytes(70_000),
        LZ4_FRAME + struct.pack("<I", 65_537 | 1 << 31) + bytes(70_000),
        LZ4_FRAME + struct.pack("<I", 2**31 - 1) + bytes(70_000),
        framed(sequence(b"a", 1, 65_536) + b"\x10b"),
    ],
)
def test_what_is_no_plain_frame_is_left_to_the_caller(frame: bytes) -> None:
    assert unpacked(LZ4, frame, 200_000) is None


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**63), st.integers(0, 2000))
def test_what_the_kernel_accepts_the_library_reads_in_the_same_way(seed: int, room: int) -> None:
    chance = random.Random(seed)
    words = [chance.randbytes(chance.randrange(1, 12)) for _ in range(chance.randrange(1, 6))]
    data = b"".join(chance.choice(words) for _ in range(chance.randrange(200)))
    frame = bytearray(lz4_frame(data))
    assert unpacked(LZ4, bytes(frame), len(data) + room % 50) == data
    for _ in range(chance.randrange(4)):
        frame[chance.randrange(7, len(frame))] = chance.choice((0, 255, 15, 240, chance.randrange(256)))
    mine, others = unpacked(LZ4, bytes(frame), room), by_library(LZ4, bytes(frame), room)
    assert others is None or mine is None or mine == others
