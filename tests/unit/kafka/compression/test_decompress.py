import gzip
import struct
from typing import Any

import cramjam
import numpy as np
import pytest
from tests.record_encoder import CODECS, LZ4_FRAME, XERIAL_HEADER, lz4_frame, xerial

from directkafka.kafka.compression.decompress import (
    CODEC_NAMES,
    CorruptDataError,
    RoomError,
    Scratch,
    TooLargeError,
    decompress_into,
)

LZ4, SNAPPY = CODECS["lz4"], CODECS["snappy"]
DATA = b"".join(b"%d,UA,1545,EWR,IAH,%d;" % (number, number * 7919 % 1000) for number in range(12_000))
NOISE = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8).tobytes()

SHAPES: dict[str, tuple[int, Any]] = {
    "gzip": (1, gzip.compress),
    "gzip of two members": (1, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "snappy raw": (SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "snappy of Java": (SNAPPY, xerial),
    "snappy of Java in small chunks": (SNAPPY, lambda data: xerial(data, 999)),
    "lz4 of Java": (LZ4, lz4_frame),
    "lz4 of Java, stored blocks": (LZ4, lambda data: lz4_frame(data, stored=True)),
    "lz4 with linked blocks and checksums": (LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (4, lambda data: bytes(cramjam.zstd.compress(data))),
}


def array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def decompressed(codec: int, data: bytes, room: int) -> bytes:
    target = np.zeros(room, np.uint8)
    return target[: decompress_into(codec, array(data), target)].tobytes()


def test_codec_names_are_those_of_compression_type() -> None:
    assert {name: number for number, name in CODEC_NAMES.items()} == CODECS


@pytest.mark.parametrize("data", [DATA, NOISE, b"x", DATA[:65_536], DATA[:65_537]], ids=len)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_producer_compressed_comes_back(shape: str, data: bytes) -> None:
    codec, compress = SHAPES[shape]
    compressed = compress(data)
    assert decompressed(codec, compressed, len(data)) == data
    assert decompressed(codec, compressed, len(data) + 70_000) == data


@pytest.mark.parametrize("missing", [1, 10, 65_536, len(DATA)])
@pytest.mark.parametrize("shape", SHAPES)
def test_too_small_a_target_is_told_from_damage(shape: str, missing: int) -> None:
    codec, compress = SHAPES[shape]
    with pytest.raises(RoomError):
        decompressed(codec, compress(DATA), len(DATA) - missing)


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_that_are_cut_off_are_corrupt(shape: str) -> None:
    codec, compress = SHAPES[shape]
    compressed = compress(DATA)
    for length in (len(compressed) - 1, len(compressed) // 2, 17, 5):
        with pytest.raises(CorruptDataError):
            decompressed(codec, compressed[:length], 2 * len(DATA))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_nonsense_is_corrupt(codec: int) -> None:
    for data in (b"\xff" * 100, bytes(100), b"\x00"):
        with pytest.raises((CorruptDataError, RoomError)):
            decompressed(codec, data + b"!", 1000)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (LZ4_FRAME + struct.pack("<I", 65_537) + bytes(70_000), "lz4: ERROR_maxBlockSize_invalid"),
        (LZ4_FRAME + struct.pack("<I", 2**31 | 9) + bytes(8), "lz4: truncated frame"),
        (LZ4_FRAME + b"\x01\x00", "lz4: truncated frame"),
        (lz4_frame(b"data")[:-2], "lz4: truncated frame"),
        (lz4_frame(b"data") + b"junk", "lz4: truncated frame"),
        (LZ4_FRAME + struct.pack("<I", 4) + b"\xff\xff\xff\xff" + bytes(4), "lz4: ERROR_decompressionFailed"),
    ],
)
def test_a_broken_lz4_frame_says_what_is_wrong(data: bytes, words: str) -> None:
    with pytest.raises(CorruptDataError, match=words):
        decompressed(LZ4, data, 200_000)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (XERIAL_HEADER[:12], "less than the stream's header"),
        (XERIAL_HEADER + struct.pack(">i", -1) + b"abc", "chunk of 4294967295 bytes, 3 remain"),
        (XERIAL_HEADER + b"\x00\x00", "inside a length at 16"),
        (XERIAL_HEADER + struct.pack(">i", 0), "snappy"),
    ],
)
def test_a_broken_snappy_stream_says_where(data: bytes, words: str) -> None:
    with pytest.raises(CorruptDataError, match=words):
        decompressed(SNAPPY, data, 1000)


def test_a_snappy_block_that_promises_four_gigabytes_is_refused_before_any_is_written() -> None:
    with pytest.raises(RoomError):
        decompressed(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc", 1000)


def test_scratch_keeps_batches_one_behind_the_other_until_the_room_ends() -> None:
    scratch = Scratch(len(DATA) + 10, 10**6)
    source = array(lz4_frame(DATA))
    assert scratch.append(LZ4, source) is None, "it has no buffer before the first growing"
    assert scratch.append_growing(LZ4, source) == (0, len(DATA))
    assert scratch.append(LZ4, array(lz4_frame(b"behind it"))) == (len(DATA), len(DATA) + 9)
    assert scratch.append(LZ4, array(lz4_frame(b"no room"))) is None
    assert scratch.bytes[: len(DATA) + 9].tobytes() == DATA + b"behind it"
    scratch.clear()
    assert scratch.append(LZ4, array(lz4_frame(b"!"))) == (0, 1)
    assert scratch.bytes[:1].tobytes() == b"!"
    assert not scratch.bytes.flags.writeable


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_scratch_grows_to_its_limit_and_no_further(codec: str) -> None:
    from tests.record_encoder import compress

    source = array(compress(codec, bytes(100_000)))
    assert Scratch(10, 100_000).append_growing(CODECS[codec], source) == (0, 100_000)
    with pytest.raises(TooLargeError):
        Scratch(10, 99_999).append_growing(CODECS[codec], source)


def test_what_a_large_batch_needs_is_given_back_behind_it() -> None:
    scratch = Scratch(1000, 10**6)
    assert scratch.append_growing(LZ4, array(lz4_frame(bytes(4000)))) == (0, 4000)
    scratch.clear()
    assert scratch.bytes.size >= 4000, "up to four times the size are kept"
    assert scratch.append_growing(LZ4, array(lz4_frame(bytes(100_000)))) == (0, 100_000)
    scratch.clear()
    assert scratch.bytes.size == 0
    assert scratch.append_growing(LZ4, array(lz4_frame(bytes(500)))) == (0, 500)
    assert scratch.bytes.size == 1000
